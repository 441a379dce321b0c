"""Which weights to begin with: chosen by short probes, each of which begins with some of them."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from etude.core.errors import ConfigError
from etude.core.numbers import is_number
from etude.core.text import brief, show

SHARE: Final = 0.01
"""Of a run's epochs, what all probes may take together: where weights begin says more than what a probe trains."""

MEMORISED: Final = 0.75
"""Weights whose training loss is below so much of their validation loss know their examples by heart."""

LOSS: Final = "loss"
"""A metric with this in its name is one of which less is better."""


@dataclass(frozen=True)
class Auto:
    """Let short probes choose what a training begins with.

    Random weights, and each candidate, are trained for a small part of the first epoch. The one that is judged best
    then is what the training begins with: random weights, where no other did better.

    Args:
        candidates: Weights, each as ``fit`` takes it; or a trial, such as ``search.best``, for its own: after its best
            epoch and its last, shrunk and perturbed, and the mean of the three best trials. The trial ``at=``, if left
            out. Where the trial had reported a training loss far below its validation loss, it had memorised its
            examples, and goes on badly from there: then its shrunk weights are taken where its own did best.
        share: Of the run's epochs, what all probes may take together; a batch each at least.
        judge: The reported metric that they are judged by. A validation loss, if one is reported, or else the metric
            of the experiment, if left out.

    Source:
        Ash and Adams 2020, "On Warm-Starting Neural Network Training", arXiv:1910.08475, for what is wrong with
        weights that have memorised, and what mends it.
    """

    candidates: object = None
    share: float = SHARE
    judge: str | None = None


def check_auto(given: Auto, modes: Mapping[str, str]) -> None:
    """Refuse what cannot choose.

    Args:
        given: What a call says.
        modes: The metrics of the experiment: name -> ``"max"`` or ``"min"``.

    Raises:
        ConfigError: It cannot be.
    """
    if not is_number(given.share) or not 0 < given.share <= 1:
        raise ConfigError(f"Auto(share={brief(given.share)}) is no share of a run. Pass a number above 0, up to 1.")
    if given.judge is not None and given.judge not in modes and LOSS not in str(given.judge):
        raise ConfigError(
            f"Auto(judge={brief(given.judge)}) is none of the metrics ({', '.join(modes)}) and no loss, so nothing "
            "says whether more of it is better. Give the experiment this metric, or leave judge= out."
        )


def judge_of(reported: Collection[str], modes: Mapping[str, str], *, watched: str, wanted: str | None = None) -> str:
    """Return the metric that probes are judged by.

    Args:
        reported: The names of what all of them reported.
        modes: The metrics of the experiment.
        watched: The one that counts.
        wanted: What the call says.

    Example:
        >>> judge_of(["accuracy", "train_loss", "loss"], {"accuracy": "max"}, watched="accuracy")
        'loss'
    """
    if wanted is not None:
        return wanted
    losses = [name for name in reported if LOSS in name.lower() and "train" not in name.lower()]
    validation = [name for name in losses if "val" in name.lower()]
    own = [name for name in losses if name in modes]
    return next(iter([*own, *sorted(validation), *sorted(losses)]), watched)


class Probed(NamedTuple):
    """A probe that has ended.

    Attributes:
        name: What it began with.
        reported: What it reported last; None if it failed.
        portion: How much of the first epoch it was.
    """

    name: str
    reported: Mapping[str, float] | None
    portion: float = 1.0


class Instead(NamedTuple):
    """What is taken in place of weights that have memorised their examples.

    Attributes:
        nth: Which probe began with it.
        shown: What shows that they have.
    """

    nth: int
    shown: str


NOTHING: Final[Mapping[int, Instead]] = MappingProxyType({})


class Choice(NamedTuple):
    """What probes have shown.

    Attributes:
        nth: Which of them began with what the training is to begin with.
        why: Why, for people.
    """

    nth: int
    why: str


def memorised(reported: Mapping[str, float], judge: str) -> str:
    """Say that weights know their examples by heart, if what was reported of them shows that; else nothing.

    Example:
        >>> memorised({"accuracy": 0.84, "loss": 0.494, "train_loss": 0.238}, "loss")
        'train_loss 0.238, loss 0.494'
        >>> memorised({"accuracy": 0.84, "loss": 0.344, "train_loss": 0.308}, "loss")
        ''
    """
    training = [name for name in reported if LOSS in name.lower() and "train" in name.lower()]
    if not training or LOSS not in judge.lower() or judge not in reported:
        return ""
    low, high = reported[training[0]], reported[judge]
    return f"{training[0]} {show(low)}, {judge} {show(high)}" if 0 <= low < MEMORISED * high else ""


def choose(
    probes: Sequence[Probed],
    modes: Mapping[str, str],
    *,
    watched: str,
    wanted: str | None = None,
    instead: Mapping[int, Instead] = NOTHING,
) -> Choice:
    """Return which of some probes did best; random weights, which are the first, where no other did better.

    Args:
        probes: They, that with random weights first; one at least went well.
        modes: The metrics of the experiment.
        watched: The one that counts.
        wanted: The metric to judge by, which all of them reported; None for what ``judge_of`` says.
        instead: Which one is taken where another did best.
    """
    went_well = [probe.reported for probe in probes if probe.reported is not None]
    common = [name for name in went_well[0] if all(name in reported for reported in went_well)]
    judge = judge_of(common, modes, watched=watched, wanted=wanted)
    sign = -1.0 if modes.get(judge, "min") == "max" else 1.0

    def loss(probe: Probed) -> float:
        value = (probe.reported or {}).get(judge, math.nan)
        return math.inf if math.isnan(value) else sign * value

    losses = [loss(probe) for probe in probes]
    nth = min(range(len(probes)), key=losses.__getitem__)  # of equals the first
    told = ", ".join(
        f"{probe.name} {show((probe.reported or {}).get(judge, math.nan))}" for probe in probes if probe.reported
    )
    after = f"after {max(probe.portion for probe in probes):.2g} of an epoch"
    if probes[0].reported is None:
        return Choice(0, f"{probes[0].name}: its probe failed, so that no other can be said to be better")
    if (other := instead.get(nth)) is not None:
        known = f"{probes[nth].name} is the best of {len(probes)} by {judge} {after} ({told}), and has memorised"
        taken = other.nth if losses[other.nth] < losses[0] else 0
        return Choice(taken, f"{probes[taken].name}: {known} its examples ({other.shown})")
    return Choice(nth, f"{probes[nth].name}: best of {len(probes)} by {judge} {after} ({told})")
