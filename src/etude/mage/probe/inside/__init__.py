"""What runs inside a watched program.

These modules are loaded by their paths, under private names, and hand each other over as arguments: the program's
interpreter need not have Étude, and none of their names can hide one of the program's.

what is common
    ``begin`` puts everything in place, ``seen`` keeps and writes what was seen, ``plain`` makes plain values and
    digests, ``imports`` tells when the program has imported a library.
what is watched
    ``calls`` counts calls of functions and sees seeds, ``settings`` reads flags and configurations, ``modules``
    looks at models of PyTorch, ``operators`` at what they calculate, ``loaders`` at their batches, ``fits`` at
    estimators, ``layers`` at Keras.
what may be run
    ``driver`` runs an experiment of a script.
"""
