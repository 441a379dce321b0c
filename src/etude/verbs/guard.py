"""What a final training is judged by, looked at in this process before anything is started.

Each trial looks again where it runs: with another seed its data may be split otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from etude.core.errors import ConfigError, ResultError
from etude.core.signature import Definition
from etude.core.text import brief
from etude.data.joined import joined
from etude.data.leaks import cannot_tell, judge
from etude.data.seen import Seen, read_rows
from etude.fit.weights import Weights
from etude.results.rebuilt import data_of

TRAIN: Final = "train"
BOTH: Final = "train+valid"


def joins(on: object) -> bool:
    """Return whether what a call says of the data asks for the training and the validation part as one.

    Raises:
        ConfigError: It says something else.
    """
    if on not in (TRAIN, BOTH):
        raise ConfigError(
            f"on={brief(on)} is no part of the data to train on. Pass {TRAIN!r}, or {BOTH!r} for both as one."
        )
    return on == BOTH


def look(
    experiment: Definition,
    params: Mapping[str, Any],
    begins: Sequence[tuple[Weights, Seen]],
    *,
    seed: int,
    both: bool,
) -> list[str]:
    """Make sure that no weights know rows that a training is judged by, and return what should be told.

    The data function is called only if there is something to compare, or to join. If it cannot be called in this
    process, that is left to the trials.

    Args:
        experiment: Whose functions are run.
        params: The configuration.
        begins: The weights to begin with, and what they have seen.
        seed: The training seed.
        both: Whether the training and the validation part are to be one.

    Raises:
        ConfigError: They do, or the parts of the data cannot be one.
    """
    if "data" not in experiment.functions:
        if both:
            raise ConfigError(
                f"on={BOTH!r} needs the parts of the data, and the experiment has no data function. Load the data in "
                "one that returns etude.Data(train, valid, test): etude.Experiment(train, data=data, ...)."
            )
        return [cannot_tell(one.name, "the experiment has no data function") for one, _ in begins]
    if not both and all(seen.nothing for _, seen in begins):
        return [cannot_tell(one.name, f"where they are from, {why}") for one, seen in begins for why in seen.unknown]
    try:
        found = data_of(experiment, params, seed)
    except Exception as error:
        return [
            f"data() failed in this process ({type(error).__name__}: {error}), so its rows are looked at by each trial "
            "alone, when it runs."
        ]
    try:
        found = joined(found) if both else found
    except ResultError as error:
        raise ConfigError(str(error)) from error
    if not begins:
        return []
    rows = read_rows(found)
    notes: list[str] = []
    for one, seen in begins:
        finding = judge(rows, seen, name=one.name)
        if finding.refusal:
            raise ConfigError(finding.refusal)
        notes += finding.notes
    return notes
