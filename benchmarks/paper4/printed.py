"""What the paper prints of its results, typed digit by digit.

Sheikholeslami, Payberah, Wang, Dowling and Vlassov 2023, "The Impact of Importance-aware Dataset Partitioning on
Data-parallel Training of Deep Neural Networks" (DAIS), as reprinted in the first author's thesis of 2025 as Paper 4.
Where a zero at the end was dropped ("0.18"), the number is taken to three digits behind the point, like the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

WARMUPS: Final = (10, 15, 20, 30, 40, 60)
INTERVALS: Final = (1, 5, 8, 10, 15, 30)
DIGITS: Final = 3
"""Behind the point, in the tables."""

MARGIN: Final = 0.3
"""Points of accuracy within which two partitions count as equally good. It is ours; the paper names none."""


@dataclass(frozen=True, order=True)
class Setting:
    """A cell of a table.

    Attributes:
        warmup: Epochs with random partitions, before the first other one.
        interval: Epochs between two partitions.
    """

    warmup: int
    interval: int

    def __str__(self) -> str:
        """Return it as figure 5 does."""
        return f"W{self.warmup}-INT{self.interval}"


SETTINGS: Final = tuple(Setting(warmup, interval) for warmup in WARMUPS for interval in INTERVALS)


@dataclass(frozen=True)
class Workload:
    """One of the tables 1 to 5.

    Attributes:
        table: Its number, which is that of the subfigure of figure 5 as well.
        folder: In the file of raw runs.
        data: The data set, as figure 5 names it.
        model: Likewise.
        heuristic: Likewise.
        measure: Likewise.
        vanilla: Mean and deviation of the best accuracies with random partitions.
        cells: A line for each warm-up, with a mean and a deviation for each interval.
    """

    table: int
    folder: str
    data: str
    model: str
    heuristic: str
    measure: str
    vanilla: str
    cells: tuple[str, ...]

    @property
    def name(self) -> str:
        """What it is called on the page."""
        return f"{self.data}, {self.model}, {self.heuristic}, {self.measure}"

    @property
    def printed(self) -> dict[Setting | None, tuple[str, str]]:
        """Setting -> mean and deviation; None is for random partitions."""
        numbers = [iter(line.split()) for line in self.cells]
        pairs = [pair for line in numbers for pair in zip(line, line, strict=True)]
        mean, deviation = self.vanilla.split()
        return {None: (mean, deviation), **dict(zip(SETTINGS, pairs, strict=True))}


WORKLOADS: Final = (
    Workload(
        1,
        "CIFAR10-ResNet18-Stripes-Variance",
        "CIFAR-10",
        "ResNet-18",
        "Stripes",
        "Variance",
        "82.983 0.327",
        (
            "82.766 0.185  82.848 0.278  82.742 0.152  82.862 0.237  82.836 0.387  82.988 0.299",
            "82.743 0.373  82.752 0.157  82.891 0.302  82.888 0.296  82.958 0.247  82.873 0.262",
            "82.776 0.243  82.832 0.262  82.749 0.309  82.722 0.221  82.878 0.283  83.044 0.311",
            "82.846 0.202  82.858 0.376  82.837 0.263  82.946 0.204  82.843 0.307  82.773 0.266",
            "82.946 0.246  82.773 0.208  82.985 0.238  82.869 0.364  82.815 0.296  82.827 0.161",
            "82.813 0.283  82.898 0.300  82.882 0.152  82.764 0.293  82.830 0.249  82.705 0.415",
        ),
    ),
    Workload(
        2,
        "CIFAR10-ResNet18-Stripes-Average",
        "CIFAR-10",
        "ResNet-18",
        "Stripes",
        "Average",
        "82.983 0.327",
        (
            "82.941 0.262  82.880 0.339  82.859 0.312  82.815 0.290  82.836 0.226  82.891 0.195",
            "82.885 0.231  82.816 0.287  82.841 0.316  82.778 0.259  82.866 0.260  82.773 0.247",
            "82.952 0.314  82.913 0.247  82.903 0.240  82.889 0.265  82.841 0.278  82.919 0.210",
            "82.939 0.294  82.854 0.185  82.853 0.236  82.889 0.227  82.743 0.335  82.929 0.279",
            "82.864 0.138  82.903 0.152  82.883 0.225  82.766 0.220  82.905 0.244  82.851 0.236",
            "82.908 0.337  82.931 0.339  82.818 0.245  82.956 0.228  82.806 0.195  82.758 0.237",
        ),
    ),
    Workload(
        3,
        "CIFAR10-ResNet18-Blocks-Variance",
        "CIFAR-10",
        "ResNet-18",
        "Blocks",
        "Variance",
        "82.983 0.327",
        (
            "82.921 0.352  83.067 0.270  82.778 0.426  82.743 0.218  82.662 0.240  82.706 0.165",
            "82.992 0.321  82.899 0.308  82.890 0.253  82.805 0.165  82.664 0.178  82.109 0.338",
            "82.845 0.292  82.939 0.376  82.850 0.429  82.716 0.205  82.747 0.289  82.523 0.165",
            "82.956 0.189  82.942 0.309  83.055 0.153  82.954 0.382  82.815 0.247  82.583 0.206",
            "83.001 0.270  82.861 0.336  82.786 0.247  82.925 0.18  82.865 0.177  82.894 0.254",
            "82.918 0.348  82.873 0.283  82.848 0.271  82.886 0.273  82.884 0.228  82.462 0.222",
        ),
    ),
    Workload(
        4,
        "CIFAR10-ResNet34-Stripes-Variance",
        "CIFAR-10",
        "ResNet-34",
        "Stripes",
        "Variance",
        "82.661 0.478",
        (
            "82.650 0.547  82.653 0.399  82.590 0.395  82.621 0.243  82.751 0.461  82.753 0.632",
            "82.537 0.332  82.424 0.510  82.745 0.401  82.799 0.481  82.832 0.239  82.433 1.020",
            "82.845 0.441  82.659 0.637  82.787 0.407  82.606 0.541  82.890 0.321  82.492 0.300",
            "82.671 0.434  82.539 0.307  82.719 0.509  82.920 0.287  82.594 0.434  82.720 0.589",
            "82.669 0.426  82.773 0.403  82.422 0.728  82.530 0.305  82.649 0.339  82.562 0.353",
            "82.789 0.336  82.615 0.342  82.683 0.397  82.768 0.525  82.678 0.451  82.622 0.661",
        ),
    ),
    Workload(
        5,
        "CIFAR100-ResNet34-Stripes-Variance",
        "CIFAR-100",
        "ResNet-34",
        "Stripes",
        "Variance",
        "49.042 0.698",
        (
            "49.169 0.335  49.064 0.312  49.167 0.432  48.758 0.597  49.04 0.503  49.033 0.450",
            "49.156 0.332  48.959 0.437  49.264 0.292  49.186 0.498  49.073 0.573  49.079 0.351",
            "48.978 0.550  49.144 0.637  49.024 0.365  49.149 0.297  48.944 0.436  48.977 0.380",
            "49.278 0.399  48.906 0.792  49.102 0.393  48.897 0.432  49.152 0.446  48.966 0.389",
            "49.129 0.549  48.978 0.527  49.262 0.489  49.155 0.387  48.998 0.450  49.024 0.284",
            "49.083 0.348  49.224 0.338  49.027 0.453  49.194 0.396  49.107 0.461  49.270 0.429",
        ),
    ),
)


@dataclass(frozen=True)
class Told:
    """A number of the text.

    Attributes:
        key: What it is, for ``compared``.
        what: The same in words.
        where: Its section.
        printed: As it stands there.
    """

    key: str
    what: str
    where: str
    printed: str


TOLD: Final = (
    Told("runs", "runs", "5.1", "1830"),
    Told("workloads", "workloads, the three vanilla ones among them", "5.1", "183"),
    Told("vanilla", "workloads with vanilla training", "5.1", "3"),
    Told("repeats", "runs of each workload", "5.1", "10"),
    Told("epochs", "epochs of each run", "5", "100"),
    Told("settings", "combinations of warm-up and interval in each table", "5.6", "36"),
)

TRACKING: Final = "importance tracking, seconds an epoch: mean"
TRAINING: Final = "training, seconds: mean"

ABSENT: Final = (
    ("importance tracking, seconds an epoch: least", "0.979"),
    (TRACKING, "1.052"),
    ("importance tracking, seconds an epoch: most", "1.407"),
    ("partitioning, seconds an interval: least", "2.456"),
    ("partitioning, seconds an interval: mean", "2.643"),
    ("partitioning, seconds an interval: most", "5.213"),
    ("training, seconds: least", "715"),
    (TRAINING, "721.556"),
    ("training, seconds: most", "758"),
    ("tracking over wall-clock time, percent", "14.57"),
)
"""What table 6 and its section print, and the raw runs do not hold: seconds."""
