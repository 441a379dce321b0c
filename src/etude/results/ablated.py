"""What came of an ablation."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from etude.ablate.naming import nearest
from etude.ablate.pairing import Pairing, compare, paired_all
from etude.ablate.retuned_plan import chosen_of
from etude.core import markup
from etude.core.errors import ConfigError
from etude.core.lifecycle import FINAL, State
from etude.core.removal import drawn_anew
from etude.core.text import brief, count, show
from etude.results.in_notebooks import arms_table, without_insets
from etude.results.search import Search, TrialResult
from etude.tune.spaces import Space

if TYPE_CHECKING:
    from etude.analyse.verdicts import Verdicts


BESIDE: Final = ("base", "controls")


class ArmResult(NamedTuple):
    """What came of an arm.

    Attributes:
        name: What it is called.
        values: The main metric by training seed, of trials that have ended; NaN of those that came to no number.
        effect: What it cost to take this away: the mean over seeds of the base's metric minus its own, in the metric's
            direction, so that a positive one says that the component helps; NaN without pairs.
        pairs: How many seeds that is a mean of.
        changes: What was done to the model, in words.
        parameters: How many the model has; None if nobody knows.
        rebuilt: Names of the weights that were drawn anew, as the plan had it.
    """

    name: str
    values: Mapping[int, float]
    effect: float
    pairs: int
    changes: tuple[str, ...]
    parameters: int | None
    rebuilt: tuple[str, ...] = ()

    @property
    def mean(self) -> float:
        """The mean of those values that are numbers; NaN if none is."""
        known = [value for value in self.values.values() if math.isfinite(value)]
        return fmean(known) if known else math.nan


class Ablation(Search):
    """What came, or comes, of an ablation: a study with an arm for each thing that is taken away, and one for nothing.

    Its arms have raw differences of pairs. Whether they mean anything is what ``verdicts`` says.
    """

    @property
    def arms(self) -> list[ArmResult]:
        """What came of each arm so far, the base first."""
        by_arm: dict[str, dict[int, float]] = {}
        for trial in self._compared:
            if trial.arm is None:
                continue
            values = by_arm.setdefault(trial.arm, {})
            if State(trial.state) in FINAL:
                done = trial.state == State.FINISHED.value and trial.value is not None
                values[trial.seed] = float(trial.value) if done else math.nan  # type: ignore[arg-type]
        base = next(iter(by_arm.values()), {})
        sign = 1.0 if self.metrics.modes[self.metrics.main] == "max" else -1.0
        planned = [one["name"] for one in (self.meta.get("question") or {}).get("arms", [])]
        order = {name: nth for nth, name in enumerate(planned)}
        names = sorted(by_arm, key=lambda name: order.get(name, len(order)))  # they were run in another order
        return [self._arm(name, by_arm[name], base, sign, self._told(name)) for name in names]

    @property
    def _compared(self) -> list[TrialResult]:
        """The trials of the comparison: those that tuned an arm chose its configuration, and show nothing more."""
        return [trial for trial in self.trials if not trial.tunes]

    @property
    def retuned(self) -> dict[str, TrialResult | None]:
        """For each arm that was tuned (``retune=``), the best trial of its search, whose configuration is compared.

        None where no trial came to a number: that arm is compared with the configuration that it was given.
        """
        found = chosen_of([trial for trial in self._history.trials if trial.tunes], self.metrics)
        return {name: None if trial is None else self._result(trial) for name, trial in found.items()}

    def _arm(
        self, name: str, values: Mapping[int, float], base: Mapping[int, float], sign: float, told: Mapping[str, Any]
    ) -> ArmResult:
        found = [sign * (base[seed] - value) for seed, value in values.items() if seed in base]
        pairs = [one for one in found if math.isfinite(one)]
        effect = fmean(pairs) if pairs else math.nan
        changes, rebuilt = tuple(told.get("changes", ())), tuple(told.get("rebuilt", ()))
        return ArmResult(name, values, effect, len(pairs), changes, told.get("parameters"), rebuilt)

    def _told(self, arm: str) -> Mapping[str, Any]:
        """Return what was planned of an arm; nothing of one that results decided on."""
        planned = (self.meta.get("question") or {}).get("arms", [])
        return next((one for one in planned if one["name"] == arm), {})

    def _pairs(self) -> dict[str, bool | None]:
        seen = {arm.name: paired_all(self.pairing(arm.name).values()) for arm in self.arms[1:]}
        return {arm: self._told(arm).get("paired") if found is None else found for arm, found in seen.items()}

    def _summary(self) -> list[str]:
        first, *rest = super()._summary()
        return [first, *self._tuned(), *self._table(), *self._paired(), *self._judged(), *rest]

    def headlines(self) -> list[str]:
        """Return those lines of a summary that no table of trials or verdicts says better."""
        first, *rest = super()._summary()
        return [first, *map(str.strip, self._tuned()), *self._paired(), *without_insets(rest)]

    def _repr_html_(self) -> str:
        first, *rest = super()._summary()
        says, found = self._found()
        told = [one for title, verdicts in found for one in (markup.lines(title), verdicts._repr_html_())]
        return markup.block(
            markup.lines([first, *map(str.strip, self._tuned())]),
            arms_table(self.arms, metric=self.metrics.main),
            markup.lines([*self._paired(), *says]),
            *told,
            markup.lines(rest),
        )

    def _tuned(self) -> Iterator[str]:
        """Say with which configuration arms are compared, if they were tuned."""
        asked = (self.meta.get("question") or {}).get("retuned")
        if asked is None:
            return
        yield f"Each arm was tuned first, with {count(asked['trials'], 'trial')} of its own. What is compared:"
        names = Space.from_dict(asked["space"]).names
        for arm, trial in self.retuned.items():
            if trial is None:
                yield f"  {arm}: no trial of its search came to a number, so it has the configuration that was given"
                continue
            params = ", ".join(f"{name}={show(value)}" for name, value in trial.params.items() if name in names)
            yield f"  {arm}: {params or 'nothing was left to search'} (trial {trial.number})"

    def _judged(self) -> list[str]:
        """Return the verdicts as lines, or why there are none; what threatens them comes first."""
        says, found = self._found()
        return [*says, *(line for title, verdicts in found for line in (*title, *str(verdicts).splitlines()))]

    def _found(self) -> tuple[list[str], list[tuple[list[str], Verdicts]]]:
        """Return why there are no verdicts and what threatens them, or else the verdicts, with titles."""
        if not any(math.isfinite(value) for arm in self.arms[1:] for value in arm.values.values()):
            return (super()._threatened() if self.complete else []), []
        try:
            found: list[tuple[list[str], Verdicts]] = [([], self.verdicts())]
        except ConfigError as without:  # scipy is missing
            return [*super()._threatened(), f"No verdicts: {without}"], []
        beside = self.compared_with_controls()
        if beside is not None:
            found.append((["Is it the part, or the size?"], beside))
        return [], found

    def paired(self) -> dict[str, tuple[int | None, int]]:
        """Return of each arm how many of its runs are pairs, None if nobody knows, and of how many.

        What they are compared with is the base's run with the same seed.
        """
        found = {arm.name: list(self.pairing(arm.name).values()) for arm in self.arms[1:]}
        return {name: (self._count_pairs(name, pairs), len(pairs)) for name, pairs in found.items()}

    def _count_pairs(self, arm: str, pairs: Collection[Pairing]) -> int | None:
        if all(one.is_known for one in pairs):
            return sum(one.is_pair for one in pairs)
        said: bool | None = self._told(arm).get("paired")
        return None if said is None else len(pairs) if said else 0

    def compared(self) -> Verdicts:
        """Return the verdicts on its arms, as a report has them."""
        return self.verdicts()

    def compared_with_controls(self) -> Verdicts | None:
        """Return the verdicts on its arms beside their controls; None if there are none, or if it is a race."""
        try:
            return self.verdicts(beside="controls")
        except ConfigError:
            return None

    def verdicts(
        self,
        *,
        margin: float | None = None,
        level: float | None = None,
        test: Literal["sign flips", "signed ranks", "t"] | None = None,
        beside: Literal["base", "controls"] = "base",
    ) -> Verdicts:
        """Say of each component whether it matters, as far as that is known by now.

        Arms that did not begin as the base did (``pairing``) are tested as unpaired, and trials that failed are told as
        missing.

        Args:
            margin: How small a difference does not matter, in the metric's unit; that of the call of ``ablate`` if left
                out. Fix it before you see any runs.
            level: How often one verdict or more may be wrong; that of the call if left out.
            test: See ``etude.verdicts``; of arms beside the base.
            beside: With what each arm is compared: the base, or its control, the whole with as many parameters
                (``ablate(..., controls=True)``); arms without one are left out then.

        Raises:
            ConfigError: Nothing has begun yet, an argument cannot be, or scipy is missing.
        """
        from etude.results.judged import beside_controls, verdicts_of

        arms = self.arms
        if beside not in BESIDE:
            raise ConfigError(f"beside={brief(beside)} is not known. Pass one of {', '.join(map(repr, BESIDE))}.")
        if beside == "controls":
            mode = self.metrics.modes[self.metrics.main]
            asked = self.meta.get("question") or {}
            return beside_controls(arms, question=asked, mode=mode, margin=margin, level=level)
        return verdicts_of(
            arms,
            question=self.meta.get("question") or {},
            pairs=self._pairs(),
            mode=self.metrics.modes[self.metrics.main],
            over=self.complete,
            margin=margin,
            level=level,
            test=test,
            warns=super()._threatened(),
        )

    def _threatened(self) -> list[str]:
        """Return nothing: it stands with the verdicts."""
        return []

    def _table(self) -> Iterator[str]:
        """Say what came of each arm, in a line."""
        arms = self.arms
        for arm in arms:
            n = sum(math.isfinite(value) for value in arm.values.values())
            effect = f", effect {show(arm.effect)} of {count(arm.pairs, 'pair')}" if arm is not arms[0] else ""
            size = f" [{count(arm.parameters, 'parameter')}]" if arm.parameters is not None else ""
            loses = bool(self._told(arm.name).get("loses"))
            anew = f", {drawn_anew(arm.rebuilt, loses=loses)}" if arm.rebuilt else ""
            yield f"  {arm.name}: mean {self.metrics.main} {show(arm.mean)} over {count(n, 'seed')}{effect}{anew}{size}"

    def _paired(self) -> Iterator[str]:
        """Say whether all arms began as the base did, as far as that is known."""
        pairs = self._pairs()
        apart = [name for name, found in pairs.items() if found is False]
        seen = [name for name in apart if paired_all(self.pairing(name).values()) is False]
        said = [name for name in apart if name not in seen]
        unknown = [name for name, found in pairs.items() if found is None]
        if seen:
            yield f"Not paired, by how they began: {', '.join(seen)}."
        if said:
            yield f"Not paired, as was said of them: {', '.join(said)}."
        if unknown:
            yield f"Not known whether paired, since nothing was seen of how they began: {', '.join(unknown)}."
        if pairs and not apart and not unknown:
            yield "All arms are paired."

    def pairing(self, arm: str) -> dict[int, Pairing]:
        """Return for each seed whether an arm's trial and that of the base are a pair, by how they began.

        Args:
            arm: Its name, as ``arms`` has it.

        Returns:
            Training seed -> what was found, for the seeds with which both have run.

        Raises:
            ConfigError: There is no such arm, or none of its trials has begun.
        """
        names = [one.name for one in self.arms]
        if arm not in names:
            raise ConfigError(f"{arm!r} is no arm of this ablation that has begun. {nearest(arm, names)}")
        base = {trial.seed: trial for trial in self.of(names[0])}
        return {
            trial.seed: compare(
                base[trial.seed].fingerprints,
                trial.fingerprints,
                data_differ=bool(self._told(arm).get("features")),
            )
            for trial in self.of(arm)
            if trial.seed in base
        }

    def of(self, arm: str) -> list[TrialResult]:
        """Return the trials of an arm that are compared, one for each seed.

        Args:
            arm: Its name; of one that is not there, there are none.
        """
        return [trial for trial in self._compared if trial.arm == arm]
