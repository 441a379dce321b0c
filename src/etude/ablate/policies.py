"""Policies: which combinations of components an ablation takes away.

A policy gets one arm for each component and returns the arms of the study, the base first. One whose next arms depend
on what came of the first has ``more`` beside that, and is asked until it has none. Policies know nothing of models:
arms are sets to them, and ``together`` joins them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from etude.ablate.arms import BASE, Results, together
from etude.ablate.components import Component, read_component
from etude.ablate.path import Step, more_of_path, steps_of_path
from etude.ablate.shapley import Worth, orders, shapley_values
from etude.core.errors import ConfigError
from etude.core.near import did_you_mean
from etude.core.removal import Arm
from etude.core.text import count

STRIPPED: Final = "stripped"
"""The name of the arm from which everything is taken away, in policies that begin there."""


@runtime_checkable
class Policy(Protocol):
    """Decides which combinations of components are taken away. Equal components give equal arms."""

    def count(self, n: int) -> int:
        """Return how many arms there will be at most, with the base.

        Args:
            n: How many components there are.
        """
        ...

    def arms(self, components: Sequence[Arm]) -> list[Arm]:
        """Return the arms, the base first.

        Args:
            components: An arm for each component, which takes that away and nothing else.
        """
        ...


@runtime_checkable
class Adaptive(Policy, Protocol):
    """A policy that asks for further arms after results."""

    def more(self, components: Sequence[Arm], results: Results) -> list[Arm]:
        """Return the arms to go on with; none when it is at its end.

        It is asked when all arms so far have ended. It keeps nothing in mind: ``results`` has everything.

        Args:
            components: As for ``arms``.
            results: What came of the arms so far.
        """
        ...


@dataclass(frozen=True)
class LeaveOneOut:
    """The base, and one arm without each component."""

    def count(self, n: int) -> int:
        """Return 1 + n."""
        return 1 + n

    def arms(self, components: Sequence[Arm]) -> list[Arm]:
        """Return the base and each component by itself."""
        return [BASE, *components]


@dataclass(frozen=True, init=False)
class LeaveGroupOut:
    """The base, and one arm without each group of components.

    Args:
        groups: Name -> components; or several of components, which are then called by these.

    Raises:
        ConfigError: There are no groups, or one is empty.
    """

    groups: tuple[tuple[str, tuple[str, ...]], ...]

    def __init__(self, groups: Mapping[str, Iterable[str | Component]] | Iterable[Iterable[str | Component]]) -> None:
        named = list(groups.items()) if isinstance(groups, Mapping) else [("", group) for group in groups]
        read = tuple((name, tuple(str(read_component(one)) for one in _several(group))) for name, group in named)
        if not read or not all(members for _, members in read):
            raise ConfigError(f"groups={groups!r} has no group, or an empty one. Pass components for each.")
        object.__setattr__(self, "groups", read)

    def count(self, n: int) -> int:
        """Return 1 + the number of groups, whatever the number of components."""
        return 1 + len(self.groups)

    def arms(self, components: Sequence[Arm]) -> list[Arm]:
        """Return the base and each group.

        Raises:
            ConfigError: A group names what is no component of this study, or a component is in no group.
        """
        by_name = {arm.name: arm for arm in components}
        members = {member for _, group in self.groups for member in group}
        for member in sorted(members - by_name.keys()):
            raise ConfigError(
                f"{member!r} stands in a group and is no component of this study. "
                + did_you_mean(member, by_name)
                + f"These are: {', '.join(by_name)}."
            )
        if alone := [name for name in by_name if name not in members]:
            raise ConfigError(
                f"{', '.join(map(repr, alone))} would never be taken away, being in no group. "
                "Give it a group of its own, or leave it out of the components."
            )
        return [BASE, *(together([by_name[member] for member in group], name) for name, group in self.groups)]


@dataclass(frozen=True)
class Pairs:
    """The base, one arm without each component, and one without each two: do two do the same, or need each other?"""

    def count(self, n: int) -> int:
        """Return 1 + n + n (n - 1) / 2."""
        return 1 + n + n * (n - 1) // 2

    def arms(self, components: Sequence[Arm]) -> list[Arm]:
        """Return the base, the components, and all pairs of them."""
        return [BASE, *components, *(together(pair) for pair in itertools.combinations(components, 2))]


@dataclass(frozen=True)
class AddOneIn:
    """The base, the model stripped of all components, and the stripped one with each component by itself."""

    def count(self, n: int) -> int:
        """Return 2 + n."""
        return 2 + n

    def arms(self, components: Sequence[Arm]) -> list[Arm]:
        """Return the base, the stripped arm, and one arm for each component that is put back in."""
        ways = [
            together([one for one in components if one is not kept], f"{STRIPPED}, with {kept.name}")
            for kept in components
        ]
        return [BASE, together(components, STRIPPED), *ways]


@dataclass(frozen=True)
class FullFactorial:
    """Every combination of components.

    Args:
        limit: Refuse to begin with more arms than that.
    """

    limit: int = 256

    def count(self, n: int) -> int:
        """Return 2 to the power of n."""
        return 1 << n

    def arms(self, components: Sequence[Arm]) -> list[Arm]:
        """Return the base and all combinations, the small ones first.

        Raises:
            ConfigError: They are more than the limit.
        """
        n = len(components)
        if self.count(n) > self.limit:
            raise ConfigError(
                f"A full factorial of {count(n, 'component')} has {count(self.count(n), 'arm')}, each of which is "
                f"trained with every seed, and the limit is {self.limit:,}. Pass "
                f"policy=etude.policies.FullFactorial(limit={self.count(n)}) if that is meant, or 'pairs' or 'shapley'."
            )
        sizes = range(1, n + 1)
        return [BASE, *(together(few) for size in sizes for few in itertools.combinations(components, size))]


@dataclass(frozen=True)
class Path:
    """Takes away one component after the other, always the one that is missed least, until all are gone.

    With ``etude.components.differences(start, end)`` as components, and ``at=start``, that is the way from one
    configuration to another on which each step gains most.

    Source: Fawcett and Hoos 2016, "Analysing differences between algorithm configurations through ablation", Journal of
    Heuristics 22, doi:10.1007/s10732-014-9275-9, without racing. Ties go to the component that was named first.
    """

    def count(self, n: int) -> int:
        """Return 1 + n (n + 1) / 2."""
        return 1 + n * (n + 1) // 2

    def arms(self, components: Sequence[Arm]) -> list[Arm]:
        """Return the base, and the first steps that there are."""
        return [BASE, *components]

    def more(self, components: Sequence[Arm], results: Results) -> list[Arm]:
        """Return the next steps that there are, from where the best ones led."""
        return more_of_path(components, results)

    def steps(self, components: Sequence[Arm], results: Results) -> list[Step]:
        """Return the steps that the results settle, in order.

        Args:
            components: As for ``arms``.
            results: What came of the arms so far.
        """
        return steps_of_path(components, results)


@dataclass(frozen=True)
class Shapley:
    """Combinations that tell how much of the whole effect is due to each component, by sampling.

    Components are taken away one after the other in random orders, and each counts by what it changes, on average over
    orders. Every second order is the one before it, backwards. If there are no more orders than ``samples``, all of
    them are taken, and nothing is left to chance.

    Args:
        samples: How many orders.
        seed: What orders are drawn with.

    Raises:
        ConfigError: There is no sample.

    Source: Castro, Gómez and Tejada 2009, "Polynomial calculation of the Shapley value based on sampling", Computers &
    Operations Research 36; for orders and their reverse, Mitchell et al. 2022, "Sampling Permutations for Shapley Value
    Estimation", JMLR 23.
    """

    samples: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        for name, value, least in (("samples", self.samples, 1), ("seed", self.seed, None)):
            if isinstance(value, bool) or not isinstance(value, int) or (least is not None and value < least):
                raise ConfigError(f"Shapley({name}={value!r}) cannot be. Pass a whole number, for samples 1 or more.")

    def count(self, n: int) -> int:
        """Return how many combinations the orders lead through."""
        return len(self._combinations(n))

    def arms(self, components: Sequence[Arm]) -> list[Arm]:
        """Return the base, and every combination that the orders lead through, the small ones first."""
        return [together([components[i] for i in sorted(few)]) for few in self._combinations(len(components))]

    def values(self, components: Sequence[Arm], results: Results) -> dict[str, Worth]:
        """Return what each component is worth: by how much the loss is higher without it.

        Args:
            components: As for ``arms``.
            results: What came of all the arms.

        Returns:
            Name of the component -> its worth. They sum to the loss of the arm without all, minus that of the base.
        """
        n = len(components)
        losses = {few: results.loss(together([components[i] for i in sorted(few)])) for few in self._combinations(n)}
        found = shapley_values(orders(n, self.samples, self.seed), losses)
        return {arm.name: found[i] for i, arm in enumerate(components)}

    def _combinations(self, n: int) -> list[frozenset[int]]:
        ways = orders(n, self.samples, self.seed)
        found = {frozenset(order[:k]) for order in ways for k in range(n + 1)}
        return sorted(found, key=lambda few: (len(few), sorted(few)))


_BY_NAME: Final[Mapping[str, type]] = {
    "leave_one_out": LeaveOneOut,
    "leave_group_out": LeaveGroupOut,
    "pairs": Pairs,
    "add_one_in": AddOneIn,
    "full_factorial": FullFactorial,
    "path": Path,
    "shapley": Shapley,
}


def policy_of(policy: str | Policy) -> Policy:
    """Return the policy that goes by a name, with its defaults; a policy as it is.

    Raises:
        ConfigError: It is none.
    """
    if isinstance(policy, str):
        if policy not in _BY_NAME:
            meant = did_you_mean(policy, _BY_NAME)
            raise ConfigError(f"policy={policy!r} is not known. {meant}There are: {', '.join(map(repr, _BY_NAME))}.")
        if policy == "leave_group_out":
            raise ConfigError(
                "policy='leave_group_out' needs to know the groups. "
                "Pass policy=etude.policies.LeaveGroupOut({'name': ['layer:a', 'layer:b'], ...})."
            )
        made: Policy = _BY_NAME[policy]()
        return made
    if isinstance(policy, type):
        raise ConfigError(f"policy={policy.__name__} is a class, and no policy yet. Call it: {policy.__name__}().")
    if not isinstance(policy, Policy):
        raise ConfigError(
            f"policy={policy!r} is no policy. Pass a name, a value of etude.policies, or an object with "
            "arms(components) and count(n)."
        )
    return policy


def name_of(policy: Policy) -> str:
    """Return the name that a policy goes by: one of ours, or that of its class."""
    return next((name for name, cls in _BY_NAME.items() if type(policy) is cls), type(policy).__name__)


def _several(group: str | Component | Iterable[str | Component]) -> Iterable[str | Component]:
    return [group] if isinstance(group, str | Component) else group
