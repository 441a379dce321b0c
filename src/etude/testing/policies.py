"""What every policy of an ablation promises, as one check that a third-party policy runs in its own tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from etude.ablate.arms import Results, distinct
from etude.ablate.asking import arms_of, more_of
from etude.ablate.policies import Adaptive, Policy
from etude.core.errors import ConfigError
from etude.core.removal import Arm

COMPONENTS: Final = tuple(Arm(name, settings={name: 0}) for name in ("a", "b", "c", "d"))
"""What a policy is asked about, if nothing else is given."""


def check_policy(make: Callable[[], Policy], components: Sequence[Arm] = COMPONENTS) -> list[str]:
    """Check what every policy promises.

    It begins with the base, gives arms each of which has a name of its own, says beforehand how many, and gives equal
    answers to equal questions. One that goes on by results is told of them, arm by arm worse and better, until it has
    none left; all its arms together are no more than it said.

    Args:
        make: Returns a new policy each time.
        components: The arms that take away one component each.

    Returns:
        The names of all arms, in order.

    Raises:
        AssertionError: A promise was broken; the message says which.

    Example:
        >>> from etude.policies import LeaveOneOut
        >>> check_policy(LeaveOneOut)
        ['base', 'a', 'b', 'c', 'd']
    """
    policy, again = make(), make()
    for method in ("arms", "count"):
        assert callable(getattr(policy, method, None)), f"a policy has a method {method}, and {policy!r} has none"
    given = tuple(components)
    try:
        arms, _ = arms_of(policy, given)
        assert distinct(again.arms(given))[0] == arms == distinct(policy.arms(given))[0], (
            "a policy gives equal arms for equal components"
        )
        limit = policy.count(len(given))
        whole = isinstance(limit, int) and not isinstance(limit, bool)
        assert whole, f"count(n) says how many arms there are, and this one says {limit!r}"
        if not isinstance(policy, Adaptive):
            assert len(policy.arms(given)) == limit, (
                f"count({len(given)}) says {limit} beforehand, and arms() gives {len(policy.arms(given))}"
            )
            return [arm.name for arm in arms]
        return [arm.name for arm in _gone_on(policy, again, given, arms, limit)]
    except ConfigError as error:
        raise AssertionError(str(error)) from error


def _gone_on(policy: Policy, again: Policy, given: Sequence[Arm], arms: Sequence[Arm], limit: int) -> list[Arm]:
    """Return all arms of a policy that goes on by results, each of which is worse than the one before or better."""
    all_arms = list(arms)
    while True:
        losses = Results((arm, nth * (-1.0) ** nth) for nth, arm in enumerate(all_arms))
        more = more_of(policy, given, losses)
        assert more_of(again, given, losses) == more, "a policy gives equal arms for equal results"
        if not more:
            return all_arms
        all_arms += more
        assert len(all_arms) <= limit, f"count({len(given)}) says at most {limit} arms, and it goes on beyond them"
