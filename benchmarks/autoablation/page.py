"""The pages about the paper's experiments: its tables beside ours, from what the benchmarks printed."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from benchmarks.autoablation import printed
from benchmarks.common import Result
from benchmarks.golden import live
from benchmarks.golden.case import judged
from benchmarks.golden.page import interval, probability
from benchmarks.writing import commit, listed, paragraph, points, table

PAPER: Final = "https://doi.org/10.1145/3437984.3458834"
NOTEBOOKS: Final = "https://github.com/ssheikholeslami/ablation-paper-experiments"

ONE_RUN: Final = " ARGS='--runs 1'"

Arms = Mapping[str, Result]

WORDS: Final = {"worse": "matters", "better": "hurts", "as good": "does not matter", "undecided": "undecided"}
"""What it says of a component that the arm without it is worse, and so on."""

SLOW: Final = 2.0
"""Trials that take so many times as long as the median one of their study are told of."""

OPPOSITE: Final = {"worse", "better"}


def titanic(line: Mapping[str, Any]) -> dict[str, str]:
    """Return the page about the features of the Titanic data."""
    return {"autoablation-titanic.md": "\n".join(_titanic(line))}


def mnist(line: Mapping[str, Any]) -> dict[str, str]:
    """Return the page about the layers of the CNN."""
    return {"autoablation-mnist.md": "\n".join(_mnist(line))}


def inception(line: Mapping[str, Any]) -> dict[str, str]:
    """Return the page about the modules of InceptionV3."""
    return {"autoablation-inception.md": "\n".join(_inception(line))}


def _titanic(line: Mapping[str, Any]) -> Iterator[str]:
    ours, released = (_arms(line, cell) for cell in ("étude", "étude, the released network"))
    yield from _head(line, "Which features tell who survived the Titanic", "titanic_features.py", "first")
    yield paragraph(
        f"Table 1 of the paper has means of {printed.RUNS} runs; here each arm has {_seeds(ours)} seeds, and a seed",
        "decides which rows are tested on, too. The effect is the base's accuracy less that of the arm, over pairs",
        "with the same seed: a positive one says that the feature helps. In brackets its 95 % interval; p is corrected",
        "for all features, and the verdict is that of [`ablation.verdicts()`](../verdicts.md). In percent and points.",
    )
    yield from _compared(printed.TITANIC, ours, "here")
    yield "## The released network\n"
    yield paragraph(
        f"The paper's [notebook]({NOTEBOOKS}) has another network than its text: three hidden layers, the third of two",
        "units; an output without an activation, which the loss takes for a probability; and numbers that are not",
        "scaled. Where such an output is outside of 0 to 1 it is clipped, and nothing is learned from it. With that",
        "network, on the same rows and with the same seeds:",
    )
    yield from _compared(printed.TITANIC, released, "with this network")
    stuck = [sum(arm["one_answer"]) for arm in released.values()]
    yield paragraph(
        f"Of its {sum(len(arm['values']) for arm in released.values())} runs, {sum(stuck):.0f} gave all tested",
        f"passengers the same answer in the end; by arm, from the base on: {', '.join(f'{n:.0f}' for n in stuck)} of",
        f"{_seeds(released)}. Such a run has the accuracy of whoever guesses without looking, and means of a few runs",
        "say then above all how many of these there were.",
    )
    yield "## What differs from the paper\n"
    yield points(
        "The paper's table is a customized version of the same data, which is not published; this is the `train.csv` "
        "of Kaggle, 891 rows. Missing ages get the median of the training rows.",
        "The same: six features, a fifth of the rows to test on, 10 epochs, batches of 30, Adam. Here PyTorch, there "
        "TensorFlow 1.",
        f"What begins alike in the arms of a seed: {_pairing(ours)}.",
    )


def _mnist(line: Mapping[str, Any]) -> Iterator[str]:
    ours = _arms(line, "étude")
    at = line["details"]["étude"]["at"]
    yield from _head(line, "What four layers of a small CNN contribute", "mnist_layers.py", "second")
    yield paragraph(
        f"Table 2 of the paper has means of {printed.RUNS} runs; here each arm has {_seeds(ours)} seeds. The effect is",
        "the base's accuracy less that of the arm, over pairs with the same seed: a positive one says that the layer",
        "helps. In brackets its 95 % interval; p is corrected for all layers, and the verdict is that of",
        "[`ablation.verdicts()`](../verdicts.md). In percent and points.",
    )
    yield from _compared(printed.MNIST, ours, "here")
    yield "## What was done to the network\n"
    yield table(
        ("arm", "changes", "parameters", "first weights of what is in both"),
        [
            (
                name,
                "; ".join(arm["changes"]) or "nothing",
                f"{arm['parameters']:,}" if arm["parameters"] else "",
                alike(arm),
            )
            for name, arm in ours.items()
        ],
    )
    yield "## What differs from the paper\n"
    yield points(
        f"{at['images']:,} images to train on and as many to test on, batches of {at['batch_size']}, {at['epochs']} "
        f"epochs: {at['epochs'] * -(-at['images'] // at['batch_size']):,} steps. The paper has all 60,000 and 10,000, "
        f"batches of 512, 10 epochs: 1,180 steps, on GPUs. A dropout of 0.85, twice, is much for so short a training.",
        "The network is that of the released notebook: kernels of 4, pooling of 7, dropout of 0.85, Adadelta with 1.0. "
        "Here PyTorch, there TensorFlow. In Keras an activation is a part of its layer, so it goes along here too.",
        "The paper rebuilds whatever follows; here, where more than a fifth of the network would be drawn anew, what "
        "went into the layer is brought into shape instead, so that arms stay comparable with the base.",
    )


def _inception(line: Mapping[str, Any]) -> Iterator[str]:
    details: Mapping[str, Result] = line["details"]
    measured = {row["name"]: row["median"] for row in line["rows"]}
    alone, *_ = details
    at, arms = details[alone]["at"], _arms(line, alone)
    runs = max(row["runs"] for row in line["rows"])
    steps = at["epochs"] * -(-at["images"] // at["batch_size"])
    yield from _head(line, "InceptionV3 without each of its first seven modules", "inception_modules.py", "third")
    yield paragraph(
        "It is about time: the paper draws how long the eight trials take with one, two and four executors, in a",
        'figure without printed numbers; its text calls that "near-linear". Here workers share',
        f"{line['machine']['cores']} cores, and each trial has one thread.",
        *([f"Medians of {runs} runs."] if runs > 1 else []),
    )
    rows = []
    for cell, found in details.items():
        took_s, workers = measured[f"{cell}: study_s"], int(cell.split()[1])
        rows.append(
            (
                str(workers),
                f"{took_s:.0f}",
                f"{measured[f'{alone}: study_s'] / took_s:.2f}",
                str(workers),
                f"{measured.get(f'{cell}: trials_s', sum(found['trial_s'])):.0f}",
                f"{measured[f'{cell}: over_bound']:.3f}",
                f"{next(row['probe'] for row in line['rows'] if row['name'] == f'{cell}: study_s'):.2f}",
            )
        )
    yield table(("workers", "s", "times faster", "linear", "s in trials", "over the bound", "probe"), rows)
    if told := _uneven(details):
        yield paragraph(*told)
    yield paragraph(
        "The bound is that of list scheduling for trials that take as long as these took, in their order: what is over",
        "it is the product's doing, and what is under linear beside that the cores': with more workers than free cores",
        "each trial takes longer. A probe of 1 says that the machine was quiet, and of 4 that a process had a quarter",
        "of a core. Before anything starts, the model is built and all arms are planned and tried, which took",
        f"{' and '.join(_seconds(measured[f'{cell}: plan_s']) for cell in details)} in these runs.",
    )
    yield "## What was done to the network\n"
    yield table(
        ("arm", "changes", "parameters", "s in training", "accuracy, %"),
        [
            (
                name,
                brief(arm["changes"]),
                f"{arm['parameters']:,}" if arm["parameters"] else "",
                f"{seconds:.1f}",
                f"{100 * arm['mean']:.1f}",
            )
            for (name, arm), seconds in zip(arms.items(), details[alone]["trial_s"], strict=True)
        ],
    )
    yield paragraph(
        *(["Seconds in training are those of the last run."] if runs > 1 else []),
        f"After {steps} steps from random weights an accuracy is that of guessing, about 10 %, and says nothing about",
        "a module; it stands here to show that each network was trained and tested.",
    )
    yield "## What differs from the paper\n"
    yield points(
        f"{at['images']} images of CIFAR-10, made larger to 75 by 75, {steps} steps of {at['batch_size']} and random "
        "weights. The paper has 3,200 radar images of 299 by 299 (TenGeoPSAR), 40 epochs, weights from ImageNet, and a "
        "GPU for each executor.",
        "Keras 3 on PyTorch; the paper has Keras of TensorFlow 1.",
        "The paper's module ablation lists the same seven modules, and its code for it is not in a released Maggy.",
    )


def _uneven(details: Mapping[str, Result]) -> list[str]:
    """Return in sentences which trials took far longer than the others of their study; nothing if none did."""
    told = []
    for cell, found in details.items():
        usual_s = statistics.median(found["trial_s"])
        slow = [seconds for seconds in found["trial_s"] if seconds > SLOW * usual_s]
        others = [seconds for seconds in found["trial_s"] if seconds <= SLOW * usual_s]
        if slow:
            told.append(
                f"In the study with {cell.partition(', ')[2]}, {len(slow)} of {len(found['trial_s'])} trials took "
                f"{listed([f'{seconds:.1f}' for seconds in slow])} s where the others took {min(others):.1f} to "
                f"{max(others):.1f}, for a reason that was not found. Beside a study that was slowed down so, "
                "the others look quicker than they are."
            )
    return told


def brief(changes: Sequence[str]) -> str:
    """Return what was done to a model, with layers that just go counted."""
    gone = [one for one in changes if one.endswith(" removed")]
    rest = [one for one in changes if not one.endswith(" removed")]
    return "; ".join([*([f"{len(gone)} layers removed"] if gone else []), *rest]) or "nothing"


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f} s"


def alike(arm: Result) -> str:
    """Return what the arm's first weights are to those of the base, in words."""
    if not arm["pairs"]:
        return ""
    unlike = ", ".join(arm["unlike"])
    return f"all {arm['shared']} alike" if not unlike else f"alike but for {unlike}"


def _head(line: Mapping[str, Any], title: str, example: str, nth: str) -> Iterator[str]:
    name, machine = line["benchmark"], line["machine"]
    runs = max(row["runs"] for row in line["rows"])
    yield f"# {title}\n"
    yield paragraph(
        f"The {nth} experiment of [the paper on AutoAblation]({PAPER}), as [an example](../../examples/{example}).",
        f"Made by `python -m benchmarks.page` from the [last line](lines/{name}.json) that `make bench NAME={name}"
        f"{ONE_RUN if runs == 1 else ''}` printed, commit {commit(line)}, {machine['cores']} cores ({machine['cpu']}),",
        f"Python {machine['python']}.",
    )


def _arms(line: Mapping[str, Any], cell: str) -> dict[str, Result]:
    return {arm["name"]: arm for arm in line["details"][cell]["arms"]}


def _seeds(arms: Arms) -> int:
    return len(next(iter(arms.values()))["values"])


def _compared(paper: Mapping[str, str], arms: Arms, where: str) -> Iterator[str]:
    found = judged(live.ablation("", "", list(arms.values()), paper))
    verdicts = {arm["arm"]: arm for arm in found["arms"]}
    yield _beside(paper, arms, verdicts)
    yield _said(paper, arms, verdicts, where)
    if found["first"]:
        yield paragraph(*found["first"])


def _beside(paper: Mapping[str, str], arms: Arms, verdicts: Arms) -> str:
    """Return the paper's table beside ours, in the paper's order."""
    base = float(paper[printed.BASE])
    return table(
        ("without", "paper", "paper, effect", "here", "least to most", "here, effect", "p", "verdict"),
        [
            (
                _short(name),
                f"{100 * float(told):.1f}",
                "" if name == printed.BASE else f"{100 * (base - float(told)):+.1f}",
                f"{100 * arms[name]['mean']:.1f}",
                " to ".join(f"{100 * end:.1f}" for end in _ends(arms[name]["values"].values())),
                *(("", "", "") if name == printed.BASE else _verdict(verdicts[name])),
            )
            for name, told in paper.items()
        ],
    )


def _pairing(arms: Arms) -> str:
    """Return in words what arms without a feature have in common with the base."""
    others = [arm for arm in arms.values() if arm["pairs"]]
    weights = sorted({arm["shared"] - len(arm["unlike"]) for arm in others})
    of = max(arm["shared"] for arm in others)
    return f"the rows of each part, and {' or '.join(map(str, weights))} of {of} tensors of first weights"


def _ends(values: Collection[float]) -> tuple[float, float]:
    return min(values), max(values)


def _verdict(arm: Result) -> tuple[str, str, str]:
    """Return the effect with its interval, its p-value, and what comes of it: of the component, not of the arm."""
    return f"{arm['effect']:+.2f} ({interval(arm)})", probability(arm["p_corrected"]), WORDS[arm["says"]]


def _said(paper: Mapping[str, str], arms: Arms, verdicts: Arms, where: str) -> str:
    """Return what the two tables have in common and what not, in words."""
    theirs = sorted(paper, key=lambda name: float(paper[name]))
    ours = sorted(paper, key=lambda name: arms[name]["mean"])
    couples = list(itertools.combinations(theirs, 2))
    same = sum(arms[low]["mean"] < arms[high]["mean"] for low, high in couples)
    others = [name for name in ours if name != printed.BASE]
    helps, hurts = ([_short(name) for name in others if verdicts[name]["says"] == says] for says in ("worse", "better"))
    unlike = [_short(name) for name in others if {verdicts[name]["says"], verdicts[name]["claimed"]} == OPPOSITE]
    return paragraph(
        f"From the lowest accuracy to the highest, the paper has: {_order(theirs)}; {where}: {_order(ours)}. Of",
        f"{len(couples)} couples of arms, {same} are in the paper's order. By verdict, of what was taken out",
        f"{_says(helps, 'matter')}, and {_says(hurts, 'hurt')}. Against the sign of the paper's effect this is for",
        f"{listed(unlike)}.",
    )


def _says(names: Sequence[str], verb: str) -> str:
    return f"{listed(names)} {verb}{'' if len(names) > 1 else 's'}"


def _order(names: Sequence[str]) -> str:
    return ", ".join(_short(name) for name in names)


def _short(name: str) -> str:
    return "none (base)" if name == printed.BASE else name.partition(":")[2].partition(" ")[0]
