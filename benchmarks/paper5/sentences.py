"""What the paper says of its results in words, held against its own numbers."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.common import Result
from benchmarks.paper5.judged import LEVEL, arm_of
from benchmarks.paper5.printed import FINAL, RANDOM


def sentences(workloads: Sequence[Result]) -> list[Result]:
    """Return each sentence with where it stands, whether it is so, and the numbers that say so."""
    c10, c100, tiny, r152, food = workloads
    return [
        _told(
            "4.2",
            "On CIFAR-10 every start from weights is significantly faster than random weights.",
            all(each["sunk"]["gain"] > 0 and each["sunk"]["holm_here"] <= LEVEL for each in _warm(c10)),
            f"largest p, corrected for the seven: {max(each['sunk']['holm_here'] for each in _warm(c10)):.4f}; for all "
            f"{_tests(workloads)} starts: {max(each['sunk']['holm_all'] for each in _warm(c10)):.4f}",
        ),
        _told(
            "4.2",
            "There, most of them have a higher mean best accuracy.",
            2 * len(_more_accurate(c10)) > len(_warm(c10)),
            f"{len(_more_accurate(c10))} of {len(_warm(c10))} have",
        ),
        _told(
            "4.7",
            "There, Epoch 25 has the best accuracy, better than HP Final.",
            max(c10["arms"], key=lambda each: float(each["best_mean"]))["start"] == "Epoch 25",
            f"{arm_of(c10, 'Epoch 25')['best_mean']:.3f} against {arm_of(c10, FINAL)['best_mean']:.3f}",
        ),
        _told(
            "4.7",
            "On CIFAR-100 with ResNet-18 weights can outperform random ones in time to the target.",
            bool(_faster(c100)),
            f"{len(_faster(c100))} of {len(_warm(c100))} have a lower mean; "
            f"{_least(c100):.3f} epochs at least against {arm_of(c100, RANDOM)['sunk']['mean']:.3f}",
        ),
        _told(
            "4.7",
            "There, they can outperform random ones in best accuracy.",
            bool(_more_accurate(c100)),
            f"{len(_more_accurate(c100))} of {len(_warm(c100))} have a higher mean; "
            f"least p before any correction: {min(each['best']['p'] for each in _warm(c100)):.3f}",
        ),
        _told(
            "4.7",
            "On Tiny ImageNet, and with ResNet-152, random weights have the higher accuracy.",
            not _more_accurate(tiny) and not _more_accurate(r152),
            f"{len(_more_accurate(tiny))} of {len(_warm(tiny))} and {len(_more_accurate(r152))} of {len(_warm(r152))} "
            "starts have a higher mean",
        ),
        _told(
            "4.7",
            "There, other starts can have better times.",
            bool(_faster(tiny)) and bool(_faster(r152)),
            f"{len(_faster(tiny))} of {len(_warm(tiny))} and {len(_faster(r152))} of {len(_warm(r152))} have a lower "
            "mean; least p before any correction: "
            f"{min(each['sunk']['p'] for each in (*_warm(tiny), *_warm(r152))):.3f}",
        ),
        _told(
            "4.6",
            "On Food-101 weights clearly outperform random ones in time and in accuracy.",
            len(_faster(food)) == len(_more_accurate(food)) == len(_warm(food)),
            f"{len(_faster(food))} and {len(_more_accurate(food))} of {len(_warm(food))} have better means; largest p, "
            f"corrected for all: {max(each[of]['holm_all'] for each in _warm(food) for of in ('sunk', 'best')):.4f}",
        ),
    ]


def _told(where: str, what: str, so: bool, numbers: str) -> Result:
    return {"where": where, "what": what, "so": so, "numbers": numbers}


def _warm(workload: Result) -> list[Result]:
    return [each for each in workload["arms"] if each["start"] != RANDOM]


def _faster(workload: Result) -> list[Result]:
    return [each for each in _warm(workload) if each["sunk"]["gain"] > 0]


def _more_accurate(workload: Result) -> list[Result]:
    return [each for each in _warm(workload) if each["best"]["gain"] > 0]


def _least(workload: Result) -> float:
    return min(float(each["sunk"]["mean"]) for each in _warm(workload))


def _tests(workloads: Sequence[Result]) -> int:
    return sum(len(_warm(workload)) for workload in workloads)
