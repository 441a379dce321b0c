"""Who decides on settings in a study: for each kind of machine a tuner, and what is remembered of such machines.

It is told what epochs took, and answers with the setting of the next one. Nothing here reads a clock; the history is
handed in. It is a function of what it is told, in that order, so a study that goes on tells it again what its journal
has, and it is as it was.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from etude.core.errors import ConfigError
from etude.core.system import Choices, Order, Phase, Setting, SettingValue, Taken
from etude.core.text import count
from etude.system.alike import same_work
from etude.system.asked import System
from etude.system.axes import Values, axes_of, worth_trying
from etude.system.energy import Label, as_energy
from etude.system.entries import Entry, Hardware, Probed
from etude.system.knobs import setting_of
from etude.system.objective import OBJECTIVES, Cost
from etude.system.probing import Grid, Prober
from etude.system.recall import Learned, reuse_or_probe
from etude.system.tuner import Decision, Tuner
from etude.system.works import Known

SHARE: Final = 0.05
"""Of all epochs of a study, those that may try something."""
LEAST: Final = 6
"""So many may, however short the study is; but not more than a third of a training's epochs."""
MOST_ENTRIES: Final = 10
"""Of one kind of work so many runs are remembered of a study: more say nothing new."""
FEWEST: Final = 3
"""Epochs below which nothing can be tried: the first two show what the default costs."""
FIRST: Final = Order({}, Phase.PROFILE, "the first epoch shows what kind of work it is")


class Past(Protocol):
    """What is remembered of earlier studies (``system.history``)."""

    def entries(self, *, machine: str, objective: str) -> Sequence[Entry]:
        """Return what is remembered of a machine for an objective, the oldest first."""
        ...


class NoPast:
    """Nothing is remembered."""

    def entries(self, *, machine: str, objective: str) -> Sequence[Entry]:
        """Return nothing."""
        return ()


@dataclass(eq=False)
class _Kind:
    """A kind of machine with the same knobs that are worth trying, its tuner, and the profiles of trials there.

    Attributes:
        hardware: What it is.
        choices: What can be set there.
        tried: What of it is worth trying for work of this kind.
        past: What is remembered of it.
        tuner: Decides on settings there.
        profiles: Trial -> what its first epoch took.
        groups: The profile by which each kind of work was first seen.
        known: What was learned of the past.
    """

    hardware: Hardware
    choices: Choices
    tried: Values
    past: Sequence[Entry]
    tuner: Tuner[Taken]
    profiles: dict[int, Taken] = field(default_factory=dict)
    groups: dict[str, Taken] = field(default_factory=dict)
    known: Learned | None = None


class SystemConductor:
    """Decides on the settings of all trials of a study.

    Args:
        system: What the call says.
        past: What is remembered of earlier studies.
        trials: How many the study has, at most.
        varied: Whether some of its trials are longer than others, so that the first one says nothing of them.

    Attributes:
        notes: What users should be told, once each.
    """

    def __init__(self, system: System, past: Past | None = None, *, trials: int = 1, varied: bool = False) -> None:
        self._system = system
        self._past = past or NoPast()
        self._similarity = system.compares
        self._trials, self._varied = trials, varied
        self._kinds: dict[tuple[str, str], list[_Kind]] = {}  # of machines that are equal
        self._on: dict[str, _Kind] = {}  # machine -> its kind
        self._of: dict[int, _Kind] = {}  # trial -> the kind of machine that it runs on
        self._orders: dict[int, Order] = {}
        self._given_up: Order | None = None
        self.notes: list[str] = []

    def begin(self, trial: int, machine: str, earlier: int | None = None) -> Order:
        """Return the setting of the first epoch of an attempt."""
        kind = self._on.get(machine)
        if kind is not None and self._of.get(trial) is not kind and self._given_up is None:
            self._of[trial] = kind
            self._orders[trial] = self._safely(lambda: self._order(trial, kind, kind.tuner.begin(trial, earlier)))
        return self._orders.get(trial, FIRST)

    def next(self, trial: int, machine: str, taken: Taken) -> Order:
        """Return the setting of the next epoch; the default, if we fail."""
        self._orders[trial] = self._safely(lambda: self._decided(trial, machine, taken))
        return self._orders[trial]

    def ended(self, trial: int) -> None:
        """Forget what a trial was about to try; others may."""
        if (kind := self._of.get(trial)) is not None:
            kind.tuner.ended(trial)

    def learned(self, digest: Callable[[str], str], *, at_s: float, apart_from: Container[int] = ()) -> list[Entry]:
        """Return what is worth remembering of this study.

        Args:
            digest: Returns the digest of a kind of work of this study.
            at_s: When it was learned, in seconds since 1970.
            apart_from: Trials of which it is remembered already.
        """
        found = []
        for kind in itertools.chain.from_iterable(self._kinds.values()):
            for work, learned in kind.tuner.learned().items():
                ratios = [(setting_of(setting), ratio) for setting, ratio in learned.tried.items()]
                costs = (Probed({}, learned.baseline), *(Probed(s, ratio * learned.baseline) for s, ratio in ratios))
                seen = [
                    t
                    for n, t in kind.profiles.items()
                    if n not in apart_from and t.rates and self._group(kind, t) == work
                ]
                found += [
                    Entry(
                        hardware=kind.hardware,
                        workload=digest(str(work)),
                        objective=str(self._system.objective),
                        rates=one.rates,
                        rung=one.rung,
                        seconds=one.seconds,
                        best=learned.best,
                        costs=costs,
                        at_s=at_s,
                    )
                    for one in seen[:MOST_ENTRIES]
                ]
        return found

    def _safely(self, decide: Callable[[], Order]) -> Order:
        try:
            return self._given_up or decide()
        except Exception as error:  # our own mistake: training goes on
            why = f"Machines are not tuned any more, since {type(error).__name__} was raised: {error}"
            self._note(why)
            self._given_up = Order({}, Phase.DEFAULT, why)
            return self._given_up

    def _decided(self, trial: int, machine: str, taken: Taken) -> Order:
        kind = self._kind_of(trial, machine, taken)
        if kind is None or not taken.whole or (cost := self._cost(taken)) is None:
            return self._orders.get(trial, FIRST)
        decision = kind.tuner.epoch(trial, Decision(taken.setting, taken.phase, ""), cost, taken)
        if not taken.setting:
            kind.profiles.setdefault(trial, taken)
        return self._order(trial, kind, decision)

    def _kind_of(self, trial: int, machine: str, taken: Taken) -> _Kind | None:
        """Return the kind of machine that a trial runs on; None if an attempt has not said it yet."""
        if taken.choices is not None:
            self._on[machine] = self._kind(taken, taken.choices, self._on.get(machine))
            self._say_how_energy_is_known(taken)
        kind = self._on.get(machine)
        if kind is not None and self._of.get(trial) is not kind:  # its first epoch there
            self._of[trial] = kind
            kind.tuner.begin(trial)
        return kind

    def _kind(self, taken: Taken, choices: Choices, before: _Kind | None) -> _Kind:
        """Return the kind that a machine is for a trial, by its first epoch there, and by what it was before."""
        hardware = Hardware(choices.cpu, choices.cores, choices.gpus)
        kinds = self._kinds.setdefault((hardware.digest, repr(sorted(choices.knobs.items()))), [])
        tried = self._worth_trying(taken, choices)
        if taken.setting:  # which says nothing of the default
            kind = before if before in kinds else next(iter(kinds), None)
        else:
            known = (one for one in kinds if same_work(one.groups, taken) is not None)
            kind = next(known, None) or next((one for one in kinds if one.tried == tried), None)
        if kind is None:
            kind = self._new_kind(hardware, choices, tried, taken.epochs)
            kinds.append(kind)
        kind.tuner.allow(self._most(taken.epochs))
        return kind

    def _worth_trying(self, taken: Taken, choices: Choices) -> Values:
        """Return what is worth trying after the first epoch of a trial; what was named is."""
        known = self._system.knobs is None and not taken.setting and taken.waited_s is not None
        return worth_trying(choices.knobs, (taken.waited_s or 0.0) / taken.seconds if known else None)

    def _new_kind(self, hardware: Hardware, choices: Choices, tried: Values, epochs: int) -> _Kind:
        past = self._past.entries(machine=hardware.digest, objective=str(self._system.objective))
        prober: Prober = Grid(tuple(_product(tried))) if self._system.probing == "grid" else axes_of(tried)
        tuner: Tuner[Taken] = Tuner(prober, most=self._most(epochs), look_up=lambda taken: self._look_up(kind, taken))
        kind = _Kind(hardware, choices, tried, past, tuner)
        self._say_what_is_lacking(choices, prober, epochs)
        return kind

    def _most(self, epochs: int) -> int:
        if self._system.probes is not None:
            return self._system.probes
        return max(math.ceil(SHARE * self._trials * epochs), min(LEAST, epochs // 3))

    def _say_what_is_lacking(self, choices: Choices, prober: Prober, epochs: int) -> None:
        for name, why in choices.lacks.items():
            if self._system.knobs is not None and name in self._system.knobs:
                self._note(f"{name} is not tuned: {why}")
        first = prober.propose({})
        if first is None:
            self._note("There is nothing to tune on this machine: no knob has another value that is worth trying.")
        elif not self._varied and (not self._most(epochs) or epochs < FEWEST):
            self._note(
                f"A training of {count(epochs, 'epoch')} is too short to try anything: the first one shows what kind "
                "of work it is, the second what it costs. What is known of similar work is used."
            )

    def _say_how_energy_is_known(self, taken: Taken) -> None:
        try:
            said = self._system.objective.check(Label(taken.joules.label), taken.joules.source)
        except ConfigError as error:  # training goes on all the same
            said = str(error)
        if said:
            self._note(said)

    def _cost(self, taken: Taken) -> float | None:
        """Return what a step cost by the objective, without what comes only once; None where that is not known."""
        seconds, steps = taken.cut or (taken.seconds, taken.steps)
        seconds -= min(taken.begun_s, seconds / 2)
        return self._system.objective.of(Cost(seconds, steps, as_energy(taken.joules)))  # type: ignore[no-any-return]

    def _look_up(self, kind: _Kind, taken: Taken) -> Known:
        group = self._group(kind, taken)
        if not taken.rates or not kind.past:
            return Known(group)
        try:
            recall = reuse_or_probe(kind.past, taken.rates, self._similarity, learned=kind.known)
        except Exception as error:  # of a similarity of the user's, or of scikit-learn
            self._note(f"Earlier studies are left aside, since {type(error).__name__} was raised: {error}")
            return Known(group)
        kind.known = recall.learned
        score = recall.match.score
        evidence = {"distance": score} if math.isfinite(score) else {}
        can_be = recall.setting is not None and _is_among(recall.setting, kind.choices.knobs)
        return Known(group, recall.setting if can_be else None, recall.why, evidence)

    def _group(self, kind: _Kind, taken: Taken) -> str:
        """Return the kind of work that a trial does: one that this study has seen already, or a new one."""
        if (known := same_work(kind.groups, taken)) is not None:
            return known
        beside = next(kinds for kinds in self._kinds.values() if kind in kinds)
        name = f"work {sum(len(one.groups) for one in beside) + 1}"
        kind.groups[name] = taken
        return name

    def _order(self, trial: int, kind: _Kind, decision: Decision) -> Order:
        work = kind.tuner.work_of(trial)
        learned = kind.tuner.learned().get(work)
        may_cut = decision.phase in (Phase.PROBE, Phase.REUSE) and self._system.objective == OBJECTIVES["time"]
        return Order(
            setting=dict(decision.setting),
            phase=decision.phase,
            why=decision.why,
            evidence=dict(decision.evidence),
            cut_above_s=kind.tuner.cut_above(trial) if may_cut else None,
            meanwhile=dict(kind.tuner.meanwhile(trial)) if may_cut else {},
            work=str(work) if work is not None else "",
            best=dict(learned.best) if learned is not None else {},
        )

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def _is_among(setting: Mapping[str, SettingValue], knobs: Values) -> bool:
    """Say whether each value of a setting is one that can be tried: what others wrote down may be anything."""
    return all(
        any(value == known and type(value) is type(known) for known in knobs.get(name, ()))
        for name, value in setting.items()
    )


def _product(knobs: Values) -> list[Setting]:
    """Return every combination of values, without the default, each named only where it differs."""
    found: list[Setting] = [{}]
    for name, (_, *others) in knobs.items():
        found = [*found, *({**setting, name: value} for setting in found for value in others)]
    return found[1:]
