"""What is known of a study, as plain facts: all that threats are judged by."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from etude.analyse.columns import Column


@dataclass(frozen=True)
class Run:
    """One trial.

    Attributes:
        number: Its number.
        params: Its configuration.
        state: Where it stands: "finished", "stopped", "failed", ...
        value: The main metric; None unless it finished.
        seed: Its training seed.
        how: How its last attempt ended.
        out_of_memory: How many of its attempts ran out of memory.
        arm: Which arm of an ablation it is of; None if of none.
        drawn: Whether its configuration was drawn without regard to results.
        given: Whether the user gave the configuration.
        reports: How long its learning curve is.
        last: The newest value on its learning curve; None if it has none.
        machine: The machine that it ran on; empty if nobody knows.
        taken: Whether its outcome is another study's.
        data: The fingerprints of its data, by part: how many rows, their digest, and whether all were looked at.
    """

    number: int
    params: Mapping[str, Any] = field(default_factory=dict)
    state: str = "finished"
    value: float | None = None
    seed: int = 0
    how: str = ""
    out_of_memory: int = 0
    arm: str | None = None
    drawn: bool = True
    given: bool = False
    reports: int = 0
    last: float | None = None
    machine: str = ""
    taken: bool = False
    data: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    @property
    def known(self) -> bool:
        """Whether it came to a number."""
        return self.state == "finished" and self.value is not None and math.isfinite(self.value)


@dataclass(frozen=True)
class Session:
    """What was recorded one of the times that a study was taken up.

    Attributes:
        host: The name of the machine of the driver.
        hardware: Its processor and its GPUs, in words.
        python: The version.
        packages: Name -> version.
        commit: Of the project's repository; empty if there is none.
        changed: A digest of what differs from that commit; empty if nothing does.
        threads: How many each trial may use; None if that was not recorded.
    """

    host: str = ""
    hardware: str = ""
    python: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)
    commit: str = ""
    changed: str = ""
    threads: int | None = None


@dataclass(frozen=True)
class Chosen:
    """Who chose a configuration.

    Attributes:
        study: The name of the search.
        trial: The number of the trial.
        trials: How many trials it was chosen among.
        metric: By which metric.
        data: The fingerprints of the data that it was chosen on, by part; empty if they are not known.
    """

    study: str
    trial: int
    trials: int
    metric: str
    data: Mapping[str, Sequence[Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Evidence:
    """A study.

    Attributes:
        verb: What made it: "tune", "ablate", "fit", ...
        metric: The main metric.
        mode: In which direction it is better.
        runs: Its trials; those that share the outcome of an earlier one are left out.
        columns: What it searched, a row for each of the runs.
        sampler: Who proposed configurations; empty if nobody did.
        stopper: Who stopped trials early; empty if nobody did.
        base: The name of the arm from which nothing is taken away; empty if there is none.
        pairs: Arm -> whether its runs begin as the base's do; None if nobody knows.
        sessions: What was recorded each time it was taken up.
        unseen: What of its code could not be looked into.
        chosen: Who chose the configuration; None if nobody is known to have.
        retuned: How many trials each arm of an ablation was tuned with; None if none was.
        on: What part of the data the final training used; empty if it is none.
        reference: The value that it is to reproduce; None if none was given.
        over: Whether it has come to its end.
    """

    verb: str = "tune"
    metric: str = "value"
    mode: Literal["max", "min"] = "max"
    runs: tuple[Run, ...] = ()
    columns: tuple[Column, ...] = ()
    sampler: str = ""
    stopper: str = ""
    base: str = ""
    pairs: Mapping[str, bool | None] = field(default_factory=dict)
    sessions: tuple[Session, ...] = ()
    unseen: tuple[str, ...] = ()
    chosen: Chosen | None = None
    retuned: int | None = None
    on: str = ""
    reference: float | None = None
    over: bool = True

    @property
    def sign(self) -> float:
        """What turns a value so that more is better."""
        return 1.0 if self.mode == "max" else -1.0

    def of(self, arm: str) -> list[Run]:
        """Return the runs of an arm that came to a number."""
        return [run for run in self.runs if run.arm == arm and run.known]
