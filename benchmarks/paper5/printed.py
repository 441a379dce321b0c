"""What the paper prints of its results, typed by hand, and how its workloads were tuned.

Sheikholeslami, Wang, Payberah, Dowling and Vlassov 2024, "Deep Neural Network Weight Initialization from Hyperparameter
Tuning Trials" (ICONIP), as reprinted in the first author's thesis of 2025 as Paper 5. Numbers stand here as text, digit
by digit. The tables drop zeros at the end ("74.93"): all of them are taken to three digits behind the point.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

RANDOM: Final = "Random"
FINAL: Final = "HP Final"
DIGITS: Final = 3
"""Behind the point, in the tables."""


@dataclass(frozen=True)
class Row:
    """A row of one of the tables 1 to 5.

    Attributes:
        start: Which weights: ``Random``, ``HP Final``, or ``Epoch`` and its number.
        best: Mean of the best test accuracies, percent.
        deviation: Their standard deviation.
        epochs: Mean time to the target, in epochs.
    """

    start: str
    best: str
    deviation: str
    epochs: str


@dataclass(frozen=True)
class Tuning:
    """How a workload was tuned; none of these numbers is in the raw runs.

    Attributes:
        trials: How many.
        epochs: Of each trial; "HP Final" is the last.
        batch: Size.
        accuracy: Of the trial that won, on its validation data, percent.
        rate: Its learning rate.
        decay: Its weight decay; empty where the paper gives none.
        share: Of the training data that a trial was trained with.
        validated: Examples that it validated with after each epoch, over all training examples.
    """

    trials: int
    epochs: int
    batch: int
    accuracy: str
    rate: str
    decay: str
    share: float = 0.8
    validated: float = 0.2


@dataclass(frozen=True)
class Workload:
    """One of the five experiments.

    Attributes:
        folder: In the file of raw runs.
        name: Model and data.
        section: Where the paper tells of it.
        table: Its number.
        figures: Number of the figure of accuracies, and of the one of times if there is one.
        target: Test accuracy, percent.
        epochs: Of each run.
        repeats: Runs of each start.
        examples: Training examples.
        tuning: How it was tuned.
        rows: Of the table.
    """

    folder: str
    name: str
    section: str
    table: int
    figures: tuple[int, ...]
    target: str
    epochs: int
    repeats: int
    examples: int
    tuning: Tuning
    rows: tuple[Row, ...]

    def inherits(self, start: str) -> int:
        """Return how many epochs the weights of a start were trained for."""
        if start == RANDOM:
            return 0
        return self.tuning.epochs if start == FINAL else int(start.removeprefix("Epoch "))


WORKLOADS: Final = (
    Workload(
        folder="res18-c10",
        name="ResNet-18 on CIFAR-10",
        section="4.2",
        table=1,
        figures=(2, 3),
        target="90.00",
        epochs=200,
        repeats=8,
        examples=50_000,
        tuning=Tuning(10, 30, 256, "88.48", "0.01", "0.0003"),
        rows=(
            Row("Epoch 2", "94.198", "0.108", "24.0"),
            Row("Epoch 5", "94.289", "0.107", "21.25"),
            Row("Epoch 10", "94.319", "0.085", "20.75"),
            Row("Epoch 15", "94.339", "0.166", "18.5"),
            Row("Epoch 20", "94.351", "0.103", "14.625"),
            Row("Epoch 25", "94.391", "0.061", "14.375"),
            Row(FINAL, "94.316", "0.061", "12.75"),
            Row(RANDOM, "94.231", "0.098", "29.125"),
        ),
    ),
    Workload(
        folder="res18-c100",
        name="ResNet-18 on CIFAR-100",
        section="4.3",
        table=2,
        figures=(4,),
        target="75.00",
        epochs=200,
        repeats=8,
        examples=50_000,
        tuning=Tuning(10, 40, 256, "57.74", "0.1", "0.0003"),
        rows=(
            Row("Epoch 5", "77.044", "0.191", "122.75"),
            Row("Epoch 10", "77.152", "0.219", "123.25"),
            Row("Epoch 15", "77.112", "0.138", "123.125"),
            Row("Epoch 30", "77.292", "0.181", "124.5"),
            Row("Epoch 35", "77.124", "0.287", "124.25"),
            Row(FINAL, "76.947", "0.193", "124.25"),
            Row(RANDOM, "77.080", "0.299", "122.375"),
        ),
    ),
    Workload(
        folder="res18-tinyimagenet",
        name="ResNet-18 on Tiny ImageNet",
        section="4.4",
        table=3,
        figures=(5,),
        target="40.00",
        epochs=200,
        repeats=8,
        examples=100_000,
        tuning=Tuning(12, 40, 256, "35.94", "0.3", "0.0003", share=1.0, validated=0.1),
        rows=(
            Row("Epoch 5", "44.062", "0.536", "153.75"),
            Row("Epoch 10", "44.085", "0.403", "153.25"),
            Row("Epoch 15", "43.885", "0.245", "153.5"),
            Row("Epoch 30", "44.328", "0.479", "153.875"),
            Row("Epoch 35", "44.362", "0.415", "154.125"),
            Row(FINAL, "44.223", "0.275", "154.25"),
            Row(RANDOM, "44.428", "0.485", "154.5"),
        ),
    ),
    Workload(
        folder="res152-c100",
        name="ResNet-152 on CIFAR-100",
        section="4.5",
        table=4,
        figures=(6,),
        target="75.00",
        epochs=200,
        repeats=4,
        examples=50_000,
        tuning=Tuning(10, 80, 128, "51.13", "0.01", "0.003"),
        rows=(
            Row("Epoch 65", "80.23", "0.189", "144.0"),
            Row("Epoch 75", "80.168", "0.107", "143.25"),
            Row(FINAL, "80.072", "0.285", "142.5"),
            Row(RANDOM, "80.372", "0.169", "143.25"),
        ),
    ),
    Workload(
        folder="inceptionv3-food101",
        name="InceptionV3 on Food-101",
        section="4.6",
        table=5,
        figures=(7, 8),
        target="70.00",
        epochs=50,
        repeats=8,
        examples=75_750,
        tuning=Tuning(12, 20, 64, "40.50", "0.021", ""),
        rows=(
            Row("Epoch 5", "74.93", "0.115", "28.75"),
            Row("Epoch 10", "75.935", "0.23", "23.25"),
            Row("Epoch 15", "76.572", "0.155", "20.5"),
            Row(FINAL, "76.894", "0.158", "18.375"),
            Row(RANDOM, "73.385", "1.073", "33.875"),
        ),
    ),
)
"""Tiny ImageNet has validation images of its own (section 4.4: 50 for each of 200 classes, 100,000 to train with). Of
the others a fifth was kept for validation (section 4.1)."""

DOUBLED: Final = "res152-c100-70"
"""A folder that holds the runs of ``res152-c100`` again, with times to 70 %."""


@dataclass(frozen=True)
class Told:
    """A number that the paper gives in its text.

    Attributes:
        key: Which one; the benchmark has a function for each.
        where: Section.
        what: In words.
        printed: As it stands there.
        digits: Behind the point.
    """

    key: str
    where: str
    what: str
    printed: str
    digits: int


TESTED: Final = ("res18-c10", "Epoch 25")
"""What section 4.2 compares with random weights."""

TOLD: Final = (
    Told("t", "4.2", "paired t-test, statistic", "3.521", 3),
    Told("t_p", "4.2", "paired t-test, p-value", "0.00970", 5),
    Told("u", "4.2", "Mann-Whitney U-test, U1", "3.0", 1),
    Told("u_p", "4.2", "Mann-Whitney U-test, p-value", "0.00108", 5),
    Told("speed_up", "4.2", "speed-up of Epoch 25 over Random, time to target", "2.027", 3),
    Told("most", "abstract, 1", "speed-up of training, up to", "2", 0),
    Told("runs", "1", "training runs", "232", 0),
    Told("storage_gb", "4.7", "GB for 10 trials x 80 epochs x 224 MB", "179.2", 1),
)

SETTINGS: Final = (
    ("starts", "weight initializations beside random"),
    ("repeats", "runs of each"),
    ("epochs", "epochs of each run"),
    ("target", "target accuracy, percent"),
)
"""What sections 4.2 to 4.6 say of their runs. The raw runs hold a target only by the times that they give for it."""
