"""Several partitions, compared over seeds with none and with random subsets, in one call."""

from __future__ import annotations

import dataclasses
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from etude.core.errors import ConfigError, StudyError
from etude.core.numbers import is_finite, whole
from etude.core.ranks import FSDP
from etude.core.signature import Definition
from etude.core.text import brief, count
from etude.fit.importance.asked import Asked
from etude.fit.importance.assigning import check_partition
from etude.fit.importance.partitions import Partition, RandomSubsets
from etude.fit.plan import FitPlan, Wanted
from etude.fit.prepared import read_seeds
from etude.fit.verdict_partitions import LEVEL, Arm, PartitionComparison, beside, check_seeds, judge, lead, verdicts
from etude.launching.call import Call
from etude.launching.launch import Launch
from etude.results.search import TrialResult
from etude.tune.question import Question
from etude.verbs.partitioned import Partitioned, called, identity

if TYPE_CHECKING:
    from etude.experiment import Experiment

NONE: Final = "no partition"
SUBSETS: Final = "random subsets"
ARM: Final = "partition"
"""The parameter that names the arm of a trial."""


def compare_partitions(
    experiment: Experiment,
    *,
    at: TrialResult | Mapping[str, Any],
    partitions: Sequence[object] | Mapping[str, object],
    seeds: int | Sequence[int] = 20,
    ranks: int = 2,
    margin: float | None = None,
    level: float = LEVEL,
    parallel: object = "ddp",
    batch: str = "global",
    workers: int | tuple[int, int | None] | None = None,
    resources: Any = None,
    name: str | None = None,
    retries: int = 2,
    timeout_s: float | None = None,
    engine: object = None,
    progress: bool | None = None,
) -> PartitionComparison:
    """Train with each of some partitions and each of some seeds, and say whether any of them does anything.

    Each is compared, seed by seed, with runs without a partition and with ``etude.partitions.RandomSubsets()``. What
    counts is the metric that the training function returns, or reports last: never that of the best epoch. Beside it
    stands what the finished model, in eval mode, makes of each class of the part ``test`` of the data, or else of the
    last loader that does not train. It is one study, so the same call again goes on where it is.

    Args:
        experiment: Whose functions are run.
        at: The configuration of all runs: a trial, or parameters.
        partitions: What to compare: partitions, or name -> partition.
        seeds: How many, or which. Too few to show anything are refused.
        ranks: How many train each run, from 2.
        margin: A difference in the metric that would not matter, in its unit and fixed beforehand: without one no
            partition can be found to be the same as none.
        level: How often one of all claims may be made of nothing.
        parallel: As in ``tune``, but for FSDP.
        batch: See ``tune``.
        workers: See ``tune``.
        resources: See ``tune``.
        name: See ``tune``.
        retries: See ``tune``.
        timeout_s: See ``tune``.
        engine: See ``tune``.
        progress: See ``tune``.

    Returns:
        The comparison: print it. Its first line says whether anything won.

    Raises:
        ConfigError: The call cannot be carried out, or could show nothing whatever comes out.
        StudyError: The study's folder cannot be used, or not all runs came to their end.
    """
    for what, value, most in (("margin", margin, math.inf), ("level", level, 1.0)):
        if value is not None and not (is_finite(value) and 0 < value < most):
            raise ConfigError(
                f"{what}={brief(value)} cannot be. Pass "
                + ("a number above 0, or leave it out." if what == "margin" else "a share such as 0.05.")
            )
    if whole("ranks", ranks, 1, "nobody would train") == 1:
        raise ConfigError(
            "ranks=1 was given, and partitions assign training examples to ranks: with one they change nothing. Pass "
            "ranks=2 or more."
        )
    if ARM in experiment.signature.parameters:
        raise ConfigError(
            f"{ARM!r} is a parameter of this experiment, and compare_partitions() has one of that name. Call yours "
            "something else."
        )
    named = _named(partitions)
    listed = read_seeds(seeds, 0)
    check_seeds(len(listed), partitions=len(named), level=level)
    asked: dict[str, Partition | None] = {NONE: None, SUBSETS: RandomSubsets(), **named}
    call = Call.read(
        workers=workers,
        resources=resources,
        name=name,
        retries=retries,
        timeout_s=timeout_s,
        grace_s=10.0,
        reuse_child=False,
        keep=0,
        engine=engine,
        trials=len(listed) * len(asked),
        ranks=ranks,
        parallel=parallel,
        batch=batch,
    )
    if call.parallel is not None and isinstance(call.parallel.how, FSDP):
        raise ConfigError(
            "parallel='fsdp' divides the model over the ranks, and rank 0 looks at the finished one by itself. Leave "
            "parallel= out."
        )
    of = Partitioned(experiment, _by_name(asked))
    live = Launch(of, _question(of, experiment.checked(at), asked, listed), call).start()
    experiment.last = live.search
    live.wait(progress=progress)
    trials = live.search.trials
    if unfinished := [trial for trial in trials if trial.state != "finished"]:
        first, numbers = unfinished[0], [trial.number for trial in unfinished]
        raise StudyError(
            f"Of {count(len(trials), 'run')}, {numbers} did not come to their end, and a comparison of the others "
            f"would be one of what went well. Trial {first.number}, with {first.params[ARM]}, {first.state}: "
            f"{first.reason}. See: etude trials {live.search.folder}"
        )
    arms = [_arm(each, trials[nth :: len(asked)]) for nth, each in enumerate(asked)]
    mode = experiment.metrics.modes[experiment.metrics.main]
    claims = judge(arms, mode=mode, margin=margin, level=level)
    untouched, worst = beside(arms, level=level)
    return PartitionComparison(
        metric=experiment.metrics.main,
        mode=mode,
        ranks=ranks,
        arms=tuple(arms),
        claims=tuple(claims),
        untouched=tuple(untouched),
        worst=tuple(worst),
        verdicts=verdicts(claims),
        best=lead(arms, mode=mode),
        margin=margin,
        level=level,
        notes=tuple(_notes(arms, trials)),
        fit=live.search,
    )


def _named(given: object) -> dict[str, Partition]:
    """Return the partitions of a call by name.

    Raises:
        ConfigError: They are none.
    """
    if isinstance(given, Mapping):
        found = {str(name): check_partition(one) for name, one in given.items()}
    elif isinstance(given, list | tuple):
        checked = [check_partition(one) for one in given]
        told = [_told(one) for one in checked]
        times, nth = Counter(told), Counter[str]()
        found = {}
        for text, one in zip(told, checked, strict=True):
            nth[text] += 1
            found[f"{text} {nth[text]}" if times[text] > 1 else text] = one
    else:
        raise ConfigError(f"partitions={brief(given)} is no list of partitions. Pass [etude.partitions.Stripes()].")
    if not found:
        raise ConfigError("partitions= has none, so there is nothing to compare. Pass [etude.partitions.Stripes()].")
    if taken := {NONE, SUBSETS} & found.keys():
        raise ConfigError(f"{taken.pop()!r} is what is compared with. Give that partition another name.")
    return found


def _told(partition: Partition) -> str:
    """Return what a partition is called: its class, and what of it is not as usual."""
    if not dataclasses.is_dataclass(partition):
        return type(partition).__name__
    own = [
        f"{field.name}={called(getattr(partition, field.name))}"
        for field in dataclasses.fields(partition)
        if getattr(partition, field.name) != field.default
    ]
    return type(partition).__name__ + (f"({', '.join(own)})" if own else "")


def _by_name(asked: Mapping[str, Partition | None]) -> Callable[..., Asked]:
    """Return the partition function of the study."""
    arms = {name: Asked(one, judged=True) for name, one in asked.items()}

    def arm(partition: str) -> Asked:
        return arms[partition]

    return arm


def _question(
    of: Definition, params: Mapping[str, Any], asked: Mapping[str, Partition | None], seeds: Sequence[int]
) -> Question:
    """Return the question that the call puts: all arms of one seed, and then of the next."""
    wanted = tuple(Wanted({**params, ARM: name}, seed) for seed in seeds for name in asked)
    counts = {name: identity(one) for name, one in asked.items() if one is not None}
    return Question(
        plan=FitPlan(wanted),
        metrics=of.metrics,
        trials=len(wanted),
        parts={
            "params": json.dumps(params, sort_keys=True, default=repr),
            "metric": repr(of.metrics),
            "seeds": ", ".join(map(str, seeds)),
            "partitions": ", ".join(asked),
            **{f"partition {name}": one.text for name, one in counts.items() if one.text},
        },
        meta={"verb": "compare", "params": dict(params), "seeds": list(seeds), "partitions": list(asked)},
        functions={
            **{f"partition {name}": asked[name] for name, one in counts.items() if not one.text},
            **{f"{part} of {name}": one for name, each in counts.items() for part, one in each.own.items()},
        },
    )


def _arm(name: str, runs: Sequence[TrialResult]) -> Arm:
    values = tuple(run.value if run.value is not None else math.nan for run in runs)
    classes = [run.metrics.get("by_class", {}) for run in runs]
    known = all("test_accuracy" in one for one in classes)
    imbalance = [run.metrics.get("class_imbalance", math.nan) for run in runs]
    return Arm(
        name,
        values,
        accuracy=tuple(one["test_accuracy"] for one in classes) if known else (),
        worst=tuple(one["worst_class_accuracy"] for one in classes) if known else (),
        imbalance=max(imbalance) if not any(map(math.isnan, imbalance)) else math.nan,
        repartitions=fmean(run.metrics.get("repartitions", 0) for run in runs),
        moved_b=fmean(run.metrics.get("bytes_moved", math.nan if "repartitions" in run.metrics else 0) for run in runs),
    )


def _notes(arms: Sequence[Arm], trials: Sequence[TrialResult]) -> list[str]:
    notes = []
    for arm in arms:
        if lost := sum(not math.isfinite(value) for value in arm.values):
            notes.append(f"{lost} of {count(len(arm.values), 'run')} with {arm.name} came to no number.")
    classes = [trial.metrics.get("by_class", {}) for trial in trials]
    if why := next((one["not_judged"] for one in classes if "not_judged" in one), ""):
        notes.append(f"Accuracy by class is not known: {why}.")
    elif any(one.get("judged_on") != "test" for one in classes):
        notes.append(
            "Classes were judged on the last loader that does not train. If the training function chooses by it, it is "
            "not untouched: return etude.Data(train, valid, test)."
        )
    if all(math.isnan(arm.imbalance) for arm in arms):
        notes.append(
            "Which classes each rank had is not known: the data set says of no example which class it has. Give it "
            "an attribute targets."
        )
    return notes
