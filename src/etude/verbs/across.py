"""An ablation on several data sets, or in folds of each: a study for every one, planned before the first one runs."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from etude.ablate.until import read_until
from etude.core.errors import ConfigError
from etude.core.numbers import whole
from etude.core.signature import Signature
from etude.core.text import brief, count, show
from etude.launching.progress import plan_is_said, say_plan
from etude.results.across import AblationAcross
from etude.results.search import TrialResult
from etude.tune.separate import without
from etude.tune.spaces import Space
from etude.verbs.ablation_draft import AblationDraft, check_decides, check_refused
from etude.verbs.ablation_seeds import read_seeds

FOLD: Final = "fold"
"""The hyperparameter that says which fold is held out, from 0 on."""

FOLDS: Final = "folds"
"""The one that says how many there are, where a function takes it."""


class Place(NamedTuple):
    """A data set.

    Attributes:
        name: What it is called.
        params: What its configuration has of its own, for each fold.
    """

    name: str
    params: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class DraftAcross:
    """What an ablation on several data sets would do: print it.

    Attributes:
        drafts: What a data set is called -> what would be done there, by fold.
        folds: How many folds there are; None if there are none.
    """

    drafts: Mapping[str, tuple[AblationDraft, ...]]
    folds: int | None = None

    @property
    def trials(self) -> int:
        """How many trials there are to begin with, all together."""
        return sum(one.trials for several in self.drafts.values() for one in several)

    @property
    def done(self) -> int:
        """How many of them are there already."""
        return sum(one.done for several in self.drafts.values() for one in several)

    def __str__(self) -> str:
        each = f" in {self.folds} folds" if self.folds else ""
        lines = [f"{count(self.trials, 'trial')} on {count(len(self.drafts), 'data set')}{each}"]
        for name, several in self.drafts.items():
            lines += [f"{name or 'all data'}:", *(f"  {line}" for line in str(several[0]).splitlines())]
        return "\n".join(lines)


def places_of(
    across: Mapping[str, Sequence[Any]] | None, folds: int | None, signature: Signature, params: Mapping[str, Any]
) -> list[Place]:
    """Return the data sets, each with what its configurations have of their own.

    Args:
        across: Hyperparameter -> its values; of several, all combinations.
        folds: How many folds each is cut into.
        signature: What the functions take.
        params: The configuration of the whole, as the call has it.

    Raises:
        ConfigError: A value is no list, or nothing takes the fold.
        SignatureError: Nothing takes a hyperparameter.
    """
    across = {} if across is None else across
    if not isinstance(across, Mapping) or not all(_is_list(values) for values in across.values()):
        raise ConfigError(
            f"across={brief(across)} cannot be. Pass the values of hyperparameters of the data function: "
            "across={'dataset': ['adult', 'covertype']}."
        )
    signature.check_names(across)
    if folds is not None:
        whole("folds", folds, 2, "one fold is no cross-validation")
        if FOLD not in signature.parameters:
            raise ConfigError(
                f"folds={folds} needs a data function that takes fold: int, from 0 to {folds - 1}, the part that it "
                f"holds out. Yours take: {', '.join(signature.parameters) or 'no hyperparameters'}."
            )
    asked = {FOLDS: folds} if folds and FOLDS in signature.parameters else {}
    own = {FOLD, *asked} if folds else set()
    if twice := sorted({*across, *own} & params.keys() | (own & across.keys())):
        raise ConfigError(f"{', '.join(map(repr, twice))} is given twice. Leave it out of at= and of across=.")
    found = []
    for values in itertools.product(*across.values()):
        here = dict(zip(across, values, strict=True))
        each = [{**here, **asked, FOLD: nth} for nth in range(folds)] if folds else [here]
        found.append(Place(", ".join(f"{key}={show(value)}" for key, value in here.items()), tuple(each)))
    if len({one.name for one in found}) < len(found):
        raise ConfigError(f"across={brief(across)} has a value twice.")
    return found


def ablate_across(
    ablate: Callable[..., Any],
    options: Mapping[str, Any],
    signature: Signature,
    *,
    across: Mapping[str, Sequence[Any]] | None,
    folds: int | None,
    dry_run: bool,
) -> AblationAcross | DraftAcross:
    """Run an ablation on each data set, one after the other; all of them are planned before the first one runs.

    Args:
        ablate: ``experiment.ablate``, with its components.
        options: How it is called.
        signature: What the functions take.
        across: Hyperparameter -> its values.
        folds: How many folds each is cut into.
        dry_run: Return what would be done.

    Raises:
        ConfigError: It cannot be carried out on one of them; nothing was started.
    """
    at, name = options["at"], options["name"]
    params = dict(at.params) if isinstance(at, TrialResult) else dict(at or {})
    if isinstance(at, TrialResult):  # what it was found with on one data set does not say on which to run
        params = {key: value for key, value in params.items() if key not in {FOLD, FOLDS, *(across or ())}}
        read_seeds(options["seeds"], options["seed"], chose=at.seed)
    places = places_of(across, folds, signature, params)
    if isinstance(options["space"], Space):
        kept = without(options["space"], dict.fromkeys({FOLD, FOLDS, *(across or ())}))
        options = {**options, "space": kept}
    if not options["wait"]:
        raise ConfigError("wait=False cannot be on several data sets: they are run one after the other. Leave it out.")
    if folds and read_until(options["seeds"]) is not None:
        raise ConfigError(
            f"seeds={options['seeds']!r} cannot be with folds={folds}: how runs of overlapping folds vary is not known "
            "well enough to stop by it. Pass how many seeds there are to be."
        )
    more = {**options, "force": True} if folds else options  # one fold decides nothing, and need not

    def one(place: Place, nth: int, *, dry: bool) -> Any:
        behind = (_slug(place.name), f"{FOLD}{nth}" if folds else "")
        called = None if name is None else "-".join(filter(None, (name, *behind)))
        return ablate(**{**more, "at": {**params, **place.params[nth]}, "name": called, "dry_run": dry})

    drafts = {place.name: tuple(one(place, nth, dry=True) for nth in range(len(place.params))) for place in places}
    if dry_run:
        return DraftAcross(drafts, folds)
    for several in drafts.values():
        check_refused(several[0], options["on_refusal"])
        if not folds:
            check_decides(several[0], force=options["force"])
    say_plan(DraftAcross(drafts, folds), shown=options["progress"])
    with plan_is_said():
        runs = {place.name: tuple(one(place, nth, dry=False) for nth in range(len(place.params))) for place in places}
    return AblationAcross(runs, folds)


def _is_list(values: object) -> bool:
    return isinstance(values, Sequence) and not isinstance(values, str | bytes) and len(values) > 0


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-")
