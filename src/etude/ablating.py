"""An ablation as its call says it: components are matched, arms made, and each is tried before anything runs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from etude.ablate.arms import removal
from etude.ablate.asking import arms_of, needs
from etude.ablate.components import Component, CustomComponent
from etude.ablate.matching import Matched, check_arm, match_all
from etude.ablate.plan import STREAM, AblationPlan
from etude.ablate.policies import Policy, name_of, policy_of
from etude.core.errors import ConfigError, RemovalRefused
from etude.core.metrics import Metrics
from etude.core.numbers import seed_of, seeds_listed, whole
from etude.core.removal import Arm
from etude.core.signature import Definition, Signature, variant_of
from etude.core.streams import stream_seed
from etude.core.text import brief, count
from etude.listed import Looked, look_at
from etude.tune.question import Question

REFUSED: Final = ("raise", "skip")
"""What may become of arms whose repair is refused."""


@dataclass(frozen=True)
class PlannedArm:
    """An arm, as it was planned.

    Attributes:
        arm: What is taken away, with how the rest still runs.
        changes: What is done to the model, in words; empty if nothing is.
        rung: How deep the repair cuts, by name; empty if there is none.
        parameters: How many the model has then; None if nobody knows.
        says: What should be said of it.
        refused: Why it cannot be; empty if it can.
    """

    arm: Arm
    changes: tuple[str, ...] = ()
    rung: str = ""
    parameters: int | None = None
    says: tuple[str, ...] = ()
    refused: str = ""

    def __str__(self) -> str:
        settings = [f"{name}={value!r}" for name, value in self.arm.settings.items()]
        told = [*self.changes, *settings, *self.says] or ["its own functions" if self.arm.variant else "nothing"]
        size = f" [{count(self.parameters, 'parameter')}, {self.rung}]" if self.rung and self.parameters else ""
        return f"{self.arm.name}: {self.refused or '; '.join(told)}{size}"


@dataclass(frozen=True)
class AblationDraft:
    """What an ablation would do: print it.

    Attributes:
        arms: The arms that would be trained, the base first.
        refused: Those that cannot be.
        seeds: The training seeds.
        params: The configuration of the base.
        needs: How many trials that is, in words.
    """

    arms: tuple[PlannedArm, ...]
    refused: tuple[PlannedArm, ...]
    seeds: tuple[int, ...]
    params: Mapping[str, Any]
    needs: str

    @property
    def trials(self) -> int:
        """How many trials there are to begin with."""
        return len(self.arms) * len(self.seeds)

    def __str__(self) -> str:
        refused = ["refused:", *(f"  {one}" for one in self.refused)] if self.refused else []
        return "\n".join([self.needs, *(f"  {one}" for one in self.arms), *refused])


class Varied:
    """An experiment with its variants: their functions take the place of its own in some arms.

    Args:
        experiment: The experiment.
        variants: The variants.
    """

    def __init__(self, experiment: Definition, variants: Sequence[CustomComponent]) -> None:
        more = {variant_of(role, one.name): function for one in variants for role, function in one.functions.items()}
        self.functions: Mapping[str, Callable[..., Any]] = {**experiment.functions, **more}
        self.signature = Signature.read(self.functions) if more else experiment.signature
        self.metrics: Metrics = experiment.metrics


class Draft:
    """An ablation in the making: what was asked for, matched against what is there.

    Args:
        experiment: Whose functions are run.
        components: What is taken away.
        params: The configuration of the base.
        policy: Which combinations.
        seeds: The training seeds.

    Raises:
        ConfigError: A component cannot be taken away, or the policy cannot be carried out.
    """

    def __init__(
        self,
        experiment: Definition,
        components: str | Component | Iterable[str | Component],
        params: Mapping[str, Any],
        *,
        policy: str | Policy,
        seeds: tuple[int, ...],
    ) -> None:
        self.params = dict(params)
        self.seeds = seeds
        self.policy = policy_of(policy)
        self._looked: Looked = look_at(experiment, params, seed=seeds[0])
        self.matched: list[Matched] = match_all(components, self._looked.listing)
        self.components = tuple(one.arm for one in self.matched)
        custom = [one.component for one in self.matched if isinstance(one.component, CustomComponent)]
        self.experiment = Varied(experiment, custom)
        self._planner: Any = None
        self._repaired: dict[object, PlannedArm] = {}

    def arms(self) -> tuple[list[PlannedArm], list[PlannedArm]]:
        """Return the arms that can be trained, and those that cannot."""
        arms, same = arms_of(self.policy, self.components)
        planned = [self.planned(arm) for arm in arms]
        says = {one.arm.name: (*one.says, *one.warns) for one in self.matched}
        told = [
            dataclasses.replace(
                one,
                says=(
                    *says.get(one.arm.name, ()),
                    *(f"{twin} is the same" for twin, name in same.items() if name == one.arm.name),
                ),
            )
            for one in planned
        ]
        return [one for one in told if not one.refused], [one for one in told if one.refused]

    def planned(self, arm: Arm) -> PlannedArm:
        """Return an arm with how the rest still runs; what takes away the same is repaired once."""
        if arm.layers is None:
            return PlannedArm(arm)
        key = removal(Arm(arm.name, layers=arm.layers))
        if key not in self._repaired:
            self._repaired[key] = self._repair(arm)
        found = self._repaired[key]
        return dataclasses.replace(found, arm=msgspec.structs.replace(arm, repair=found.arm.repair))

    def finished(self, arm: Arm) -> Arm:
        """Return an arm that results decided on, with how the rest still runs.

        Raises:
            ConfigError: It cannot be.
        """
        found = self.planned(arm)
        if found.refused:
            raise ConfigError(f"{arm.name!r}, which the results so far lead to, cannot be. {found.refused}")
        return found.arm

    def _repair(self, arm: Arm) -> PlannedArm:
        from etude.frameworks.removal.check import check
        from etude.frameworks.removal.plan import Planner
        from etude.frameworks.removal.replay import as_plain

        try:
            check_arm(arm, self._looked.listing)
            if self._planner is None:
                self._planner = Planner(self._looked.model, self._looked.example)
            plan = self._planner.plan(arm.layers)
            check(self._looked.model, plan, self._looked.example, seed=self.seeds[0])
        except (RemovalRefused, ConfigError) as refused:
            return PlannedArm(arm, refused=str(refused))
        repaired = msgspec.structs.replace(arm, repair={"of": "torch", "plan": as_plain(plan)})
        return PlannedArm(repaired, plan.changes, f"rung {int(plan.rung)}, {plan.rung.name.lower()}", plan.after)

    def draft(self) -> AblationDraft:
        """Return what would be done."""
        arms, refused = self.arms()
        told = needs(self.policy, len(self.components), seeds=len(self.seeds))
        return AblationDraft(tuple(arms), tuple(refused), self.seeds, self.params, told)

    def question(self, drafted: AblationDraft) -> Question:
        """Return the question that the ablation puts."""
        arms = tuple(one.arm for one in drafted.arms)
        plan = AblationPlan(arms, self.seeds, dict(self.params), self.policy, self.components, finish=self.finished)
        told = [_as_plain(one) for one in drafted.arms]
        return Question(
            plan=plan,
            metrics=self.experiment.metrics,
            trials=plan.trials,
            parts={
                "params": json.dumps(self.params, sort_keys=True, default=repr),
                "metric": repr(self.experiment.metrics),
                "seeds": ", ".join(map(str, self.seeds)),
                "policy": repr(self.policy),
                "arms": json.dumps([msgspec.to_builtins(arm) for arm in arms], sort_keys=True, default=repr),
            },
            meta={
                "verb": "ablate",
                "params": dict(self.params),
                "seeds": list(self.seeds),
                "policy": name_of(self.policy),
                "arms": told,
                "trials": plan.trials,
            },
        )


def _as_plain(one: PlannedArm) -> dict[str, Any]:
    """Return what a study's journal tells of an arm."""
    features = list(one.arm.features.names) if one.arm.features is not None else []
    told = {"name": one.arm.name, "changes": list(one.changes), "rung": one.rung, "parameters": one.parameters}
    return {**told, "features": features}


def check_refused(drafted: AblationDraft, on_refusal: str) -> None:
    """Raise what was refused, all of it at once, unless it is to be skipped.

    Raises:
        ConfigError: Something was.
    """
    if on_refusal not in REFUSED:
        raise ConfigError(f"on_refusal={brief(on_refusal)} is not known. Pass one of {', '.join(map(repr, REFUSED))}.")
    if drafted.refused and on_refusal == "raise":
        several = "\n".join(f"  {one}" for one in drafted.refused)
        raise ConfigError(
            f"{count(len(drafted.refused), 'arm')} cannot be, so nothing was started:\n{several}\n"
            "Leave these components out, take what is named instead, or pass on_refusal='skip' for the others alone."
        )


def read_seeds(seeds: int | Sequence[int], seed: int, *, chose: int | None) -> tuple[int, ...]:
    """Return the training seeds of an ablation: so many of a stream that no search draws from, or those listed.

    Args:
        seeds: How many, or which.
        seed: Of the ablation.
        chose: The training seed of the trial whose configuration it has; None if there is none.

    Raises:
        ConfigError: They are none, or one of them chose the configuration.
    """
    if not isinstance(seeds, list | tuple | range):
        n = whole("seeds", seeds, 1, "nothing would be run")
        return tuple(stream_seed(seed_of(seed), STREAM, nth, bits=31) for nth in range(n))
    found = seeds_listed(seeds)
    if chose in found:
        raise ConfigError(
            f"seeds={brief(seeds)} has {chose}, with which the configuration at= was chosen: partly for being lucky "
            "with it, so the base would look better than it is. Leave it out, or pass how many seeds there are to be."
        )
    return found
