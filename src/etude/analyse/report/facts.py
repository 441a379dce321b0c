"""What a report knows of a study: plain data, and exactly what ``report.json`` holds.

Whoever writes a report of something else than a study of ours fills these in, and has the same figures.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from etude.analyse.report.used import Machines

FINISHED = "finished"


class Threat(msgspec.Struct, frozen=True):
    """Something that speaks against the conclusions of a study.

    Attributes:
        name: What it is called.
        finding: What was found here, in a sentence or two.
        seriousness: ``"serious"`` if a conclusion may be wrong for it, ``"caution"`` if it may be weaker than it looks,
            ``"note"`` if readers should know of it.
    """

    name: str
    finding: str
    seriousness: Literal["serious", "caution", "note"] = "caution"


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """A trial.

    Attributes:
        trial: Its number.
        state: Where it stands.
        values: Each of the study's metrics, of one that finished; NaN and infinity as they came.
        params: Its configuration.
        seed: Its training seed.
        group: The arm or the start that it is of; empty in a search.
        curve: The watched metric at steps 1, 2, ..., or some of them (``steps``).
        steps: The steps that ``curve`` has, where it has not all.
        wall_s: Seconds that its last attempt took.
        cpu_s: CPU seconds of the same.
        memory_mb: Peak memory of the same.
        ended_s: When it ended, in seconds since the study began.
        attempts: How many it had.
        reason: Why it stands where it stands.
        counts: Whether its value is its own, and comparable: no copy of another's, and no smaller budget's.
    """

    trial: int
    state: str
    values: dict[str, float] = {}
    params: dict[str, Any] = {}
    seed: int = 0
    group: str = ""
    curve: list[float] = []
    steps: list[int] = []
    wall_s: float | None = None
    cpu_s: float | None = None
    memory_mb: float | None = None
    ended_s: float | None = None
    attempts: int = 0
    reason: str = ""
    counts: bool = True


class Span(msgspec.Struct, frozen=True):
    """A time that a worker was at an attempt, in seconds since the study began; ``how`` says how it ended."""

    worker: str
    trial: int
    attempt: int
    start_s: float
    end_s: float
    how: str


class Presence(msgspec.Struct, frozen=True):
    """A time that a worker was there, in seconds since the study began."""

    worker: str
    start_s: float
    end_s: float
    left: str = ""


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict on a component; see ``etude.Verdict``. Infinite ends of an interval say that there is none."""

    component: str
    effect: float
    low: float
    high: float
    p: float
    p_corrected: float
    better: float
    test: str
    verdict: str
    seeds_needed: int | None
    n: int
    says: list[str] = []


class Verdicts(msgspec.Struct, frozen=True, kw_only=True):
    """Verdicts on all components, beside a base.

    Attributes:
        base: What the others are compared with.
        level: How often one claim or more may be wrong.
        margin: How small a difference does not matter.
        says: What is to be said of all of them.
        found: The verdicts.
        why_not: Why there are none, if there are none.
    """

    base: str
    level: float = 0.05
    margin: float | None = None
    says: list[str] = []
    found: list[Judged] = []
    why_not: str = ""


class Arm(msgspec.Struct, frozen=True, kw_only=True):
    """An arm of an ablation, as it was planned and as it began.

    Attributes:
        name: What it is called.
        taken: What is taken away, and what is done to the model for that.
        rung: How deep the repair cuts, by name; empty if there is none.
        parameters: How many the model has; None if nobody knows.
        anew: What has new weights, and whether trained ones are lost with that; empty if nothing has.
        pairs: How many of its runs began as the base's with the same seed did; None if that is not known.
        runs: How many runs with a run of the base beside them there are.
        says: What the plan had to say of it.
    """

    name: str
    taken: list[str] = []
    rung: str = ""
    parameters: int | None = None
    anew: str = ""
    pairs: int | None = None
    runs: int = 0
    says: list[str] = []


class Parameter(msgspec.Struct, frozen=True):
    """What is known of a parameter's domain: whether its scale is logarithmic, and its values if they are listed."""

    name: str
    log: bool = False
    values: list[Any] | None = None


class Changed(msgspec.Struct, frozen=True):
    """A piece of code beside what is recorded of it: ``same``, ``changed`` (with the difference), or ``not found``."""

    name: str
    standing: Literal["same", "changed", "not found"]
    diff: str = ""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """All that a report knows of a study.

    Attributes:
        name: The study's name.
        verb: What made it: ``"tune"``, ``"ablate"`` or ``"fit"``.
        standing: ``"complete"``, ``"not complete"`` or ``"at work"``.
        asked: What was asked, as label and text.
        first: What has to be read before the result.
        result: What came of it, in a sentence.
        says: What else is to be said of it.
        modes: Metric -> ``"max"`` or ``"min"``, the main one first; None where no direction is known.
        watched: The metric that the curves are of.
        trials: All trials.
        parameters: What is known of their domains.
        best: Numbers of the best trials, best first; with several metrics those of the Pareto front.
        groups: Arms or starts, the base first; none in a search.
        arms: Of an ablation, what each of them does without.
        verdicts: What can be said of the components; None where nothing was compared.
        controls: What can be said of them beside wholes of their size; None where there are no such arms.
        machines: What trials took of their machines; None where none was tuned.
        spans: Who was at what when.
        presences: Who was there when.
        threats: What speaks against the conclusions.
        clear: What was looked for, and nothing of it found.
        costs: What it cost, as label and text.
        record: How to run it again, as label and text.
        code: What was recorded of the code, beside what is there now.
        diff: The difference to the commit, as it was recorded.
        packages: Name -> version.
        began_at: When it began, in seconds since 1970; None if nobody has, or if it is simulated.
        simulated: Whether nothing was trained.
        version: Of Étude, that wrote this.
    """

    name: str
    verb: str = "tune"
    standing: str = "complete"
    asked: list[tuple[str, str]] = []
    first: list[str] = []
    result: str = ""
    says: list[str] = []
    modes: dict[str, str | None] = {}
    watched: str = ""
    trials: list[Ran] = []
    parameters: list[Parameter] = []
    best: list[int] = []
    groups: list[str] = []
    arms: list[Arm] = []
    verdicts: Verdicts | None = None
    controls: Verdicts | None = None
    machines: Machines | None = None
    spans: list[Span] = []
    presences: list[Presence] = []
    threats: list[Threat] = []
    clear: list[str] = []
    costs: list[tuple[str, str]] = []
    record: list[tuple[str, str]] = []
    code: list[Changed] = []
    diff: str = ""
    packages: dict[str, str] = {}
    began_at: float | None = None
    simulated: bool = False
    version: str = ""

    @property
    def metric(self) -> str:
        """The main metric."""
        return next(iter(self.modes), "metric")

    @property
    def mode(self) -> str | None:
        """Its direction."""
        return self.modes.get(self.metric)

    @property
    def finished(self) -> list[Ran]:
        """Trials that finished with values of their own."""
        return [one for one in self.trials if one.state == FINISHED and one.counts]

    def numbers(self, metric: str | None = None) -> list[tuple[Ran, float]]:
        """Return the finished trials whose value is a finite number, with that."""
        name = metric or self.metric
        found = ((one, one.values.get(name, math.nan)) for one in self.finished)
        return [(one, value) for one, value in found if math.isfinite(value)]


def better_of(mode: str | None, values: Sequence[float]) -> float:
    """Return the best of some values, the largest where no direction is known."""
    return min(values) if mode == "min" else max(values)


def as_json(facts: Facts) -> bytes:
    """Return facts as JSON. NaN has no place in it and becomes null, infinity a text."""
    return msgspec.json.encode(_strict(msgspec.to_builtins(facts)))


def _strict(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if isinstance(value, dict):
        return {str(name): _strict(inner) for name, inner in value.items()}
    return [_strict(inner) for inner in value] if isinstance(value, list | tuple) else value
