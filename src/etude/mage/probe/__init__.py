"""What a program does, seen without touching it.

``run`` starts the program in a sandbox and reads the facts that it leaves. What sees them runs in the program's own
process, is started by ``first/sitecustomize.py``, and lies in ``inside``: scripts that need the standard library alone,
and know a framework only when the program has imported it.
"""
