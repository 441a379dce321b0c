"""What the paper says of its results in words, beside what its own runs say."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.common import Result
from benchmarks.paper4.judged import LEVEL, against
from benchmarks.paper4.printed import MARGIN, Setting


def sentences(tables: Sequence[Result]) -> list[Result]:
    """Return the sentences, each with whether the means bear it out and whether the tests do.

    Args:
        tables: As ``judged`` returns them.
    """
    stripes, average, blocks, deeper, hundred = tables
    by_measure, by_heuristic = between(stripes, average), between(stripes, blocks)
    return [
        _told(
            "5.2",
            "On CIFAR-10 and CIFAR-100 several combinations train better models than vanilla (ResNet-34).",
            _higher(deeper) > 0 and _higher(hundred) > 0,
            _beyond(deeper) > 0 and _beyond(hundred) > 0,
            f"{_higher(deeper)} and {_higher(hundred)} of {_settings(hundred)} have a higher mean; least p of these, "
            f"before any correction: {_least(deeper):.2f} and {_least(hundred):.2f}",
        ),
        _told(
            "5.3",
            "ResNet-34 gains more from importance-aware training than ResNet-18 (CIFAR-10, Stripes, Variance).",
            _gain(deeper) > _gain(stripes),
            _beyond(deeper) > 0,
            f"best of {_settings(deeper)}: {_gain(deeper):+.3f} and {_gain(stripes):+.3f}; chance alone makes "
            f"{deeper['selected']['by_chance']:+.3f} and {stripes['selected']['by_chance']:+.3f} (median)",
        ),
        _told(
            "5.4",
            "With both heuristics, Stripes and Blocks, some combinations train better models than vanilla.",
            _higher(stripes) > 0 and _higher(blocks) > 0,
            _beyond(stripes) > 0 and _beyond(blocks) > 0,
            f"{_higher(stripes)} and {_higher(blocks)} of {_settings(blocks)} have a higher mean; least p of these: "
            f"{_least(stripes):.2f} and {_least(blocks):.2f}",
        ),
        _told(
            "5.4",
            "Blocks is comparable to Stripes and to vanilla.",
            abs(by_heuristic["gain"]) < MARGIN,
            blocks["selected"]["below"] == 0,
            f"{blocks['selected']['below']} of {_settings(blocks)} settings are worse than the worst that chance "
            f"makes of equal ones, the worst by {blocks['selected']['loss']:+.3f}; Stripes less Blocks, all settings: "
            f"{_ends(by_heuristic)}",
        ),
        _told(
            "5.5",
            "Variance is a marginally better measure than average loss.",
            by_measure["gain"] > 0,
            by_measure["gain"] > 0 and by_measure["p"]["pairs"] <= LEVEL,
            f"best setting: {_gain(stripes) - _gain(average):+.3f}; all settings: {_ends(by_measure)}; with average "
            f"{_higher(average)} of {_settings(average)} have a higher mean than vanilla, with variance "
            f"{_higher(stripes)}",
        ),
    ]


def between(one: Result, other: Result) -> Result:
    """Return how the mean over all settings of one table differs from that of another, seed by seed."""
    here = Setting(0, 0)
    found: Result = against({None: other["every"]["values"], here: one["every"]["values"]})[here]
    return found


def _told(where: str, what: str, by_means: bool, by_tests: bool, numbers: str) -> Result:
    return {"where": where, "what": what, "by_means": by_means, "by_tests": by_tests, "numbers": numbers}


def _settings(table: Result) -> int:
    return len(table["settings"])


def _higher(table: Result) -> int:
    return int(table["higher"])


def _beyond(table: Result) -> int:
    return int(table["selected"]["beyond"])


def _gain(table: Result) -> float:
    return float(table["selected"]["gain"])


def _least(table: Result) -> float:
    """Return the least p of all tests of settings with a higher mean; 1 if there are none."""
    return min(
        (p for each in table["settings"] if each["best"]["gain"] > 0 for p in tests_of(each).values()), default=1.0
    )


def tests_of(setting: Result) -> dict[str, float]:
    """Return the p-values of a setting's tests against vanilla, without that of equivalence."""
    return {test: p for test, p in setting["best"]["p"].items() if test != "same"}


def _ends(tested: Result) -> str:
    return f"{tested['gain']:+.3f} ({tested['low']:+.3f} to {tested['high']:+.3f}), p = {tested['p']['pairs']:.2f}"
