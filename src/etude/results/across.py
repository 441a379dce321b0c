"""What came of one ablation on several data sets, or in the folds of a cross-validation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from etude.ablate.pairing import paired_all
from etude.core.errors import ConfigError
from etude.results.ablated import Ablation

if TYPE_CHECKING:
    from etude.analyse.rankings import Rankings
    from etude.analyse.verdicts import Verdicts


@dataclass(frozen=True)
class AblationAcross(Mapping[str, tuple[Ablation, ...]]):
    """An ablation on each of several data sets: print it.

    It is a mapping: ``across["dataset=adult"]`` has the ablations there, one; or one for each fold.

    Attributes:
        ablations: What a data set is called -> its ablations, by fold.
        folds: How many folds there are; None if there are none.
    """

    ablations: Mapping[str, tuple[Ablation, ...]]
    folds: int | None = None

    def __getitem__(self, name: str) -> tuple[Ablation, ...]:
        return self.ablations[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.ablations)

    def __len__(self) -> int:
        return len(self.ablations)

    def runs(self, name: str) -> dict[str, dict[Any, float]]:
        """Return what came of each arm on a data set: the metric by seed, or by fold and seed; NaN for what failed."""
        found: dict[str, dict[Any, float]] = {}
        for nth, ablation in enumerate(self.ablations[name]):
            for arm in ablation.arms:
                by = found.setdefault(arm.name, {})
                by.update({(nth, seed) if self.folds else seed: value for seed, value in arm.values.items()})
        return found

    def verdicts(self, *, margin: float | None = None, level: float | None = None) -> dict[str, Verdicts]:
        """Say for each data set of each component whether it matters there.

        Over folds the corrected t-test is used, since their training examples overlap. The level holds on each data
        set; over all of them together, ``rankings`` asks.

        Args:
            margin: As in ``Ablation.verdicts``.
            level: As in ``Ablation.verdicts``.

        Raises:
            ConfigError: Nothing has begun yet, an argument cannot be, or scipy is missing.
        """
        return {name: self._verdicts(name, margin, level) for name in self.ablations}

    def _verdicts(self, name: str, margin: float | None, level: float | None) -> Verdicts:
        from etude.analyse.verdicts import verdicts
        from etude.results.judged import not_over

        several = self.ablations[name]
        if self.folds is None:
            return several[0].verdicts(margin=margin, level=level)
        asked = (several[0].meta.get("question") or {}).get("verdicts") or {}
        runs = self.runs(name)
        if not runs:
            raise ConfigError(f"No trial of the ablation on {name} has begun, so there is nothing to judge yet.")
        base, *others = runs
        judged = [arm for arm in asked.get("judged") or others if arm in runs]
        pairs = {arm: paired_all([one for fold in several for one in _pairing(fold, arm)]) for arm in judged}
        planned = sum((one.meta.get("question") or {}).get("trials") or 0 for one in several)
        return verdicts(
            {arm: runs[arm] for arm in (base, *judged)},
            base=base,
            mode=_mode(several[0]),
            paired=pairs,
            margin=margin if margin is not None else asked.get("margin"),
            level=level if level is not None else asked.get("level", 0.05),
            folds=self.folds,
            says=[] if all(one.complete for one in several) else [not_over(sum(map(len, runs.values())), planned)],
        )

    @property
    def complete(self) -> bool:
        """Whether all trials of all of them have ended."""
        return all(one.complete for several in self.ablations.values() for one in several)

    def rankings(
        self,
        *,
        by: Literal["mean", "best"] = "mean",
        post_hoc: Literal["wilcoxon", "nemenyi"] = "wilcoxon",
        level: float = 0.05,
    ) -> Rankings:
        """Return how the whole and its arms rank over the data sets: an arm with a better rank than the base has.

        Args:
            by: What stands for an arm on a data set: the mean of its runs, or the best of them, which favours arms that
                vary more.
            post_hoc: As in ``etude.rankings``.
            level: As in ``etude.rankings``.

        Raises:
            ConfigError: An argument cannot be, or scipy is missing.
        """
        from etude.analyse.rankings import rankings

        first = next(iter(self.ablations.values()))[0]
        runs = {
            name: {arm: [one for one in by_seed.values() if math.isfinite(one)] for arm, by_seed in of.items()}
            for name, of in ((name, self.runs(name)) for name in self.ablations)
        }
        return rankings(runs, mode=_mode(first), by=by, post_hoc=post_hoc, level=level)

    def __str__(self) -> str:
        lines = []
        for name, found in self.verdicts().items():
            over = f", {self.folds} folds" if self.folds else ""
            lines += [f"{name or 'all data'}{over}:", *(f"  {line}" for line in str(found).splitlines())]
        if len(self.ablations) > 1:
            lines += [str(self.rankings()), str(self.rankings(by="best"))]
        return "\n".join(lines)


def _mode(ablation: Ablation) -> Literal["max", "min"]:
    return ablation.metrics.modes[ablation.metrics.main]


def _pairing(ablation: Ablation, arm: str) -> list[Any]:
    return list(ablation.pairing(arm).values()) if any(one.name == arm for one in ablation.arms) else []
