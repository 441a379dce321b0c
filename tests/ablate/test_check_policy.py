"""The check of policies: ours pass, and each broken promise is named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from etude import policies
from etude.ablate.asking import arms_of
from etude.core.errors import ConfigError
from etude.core.removal import Arm
from etude.policies import BASE, together
from etude.testing import check_policy


@pytest.mark.parametrize(
    "make",
    [
        policies.LeaveOneOut,
        policies.Pairs,
        policies.AddOneIn,
        policies.FullFactorial,
        policies.Path,
        policies.Shapley,
        lambda: policies.LeaveGroupOut({"one": ["a", "b"], "other": ["c", "d"]}),
    ],
)
def test_ours_keep_what_they_promise(make: Callable[[], Any]) -> None:
    names = check_policy(make)
    assert names[0] == "base"
    assert len(set(names)) == len(names) > 1


def policy(arms: Callable[[Sequence[Arm]], Any], number: Any = 5, more: Any = None) -> Callable[[], Any]:
    """Return what makes a policy of some functions."""
    methods: dict[str, Any] = {"arms": lambda self, given: arms(given), "count": lambda self, n: number}
    if more is not None:
        methods["more"] = lambda self, given, results: more(given)
    return type("Own", (), methods)


turns = iter(range(100))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (policy(lambda given: [BASE, *given]), ""),
        (policy(list), "begins with 'a', and what the others are compared with comes first"),
        (policy(lambda given: 3), "The policy Own gives 3 \\(int\\) where arms\\(\\) is to give a list of arms"),
        (policy(lambda given: [BASE, "a"]), "gives 'a' \\(str\\) where arms\\(\\)"),
        (policy(lambda given: [BASE, *given], 4), "count\\(4\\) says 4 beforehand, and arms\\(\\) gives 5"),
        (policy(lambda given: [BASE, *given], "5"), "count\\(n\\) says how many arms there are, and this one says '5'"),
        (policy(lambda given: [BASE, together(given[:1], "x"), together(given[1:], "x")]), "Two arms are called 'x'"),
        (policy(lambda given: [BASE, given[next(turns) % 4]]), "gives equal arms for equal components"),
        (
            policy(lambda given: [BASE, *given], 5, more=lambda given: [together(given)]),
            "at most 5 arms, and it goes on",
        ),
        (
            policy(lambda given: [BASE, *given], 6, more=lambda given: given[0]),
            "where more\\(\\) is to give a list of arms",
        ),
        (object, "a policy has a method arms"),
    ],
)
def test_a_broken_promise_is_named(make: Callable[[], Any], said: str) -> None:
    if not said:
        check_policy(make)
        return
    with pytest.raises(AssertionError, match=said):
        check_policy(make)


def test_what_is_no_list_of_arms_is_refused_with_the_mend() -> None:
    with pytest.raises(ConfigError) as refused:
        arms_of(policy(lambda given: 3)(), [Arm("a", settings={"a": 0})])
    assert str(refused.value) == (
        "The policy Own gives 3 (int) where arms() is to give a list of arms. Return [etude.policies.BASE, ...], and "
        "make joined ones with etude.policies.together."
    )
