"""What an ablation would do, shown before anything runs, and why it is refused where it cannot be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from etude.ablate.until import UntilDecided
from etude.analyse.outlook import Outlook, outlook
from etude.analyse.race_rules import Rules
from etude.core.errors import ConfigError
from etude.core.text import brief, count
from etude.results.judged import deviation_given
from etude.verbs.repairing import PlannedArm
from etude.verbs.retuning import Retuned

REFUSED: Final = ("raise", "skip")
"""What may become of arms whose repair is refused."""


class Judging(NamedTuple):
    """How the arms of an ablation are to be judged.

    Attributes:
        judged: The names of those that are.
        margin: How small a difference does not matter, in the metric's unit.
        level: Of all verdicts together.
        deviation: About how much the difference of a pair varies at most, as earlier trials have it; None if unknown.
        until: How seeds are added, if that is until it is decided.
    """

    judged: tuple[str, ...] = ()
    margin: float | None = None
    level: float = 0.05
    deviation: float | None = None
    until: UntilDecided | None = None


NOT_SAID: Final = Judging()


@dataclass(frozen=True)
class AblationDraft:
    """What an ablation would do: print it.

    Attributes:
        arms: The arms that would be trained, the base first, controls last.
        refused: Those that cannot be.
        seeds: The training seeds.
        params: The configuration of the base.
        needs: How many trials that is, in words.
        notes: What else should be said, one sentence each.
        done: How many of the trials are there already, in this study's folder or in those handed over.
        judging: How its arms are to be judged.
        race: What a race goes by, if seeds are added until it is decided.
        retuned: The searches of the arms, if they are tuned first.
    """

    arms: tuple[PlannedArm, ...]
    refused: tuple[PlannedArm, ...]
    seeds: tuple[int, ...]
    params: Mapping[str, Any]
    needs: str
    notes: tuple[str, ...] = ()
    done: int = 0
    judging: Judging = NOT_SAID
    race: Rules | None = None
    retuned: Retuned | None = None

    def power(self, *, effect: float = 1.0, deviation: Any = None) -> Outlook:
        """Return what the plan could find: print it.

        Args:
            effect: The effect to be found, in standard deviations of the difference of a pair; in the metric's unit, if
                the deviation is known.
            deviation: Of the difference of a pair, in the metric's unit; or an earlier study of this experiment with
                one configuration that was run with three seeds or more.
        """
        known = deviation_given(deviation)
        claims = len(self.judging.judged)
        return outlook(len(self.seeds), claims, effect=effect, deviation=known, level=self.judging.level)

    @property
    def outlook(self) -> tuple[str, ...]:
        """What it could find, in words; why that is not known, if scipy is missing."""
        if self.race is not None:
            hardly = (
                f"what hardly has an effect of {self.race.effect:g} deviations of a pair's difference is given up."
                if self.race.margin is None
                else f"nothing is given up, since it may be within the margin of {self.race.margin:g}."
            )
            return (
                f"Seeds are added until each of {count(self.race.components, 'component')} is decided, "
                f"{self.race.most} at most; {hardly}",
            )
        if not self.judging.judged:
            return ()
        try:
            found = [str(self.power())]
        except ConfigError as without:
            return (str(without),)
        if (unit := self.judging.deviation) is not None:
            found.append(
                f"Earlier runs of the base say that this deviation is about {unit:.3g} or less (two independent runs)."
            )
        return tuple(found)

    @property
    def trials(self) -> int:
        """How many trials there are to begin with."""
        return len(self.arms) * len(self.seeds) + (self.retuned.trials if self.retuned is not None else 0)

    def __str__(self) -> str:
        refused = ["refused:", *(f"  {one}" for one in self.refused)] if self.refused else []
        there = f"{self.done} of {count(self.trials, 'trial')} are there already, and not run again"
        done = [there] if self.done else []
        tuned = [str(self.retuned), f"{count(self.trials, 'trial')} with these."] if self.retuned is not None else []
        arms = [f"  {one}" for one in self.arms]
        return "\n".join([*self.outlook, self.needs, *arms, *tuned, *refused, *done, *self.notes])


def check_refused(drafted: AblationDraft, on_refusal: str) -> None:
    """Raise what was refused, all of it at once, unless it is to be skipped.

    Raises:
        ConfigError: Something was.
    """
    if on_refusal not in REFUSED:
        raise ConfigError(f"on_refusal={brief(on_refusal)} is not known. Pass one of {', '.join(map(repr, REFUSED))}.")
    if drafted.refused and on_refusal == "raise":
        several = "\n".join(f"  {one}" for one in drafted.refused)
        raise ConfigError(
            f"{count(len(drafted.refused), 'arm')} cannot be, so nothing was started:\n{several}\n"
            "Leave these components out, take what is named instead, or pass on_refusal='skip' for the others alone."
        )


def check_decides(
    drafted: AblationDraft, *, force: bool, seeds_said: str = "seeds={}", force_said: str = "force=True"
) -> str:
    """Return why a plan can decide nothing; nothing if it can.

    Args:
        drafted: The plan.
        force: Whether it is to be run all the same.
        seeds_said: How whoever is told says how many seeds, with a place for the number.
        force_said: How they say that it is to be run all the same.

    Raises:
        ConfigError: It cannot, and is not forced.
    """
    if not drafted.judging.judged or drafted.race is not None:
        return ""
    try:
        found = drafted.power()
    except ConfigError:  # scipy is missing: verdicts will say so
        return ""
    if found.decides or force:
        return "" if found.decides else str(found)
    raise ConfigError(
        f"{found} Nothing was started. Pass {seeds_said.format(found.needed or found.least_seeds)}, or fewer "
        f"components; or {force_said} to run it all the same."
    )
