"""What can be recorded of an example when the criterion sees it. No framework is needed to name it."""

from __future__ import annotations

from typing import Final

LOSS: Final = "loss"
"""The example's own loss: of several (tokens, pixels, outputs) the mean of those that are not ignored."""

CORRECT: Final = "correct"
"""Whether the true class has the highest score: 1 or 0; of several predictions, the share that is right."""

PROBABILITY: Final = "probability"
"""The probability that the model gives the true class; of several predictions, their mean."""

EL2N: Final = "el2n"
"""The Euclidean norm of the probabilities minus the target; of several predictions, the mean."""

ASPECTS: Final = (LOSS, CORRECT, PROBABILITY, EL2N)

OF_CLASSES: Final = frozenset({CORRECT, PROBABILITY, EL2N})
"""These need a loss of classes; a regression has none."""
