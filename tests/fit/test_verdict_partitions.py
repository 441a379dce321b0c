"""What is said of partitions: who won, who is the same, what may have been missed, and what chance would give."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from etude.analyse.chance import best_of
from etude.analyse.flips import least_flip_p
from etude.analyse.paired import Paired, paired, same, smallest_seen
from etude.core.errors import ConfigError
from etude.fit.verdict_partitions import (
    Arm,
    PartitionComparison,
    Verdict,
    beside,
    check_seeds,
    judge,
    lead,
    verdicts,
)

SEEDS = 20


def noise(name: str) -> Any:
    return np.random.default_rng(sum(map(ord, name))).normal(size=SEEDS)


def arms(**shifts: float) -> list[Arm]:
    """Return arms whose runs share what is due to the seed, and are shifted against each other."""
    shared = 80 + 2 * np.random.default_rng(0).normal(size=SEEDS)
    return [Arm(name, tuple(shared + shift + 0.1 * noise(name))) for name, shift in shifts.items()]


def compared(given: Sequence[Arm], *, mode: Any = "max", margin: float | None = None, **more: Any) -> Any:
    claims = judge(given, mode=mode, margin=margin, level=0.05)
    untouched, worst = beside(given, level=0.05)
    return PartitionComparison(
        metric="accuracy",
        mode=mode,
        ranks=2,
        arms=tuple(given),
        claims=tuple(claims),
        untouched=tuple(untouched),
        worst=tuple(worst),
        verdicts=verdicts(claims),
        best=lead(given, mode=mode),
        margin=margin,
        **more,
    )


def test_a_partition_has_won_if_it_is_better_than_both_and_is_else_what_its_weaker_claim_is() -> None:
    given = arms(none=0.0, subsets=1.0, better=2.0, between=0.5, worse=-1.0, like_subsets=1.0)
    found = compared(given, margin=0.2)
    assert found.verdicts == {
        "better": Verdict.WON,
        "between": Verdict.LOST,  # better than none, and worse than random subsets
        "worse": Verdict.LOST,
        "like_subsets": Verdict.SAME,
    }
    assert found.won == ("better",)
    assert str(found).startswith("better won: better than none and than subsets (accuracy, 20 seeds, 2 ranks).\n")


def test_what_is_surely_better_by_less_than_matters_is_the_same() -> None:
    given = arms(none=0.0, subsets=0.0, little=0.3)
    assert compared(given).verdicts == {"little": Verdict.WON}
    assert compared(given, margin=0.2).verdicts == {"little": Verdict.WON}
    assert compared(given, margin=0.6).verdicts == {"little": Verdict.SAME}


def test_less_is_better_where_the_metric_says_so() -> None:
    found = compared(arms(none=0.0, subsets=0.0, lower=-1.0, higher=1.0), mode="min")
    assert found.verdicts == {"lower": Verdict.WON, "higher": Verdict.LOST}
    assert found.best is not None
    assert found.best.gain == pytest.approx(1.0, abs=0.1)


def test_without_a_margin_nothing_is_the_same_and_the_first_line_says_that_nothing_won() -> None:
    given = arms(none=0.0, subsets=0.0, like=0.0)
    assert compared(given, margin=0.5).verdicts == {"like": Verdict.SAME}
    found = compared(given)
    assert found.verdicts == {"like": Verdict.UNKNOWN}
    first, *rest = str(found).splitlines()
    assert first == "Nothing won: the partition is not better than both none and subsets (accuracy, 20 seeds, 2 ranks)."
    assert not any("for the same" in line for line in rest)
    assert any(line.startswith("A true difference of ") for line in rest)


def test_all_claims_of_one_number_are_corrected_together() -> None:
    claims = judge(arms(none=0.0, subsets=0.0, a=0.05, b=0.03, c=0.0), mode="max", margin=None, level=0.05)
    ps = sorted((claim.pairs.p, claim.pairs.p_holm) for claim in claims)
    assert len(ps) == 6
    assert ps[0][1] == pytest.approx(min(1.0, 6 * ps[0][0]))
    assert all(one.pairs.p_holm >= one.pairs.p for one in claims)
    assert all(claim.seen > 0 for claim in claims)


def test_runs_that_came_to_no_number_show_nothing() -> None:
    none, subsets, ours = arms(none=0.0, subsets=0.0, ours=5.0)
    found = compared([none, subsets, Arm("ours", (math.nan, *ours.values[1:]))], margin=9.0)
    assert found.verdicts == {"ours": Verdict.UNKNOWN}
    assert found.best is None
    assert all(math.isnan(claim.seen) for claim in found.claims)
    assert "Nothing won" in str(found)


def test_a_difference_that_is_no_number_has_no_small_p_value() -> None:
    assert paired([math.nan, 1.0, 2.0], [0.0, 0.0, 0.0]).p == 1.0
    assert paired([math.inf] * 8, [0.0] * 8) == Paired(math.inf, math.inf, math.inf, 1.0)
    assert same([math.nan, 1.0], [0.0, 0.0], margin=1.0) == 1.0


def test_differences_that_do_not_vary_are_within_a_margin_or_not() -> None:
    assert same([1.1, 2.1, 3.1], [1.0, 2.0, 3.0], margin=0.2) == 0.0
    assert same([1.3, 2.3, 3.3], [1.0, 2.0, 3.0], margin=0.2) == 1.0


def test_the_smallest_difference_that_is_seen_is_found_that_often() -> None:
    """By simulation: of 400 comparisons with a true difference of that size, four in five find it."""
    from scipy.stats import ttest_1samp

    least = smallest_seen(1.0, pairs=8, level=0.01)
    draws = np.random.default_rng(0).normal(loc=least, size=(400, 8))
    assert float((ttest_1samp(draws, 0.0, axis=1).pvalue <= 0.01).mean()) == pytest.approx(0.8, abs=0.06)


def test_the_best_of_equal_ones_is_ahead_by_chance_and_a_better_one_is_not() -> None:
    draws = np.random.default_rng(2)
    equal = best_of(draws.normal(size=(6, 10)))
    assert 0 < equal.by_chance < equal.bar
    table = draws.normal(size=(6, 10))
    table[3] += 3.0
    better = best_of(table)
    assert better.gain > better.bar
    assert better.p < 0.01 < equal.p


@pytest.mark.parametrize("seeds", [2, 6, 13, 20])
def test_the_least_p_value_is_that_of_pairs_that_are_all_on_one_side(seeds: int) -> None:
    assert least_flip_p(seeds) == pytest.approx(paired([1.0 + n for n in range(seeds)], [0.0] * seeds).p)


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(ConfigError) as refused:
        call()
    return str(refused.value)


def test_seeds_that_can_show_nothing_are_refused_with_the_number_that_could() -> None:
    check_seeds(8, partitions=3, level=0.05)
    assert refusal(lambda: check_seeds(7, partitions=3, level=0.05)) == (
        "seeds=7 can show nothing: 3 partitions against 2 references are 6 claims, and with 7 pairs no p-value is "
        "below 0.0156, corrected for all 0.0938. Pass seeds=8 or more."
    )
    assert "Pass seeds=7 or more." in refusal(lambda: check_seeds(1, partitions=1, level=0.05))
    check_seeds(28, partitions=300, level=0.05)
    assert refusal(lambda: check_seeds(29, partitions=300, level=0.05)).endswith(
        "Pass seeds=15 to 28, with which all ways to swap pairs are counted."
    )
    assert refusal(lambda: check_seeds(50, partitions=200, level=1e-9)) == (
        "partitions= has 200, so 400 claims are made at once, and no number of seeds could tell any of them from "
        "chance at level=1e-09. Pass fewer partitions."
    )


def test_untouched_data_have_claims_of_their_own_unless_the_metric_is_their_accuracy() -> None:
    given = arms(none=0.0, subsets=0.0, ours=2.0)
    known = [replace(arm, accuracy=tuple(v / 100 for v in arm.values), worst=arm.values) for arm in given]
    found = compared(known)
    assert found.untouched == ()
    assert verdicts(found.worst) == {"ours": Verdict.WON}
    worse = [replace(known[0]), replace(known[1]), replace(known[2], accuracy=(0.1,) * SEEDS)]
    found = compared(worse)
    assert found.verdicts == {"ours": Verdict.WON}
    assert verdicts(found.untouched) == {"ours": Verdict.LOST}
    assert "Mean accuracy on untouched data:" in str(found).splitlines()
    assert compared([*known[:2], given[2]]).worst == ()


def test_what_stands_beside_the_mean_is_told() -> None:
    none, subsets, ours = arms(none=0.0, subsets=0.0, ours=0.0)
    known = (0.5,) * SEEDS
    given = [
        Arm("none", none.values, known, (0.25,) * SEEDS),
        Arm("subsets", subsets.values, known, (0.25,) * SEEDS, 0.1, 4.0, 2.0**20),
        Arm("ours", ours.values, known, (0.125,) * SEEDS, 0.4, 2.0, 2.0**19),
    ]
    told = str(compared(given, notes=("Something else.",))).splitlines()
    assert told[-1] == "Something else."
    assert told[-4:-1] == [
        "  none: accuracy 0.5, worst class 0.25",
        "  subsets: accuracy 0.5, worst class 0.25; classes of a rank off by 10.0%; 4 assignments, 1 MB moved",
        "  ours: accuracy 0.5, worst class 0.125; classes of a rank off by 40.0%; 2 assignments, 0.5 MB moved",
    ]
