"""Taking layers out of PyTorch models, so that the rest still runs.

``plan`` is the way in, and ``replay`` the way for workers. In the order in which a removal goes:

what there is
    ``example`` and ``fake`` make a run possible, ``copies`` keeps the model as it is, ``unfit`` and ``unrun`` say
    why it cannot be. ``tracing`` runs it, and ``trace`` is what a run left: ``nested``, ``names``, ``layers``,
    ``operations``, ``scalars``.
what it means
    ``flow`` knows what depends on what, ``joins`` where values meet, ``sources`` who speaks in them. ``meaning``
    knows what an axis is, by ``positions``, ``sameness``, ``permutations`` and ``attended``; ``channels``,
    ``producers`` and ``labels`` whose its width is, and ``states`` what comes back in the next step.
what stands for a result
    ``order`` asks ``branches`` first, with ``vanishing``, ``modulation`` and ``meeting``; then identity; then
    ``shaping``, with ``laying``. Each answer is one of ``rules``. ``choices`` are made of other things, and
    ``merging`` makes one rule for calls that look alike.
the ladder
    ``ladder`` takes one component after the other, ``climbing`` one module up the rungs, ``choosing`` its stand-in.
    ``uncalled`` and ``elsewhere`` are for modules that nobody calls, ``parametrized`` and ``unparametrized`` for
    what makes weights, ``parts``, ``heads`` and ``attention`` for parts of layers. ``fitting`` and ``widths``
    resize what is around, within the ``budget``; ``reach`` sees what goes idle, ``refitting`` what was made too
    early, ``repeats`` what is known from a block like it, ``numbering`` which block is the first.
the plan
    ``edits`` are plain data, ``assembling`` makes a plan of them, ``words`` says it.
carried out
    ``apply``, with ``standin``, ``adapter``, ``constants``, ``disguise``, ``resize``, ``cuts`` and ``padding``.
checked
    ``check`` asks others than those who planned: ``reexecution``, ``remaining``, ``resized``, ``dependence``,
    ``apart``, ``comparing`` and ``without_effect``.
"""
