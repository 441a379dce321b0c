"""What is asked of a policy: how much it needs, with which arms it begins, and how it goes on."""

from __future__ import annotations

from collections.abc import Sequence

from etude.ablate.arms import BASE, Results, distinct
from etude.ablate.policies import Adaptive, Policy, name_of, policy_of
from etude.core.errors import ConfigError
from etude.core.removal import Arm
from etude.core.text import brief, count


def needs(policy: str | Policy, n: int, *, seeds: int) -> str:
    """Return what a policy needs, for people.

    Args:
        policy: The policy, or its name.
        n: How many components there are.
        seeds: With how many seeds each arm is run.

    Example:
        >>> needs("leave_one_out", 6, seeds=10)
        'leave_one_out of 6 components: 7 arms x 10 seeds = 70 trials'
    """
    policy = policy_of(policy)
    arms = policy.count(n)
    most = "at most " if isinstance(policy, Adaptive) else ""
    return (
        f"{name_of(policy)} of {count(n, 'component')}: {most}{count(arms, 'arm')} x {count(seeds, 'seed')} = "
        f"{count(arms * seeds, 'trial')}"
    )


def arms_of(policy: Policy, components: Sequence[Arm]) -> tuple[list[Arm], dict[str, str]]:
    """Return the arms that a policy begins with; those that take away the same are one.

    Returns:
        The arms, the base first, and for the name of each that was left out, that of the arm that stands for it.

    Raises:
        ConfigError: The policy cannot be carried out, does not begin with the base, or gives two removals one name.
    """
    arms = _listed(policy, policy.arms(components), "arms")
    if not arms or arms[0] != BASE:
        first = repr(arms[0].name) if arms else "nothing"
        raise ConfigError(
            f"The policy {name_of(policy)} begins with {first}, and what the others are compared with comes first. "
            "Return [etude.policies.BASE, ...]."
        )
    return distinct(arms)


def more_of(policy: Policy, components: Sequence[Arm], results: Results) -> list[Arm]:
    """Return the arms that a policy goes on with, without those that have results; none if it is at its end."""
    if not isinstance(policy, Adaptive):
        return []
    more = _listed(policy, policy.more(components, results), "more")
    return [arm for arm in distinct(more)[0] if arm not in results]


def _listed(policy: Policy, given: object, method: str) -> list[Arm]:
    """Return the arms that a policy gave.

    Raises:
        ConfigError: It gave something else.
    """
    if not isinstance(given, list | tuple) or not all(isinstance(one, Arm) for one in given):
        other = given if not isinstance(given, list | tuple) else next(one for one in given if not isinstance(one, Arm))
        raise ConfigError(
            f"The policy {name_of(policy)} gives {brief(other)} where {method}() is to give a list of arms. "
            "Return [etude.policies.BASE, ...], and make joined ones with etude.policies.together."
        )
    return list(given)
