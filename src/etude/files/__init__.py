"""Experiments as files: ``study.yaml`` says which verb is called with what, and is read strictly.

From the text to the call: ``source`` (texts, places in them, errors), ``scalars`` (what a plain word means), ``nodes``
and ``composing`` (YAML, with includes and variables; ``mends`` where it is none), ``given`` (what the command line says
besides), ``keys`` (what may stand there: the verbs' arguments), ``scripts`` (where the experiment is), ``domains``,
``calls``, ``spaces`` and ``values`` (what it means), ``document`` and ``reading`` (all of it together), ``wording``
(errors in the words of a file). The other way: ``writing`` (a study as a file) and ``schema`` (for editors). Nothing in
a file is ever run.
"""
