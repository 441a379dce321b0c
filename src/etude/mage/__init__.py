"""Ablations of code that nobody parametrised: variants are written, verified, approved, and then an ordinary study.

In this folder lies what all of it speaks of: a project's ``tree``, what its user has marked (``annotations``), the
``variants`` that are wanted, the ``witnesses`` by which they are known to be done, ``facts`` of programs that ran, and
``verdicts``. The rooms, each of which knows only those above it:

``sources``
    What the sources of a project say. Nothing there runs them.
``networks``
    What a network is made of, and what it means to take a module out.
``patch``
    From an answer to a change of the tree: all of it, or none.
``rules``, ``plan``
    Variants that need no language model; what is wanted, by marks and hints.
``static``, ``sandbox``, ``probe``, ``judge``
    The rungs that a change climbs: read it, run it apart from the machine, see what it does, compare with its claims.
``backends``, ``asking``
    Models, programs and people who may be asked; what they are asked, and what that may cost.
``handover``
    Accepted variants become an ordinary ablation, or sources of their own.
``loop``, ``review``
    What comes next and who does it, written into the study's journal; who says yes in the end.
"""
