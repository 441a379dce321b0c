"""Ablations of code that nobody parametrised: variants are written, verified, approved, and then an ordinary study.

In the order in which a variant comes about:

what there is
    ``tree`` freezes the project's files, ``annotations`` finds what the user has marked, ``hints`` reads lists in
    plain words, ``suggesting`` proposes marks where there are none.
what is wanted
    ``variants`` are values: what is to go, how that is meant, and by which ``witnesses`` it is known to be gone.
    ``planning`` makes them of marks and hints. ``rules`` writes those that need no language model.
what was written
    ``reply`` finds ``blocks`` in what somebody answered, ``patch`` makes a change of the tree of them, all or none.
    ``prompts`` is the only place with words for models.
what it does
    ``static`` looks at the change itself, ``probe`` sees what the program does, in a ``sandbox``, and leaves
    ``facts``. ``judge`` holds them against the witnesses, and gives ``verdicts``.
who is asked
    ``backends`` reach language models, programs and people; ``budget`` says what may still be spent.
the loop
    ``loop`` decides what comes next, ``work`` does it and writes everything into the study's journal, by ``book``.
    ``review`` shows a variant to a person, ``handover`` makes an ablation of those that were approved.
"""
