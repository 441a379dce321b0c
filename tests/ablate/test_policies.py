"""Policies: which arms they ask for, how many, and how a path goes on after results."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

import etude
from etude.ablate.arms import BASE, Results, distinct, removal, together
from etude.ablate.asking import arms_of, more_of, needs
from etude.ablate.policies import Adaptive, policy_of
from etude.core.errors import ConfigError
from etude.core.removal import Arm, Features, Layers, Part, Whole

policies = etude.policies


def named(*names: str) -> list[Arm]:
    return [Arm(name, features=Features((name,))) for name in names]


def gone(arm: Arm) -> str:
    return "" if arm.features is None else "".join(arm.features.names)


ABC = named("a", "b", "c")


@pytest.mark.parametrize(
    ("policy", "arms"),
    [
        ("leave_one_out", ["", "a", "b", "c"]),
        ("pairs", ["", "a", "b", "c", "ab", "ac", "bc"]),
        ("add_one_in", ["", "abc", "bc", "ac", "ab"]),
        ("full_factorial", ["", "a", "b", "c", "ab", "ac", "bc", "abc"]),
        ("path", ["", "a", "b", "c"]),
        ("shapley", ["", "a", "b", "c", "ab", "ac", "bc", "abc"]),
        (policies.LeaveGroupOut({"first two": ["a", "b"], "last": ["c"]}), ["", "ab", "c"]),
    ],
)
def test_policies_ask_for_their_arms_the_base_first(policy: str, arms: list[str]) -> None:
    found, same = arms_of(policy_of(policy), ABC)
    assert [gone(arm) for arm in found] == arms
    assert found[0] == BASE
    assert same == {}
    assert len({arm.name for arm in found}) == len(found)


@given(st.sampled_from(["leave_one_out", "pairs", "add_one_in", "full_factorial", "shapley"]), st.integers(2, 6))
def test_policies_say_beforehand_how_many_arms_they_need(name: str, n: int) -> None:
    policy = policy_of(name)
    components = named(*"abcdef"[:n])
    found, same = arms_of(policy, components)
    assert len(found) + len(same) == policy.count(n)
    assert not isinstance(policy, Adaptive)
    assert more_of(policy, components, Results((arm, 0.0) for arm in found)) == []


def test_what_a_policy_needs_is_said_in_trials() -> None:
    assert needs("leave_one_out", 6, seeds=10) == "leave_one_out of 6 components: 7 arms x 10 seeds = 70 trials"
    assert needs("path", 3, seeds=1) == "path of 3 components: at most 7 arms x 1 seed = 7 trials"
    assert needs(policies.FullFactorial(), 10, seeds=3) == (
        "full_factorial of 10 components: 1,024 arms x 3 seeds = 3,072 trials"
    )


def test_arms_are_named_by_what_they_are() -> None:
    names = [arm.name for arm in policies.AddOneIn().arms(ABC)]
    assert names == ["base", "stripped", "stripped, with a", "stripped, with b", "stripped, with c"]
    assert [arm.name for arm in policies.Pairs().arms(ABC)][4:] == ["a & b", "a & c", "b & c"]
    assert policies.LeaveGroupOut({"x": ["a", "b", "c"]}).arms(ABC)[1].name == "x"
    assert policies.LeaveGroupOut([["a", "b"], "c"]).arms(ABC)[1].name == "a & b"


def test_a_full_factorial_says_its_size_first() -> None:
    nine = named(*"abcdefghi")
    with pytest.raises(ConfigError) as refused:
        policies.FullFactorial().arms(nine)
    assert str(refused.value) == (
        "A full factorial of 9 components has 512 arms, each of which is trained with every seed, and the limit is "
        "256. Pass policy=etude.policies.FullFactorial(limit=512) if that is meant, or 'pairs' or 'shapley'."
    )
    assert len(policies.FullFactorial(limit=512).arms(nine)) == 512


def test_groups_are_checked_against_the_components() -> None:
    with pytest.raises(ConfigError, match=r"'d' stands in a group and is no component of this study. These are: a, b"):
        policies.LeaveGroupOut([["a", "d"], ["b", "c"]]).arms(ABC)
    with pytest.raises(ConfigError, match="'c' would never be taken away, being in no group"):
        policies.LeaveGroupOut([["a", "b"]]).arms(ABC)
    with pytest.raises(ConfigError, match="has no group, or an empty one"):
        policies.LeaveGroupOut({"x": []})
    assert policies.LeaveGroupOut([["a", "b"], ["c"]]).count(3) == 3
    features = [Arm("features:[a,b]", features=Features(("a", "b")))]
    assert policies.LeaveGroupOut([["features:[a, b]"]]).arms(features)[1].features == features[0].features


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("leave-one-out", "Did you mean 'leave_one_out'? There are: 'leave_one_out', 'leave_group_out'"),
        ("bogus", "policy='bogus' is not known. There are:"),
        ("leave_group_out", "needs to know the groups. Pass policy=etude.policies.LeaveGroupOut("),
        (policies.Pairs, "policy=Pairs is a class, and no policy yet. Call it: Pairs()."),
        (3, "is no policy"),
    ],
)
def test_what_is_no_policy_is_refused(policy: object, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        policy_of(policy)  # type: ignore[arg-type]
    assert message in str(refused.value)


class Halves:
    """A policy as a user writes one."""

    def count(self, n: int) -> int:
        return 3

    def arms(self, components: Sequence[Arm]) -> list[Arm]:
        half = len(components) // 2
        return [BASE, together(components[:half], "front"), together(components[half:], "back")]


class Headless(Halves):
    def arms(self, components: Sequence[Arm]) -> list[Arm]:
        return super().arms(components)[1:]


def test_a_policy_of_ones_own_is_as_good() -> None:
    found, _ = arms_of(policy_of(Halves()), ABC)
    assert [(arm.name, gone(arm)) for arm in found] == [("base", ""), ("front", "a"), ("back", "bc")]
    assert needs(Halves(), 3, seeds=2) == "Halves of 3 components: 3 arms x 2 seeds = 6 trials"
    with pytest.raises(ConfigError, match="The policy Headless begins with 'front'"):
        arms_of(Headless(), ABC)


# --- paths ----------------------------------------------------------------------------------------


def walked(components: Sequence[Arm], losses: Mapping[str, float]) -> tuple[list[str], list[list[str]]]:
    """Let a path go to its end; return its steps, and which arms were asked for in each round."""
    path = policies.Path()
    arms, _ = arms_of(path, components)
    known: list[tuple[Arm, float]] = []
    rounds = []
    while arms:
        rounds.append([gone(arm) for arm in arms])
        known += [(arm, losses[gone(arm)]) for arm in arms]
        arms = more_of(path, components, Results(known))
    return [step.component for step in path.steps(components, Results(known))], rounds


def test_a_path_takes_the_best_step_each_time() -> None:
    losses = {"": 1.0, "a": 3.0, "b": 0.5, "c": 2.0, "ab": 0.4, "bc": 0.6, "abc": 2.5}
    steps, rounds = walked(ABC, losses)
    assert rounds == [["", "a", "b", "c"], ["ab", "bc"], ["abc"]]
    assert steps == ["b", "a", "c"]
    results = Results(
        (arm, losses[gone(arm)]) for arm in [BASE, *policies.FullFactorial().arms(ABC)] if gone(arm) != "ac"
    )
    found = policies.Path().steps(ABC, results)
    assert [step.change for step in found] == pytest.approx([-0.5, -0.1, 2.1])
    assert [gone(step.arm) for step in found] == ["b", "ab", "abc"]


def test_a_path_needs_as_many_arms_as_it_says() -> None:
    five = named(*"abcde")
    losses = {"".join(few): len(few) for k in range(6) for few in itertools.combinations("abcde", k)}
    steps, rounds = walked(five, losses)
    assert steps == list("abcde")  # ties go to the first
    assert sum(map(len, rounds)) == policies.Path().count(5)


def test_a_path_goes_round_what_failed_and_ends_where_all_failed() -> None:
    nan = math.nan
    steps, rounds = walked(ABC, {"": 1.0, "a": nan, "b": nan, "c": 9.0, "ac": nan, "bc": nan})
    assert steps == ["c"]
    assert rounds == [["", "a", "b", "c"], ["ac", "bc"]]


def test_a_path_waits_for_the_whole_round() -> None:
    path = policies.Path()
    results = Results([(BASE, 1.0), (ABC[0], 2.0)])
    assert path.steps(ABC, results) == []
    assert [gone(arm) for arm in more_of(path, ABC, results)] == ["b", "c"]


def test_a_path_leads_from_one_configuration_to_another() -> None:
    start, end = {"lr": 0.1, "width": 64, "bias": True}, {"lr": 0.01, "width": 64, "bias": False}
    listing = etude.components.Listing(settings=tuple(etude.components.Setting(n, v) for n, v in start.items()))
    changes = [one.arm for one in etude.ablate.matching.match_all(etude.components.differences(start, end), listing)]
    arms, _ = arms_of(policies.Path(), changes)
    assert [arm.settings for arm in arms] == [{}, {"lr": 0.01}, {"bias": False}]
    results = Results([(arms[0], 1.0), (arms[1], 0.2), (arms[2], 0.9)])
    assert [arm.settings for arm in more_of(policies.Path(), changes, results)] == [{"bias": False, "lr": 0.01}]


# --- arms as sets ---------------------------------------------------------------------------------


def test_arms_join_and_what_is_inside_goes_with_its_block() -> None:
    block = Arm("block", layers=Layers((Whole("block"),), along=("relu",)))
    inner = Arm("inner", layers=Layers((Whole("block.conv"), Part("block.fc", "units", (1,))), along=("block.relu",)))
    part = Arm("part", layers=Layers((Part("fc", "units", (3, 1)),), repair="learned"))
    more = Arm("more", layers=Layers((Part("fc", "units", (2,)), Part("fc", "heads", (0,)))))
    joined = together([block, inner, part, more, Arm("s", settings={"b": 0, "a": 1}), Arm("v", variant="x")])
    assert joined == Arm(
        "block & inner & part & more & s & v",
        layers=Layers(
            (Whole("block"), Part("fc", "heads", (0,)), Part("fc", "units", (1, 2, 3))), "learned", ("relu",)
        ),
        settings={"a": 1, "b": 0},
        variant="x",
    )
    assert list(joined.settings) == ["a", "b"]
    assert together([]) == BASE


@given(st.permutations(ABC))
def test_in_which_order_arms_are_joined_does_not_matter(order: list[Arm]) -> None:
    assert removal(together(order)) == removal(together(ABC))
    assert together(order, "x") == together(ABC, "x")


def test_what_cannot_be_one_arm_is_refused() -> None:
    for one, other, message in (
        (Arm("a", variant="x"), Arm("b", variant="y"), "whose functions cannot be joined"),
        (Arm("a", settings={"s": 0}), Arm("b", settings={"s": False}), "give the setting 's' two values, 0 and False"),
        (
            Arm("a", features=Features(("f",))),
            Arm("b", features=Features(("g",), "constant", 0)),
            r"treat features differently, drop and constant \(0\)",
        ),
    ):
        with pytest.raises(ConfigError, match=rf"'a', 'b' cannot be one arm: they .*{message}"):
            together([one, other])


def test_arms_that_take_away_the_same_are_one() -> None:
    block = Arm("block", layers=Layers((Whole("b"),)))
    inner = Arm("inner", layers=Layers((Whole("b.c"),)))
    found, same = arms_of(policies.Pairs(), [block, inner])
    assert [arm.name for arm in found] == ["base", "block", "inner"]
    assert same == {"block & inner": "block"}


def test_settings_differ_by_type_too() -> None:
    zero, false = Arm("zero", settings={"s": 0}), Arm("false", settings={"s": False})
    assert len(distinct([zero, false])[0]) == 2


def test_two_removals_never_share_a_name() -> None:
    with pytest.raises(ConfigError, match="Two arms are called 'a' and take away different things"):
        distinct([Arm("a", settings={"s": 0}), Arm("a", settings={"s": 1})])


# --- Shapley --------------------------------------------------------------------------------------


def test_shapley_values_of_a_study_sum_to_the_whole_effect() -> None:
    policy = policies.Shapley(samples=3, seed=5)
    six = named(*"abcdef")
    arms, _ = arms_of(policy, six)
    results = Results((arm, math.sin(sum(map(ord, gone(arm))))) for arm in arms)
    worth = policy.values(six, results)
    whole = results.loss(together(six)) - results.loss(BASE)
    assert list(worth) == list("abcdef")
    assert sum(one.value for one in worth.values()) == pytest.approx(whole, abs=1e-12)


def test_shapley_draws_by_its_seed() -> None:
    ten = named(*"abcdefghij")
    first, again, other = (policies.Shapley(samples=4, seed=seed).arms(ten) for seed in (0, 0, 1))
    assert first == again != other
    assert policies.Shapley(samples=4).count(10) == len(first) <= 2 + 4 * 9


@pytest.mark.parametrize("options", [{"samples": 0}, {"samples": 2.5}, {"samples": True}, {"seed": "x"}])
def test_shapley_refuses_what_is_no_number_of_samples(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="Pass a whole number"):
        policies.Shapley(**options)  # type: ignore[arg-type]
