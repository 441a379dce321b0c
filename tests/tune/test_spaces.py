"""Search spaces: what users may write, what comes out, and what is refused with a way on."""

import json
import math
import pickle
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from etude.core.errors import SpaceError
from etude.tune import spaces
from etude.tune.domains import Domain, Integers, Uniform, integers, loguniform, ordered, uniform
from etude.tune.spaces import Choice, Space, choice, domain_from_dict

BRANCHING = Space.of(
    {
        "lr": loguniform(1e-4, 1.0),
        "optimizer": choice(
            {
                "sgd": {
                    "momentum": uniform(0, 1),
                    "schedule": choice({"step": {"every": integers(1, 4)}, "none": {}}),
                },
                "adam": {"beta": uniform(0.5, 0.9), "momentum": [0.0, 0.9]},
            }
        ),
        "width": [32, 64],
    }
)

# --- Strategies -----------------------------------------------------------------------------------

text = st.text("ab =/'\"é", max_size=3)
plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: st.lists(inner, max_size=2).map(tuple),
    max_leaves=4,
)
lists = st.lists(plain, min_size=1, max_size=4, unique_by=lambda value: repr(value).replace("-0.0", "0.0"))
numbers = st.floats(-1e6, 1e6)
whole = st.integers(-1000, 1000)


@st.composite
def stepped_uniforms(draw: st.DrawFn) -> Domain:
    low, step, n = draw(numbers), draw(st.floats(1e-3, 1e3)), draw(st.integers(1, 20))
    return uniform(low, low + n * step, step=(low + n * step - low) / n)


@st.composite
def bounded(draw: st.DrawFn, /, call: Callable[..., Domain], bounds: st.SearchStrategy[Any], **more: Any) -> Domain:
    low, high = sorted([draw(bounds), draw(bounds)])
    assume(low < high)
    return call(low, high, **more)


discrete = st.one_of(
    stepped_uniforms(),
    bounded(integers, whole),
    bounded(integers, st.integers(1, 200), log=True),
    st.builds(
        lambda low, n, step: integers(low, low + n * step, step=step),
        whole,
        st.integers(1, 9),
        st.integers(1, 9),
    ),
    lists.map(choice),
    lists.map(ordered),
)
continuous = bounded(uniform, numbers) | bounded(loguniform, st.floats(5e-324, 1e300))
names = st.sampled_from(["a", "b", "c", "d.e", "d.f"])


@st.composite
def made_spaces(draw: st.DrawFn, domains: st.SearchStrategy[Domain] = discrete | continuous) -> Space:
    """Spaces whose names are made unique by their place, and whose branches nest twice."""

    def parameters(prefix: str, depth: int, least: int) -> dict[str, object]:
        chosen = draw(st.lists(names, min_size=least, max_size=2, unique=True))
        return {prefix + name: domain(prefix + name + "_", depth) for name in chosen}

    def domain(prefix: str, depth: int) -> Domain:
        if depth == 0 or draw(st.booleans()):
            return draw(domains)
        labels = draw(st.lists(st.sampled_from(["x", "y", "a/b=c", None, 3]), min_size=1, max_size=2, unique=True))
        return choice({label: parameters(prefix, depth - 1, 0) for label in labels})

    return Space.of(parameters("", 2, 1))


seeds = st.integers(0, 2**32)

# --- Properties -----------------------------------------------------------------------------------


@given(made_spaces(), seeds)
def test_every_sample_belongs_to_its_space(space: Space, seed: int) -> None:
    config = space.sample(random.Random(seed))
    assert space.why_not(config) is None
    assert space.always <= config.keys() <= set(space.names)


@given(made_spaces(), seeds)
def test_equal_seeds_give_equal_samples(space: Space, seed: int) -> None:
    assert space.sample(random.Random(seed)) == space.sample(random.Random(seed))


@given(made_spaces(), seeds)
def test_each_active_parameter_is_asked_for_once_by_a_path_of_its_own(space: Space, seed: int) -> None:
    rng, paths = random.Random(seed), []

    def pick(path: str, domain: Domain) -> spaces.Value:
        paths.append(path)
        return domain.from_unit(rng.random())

    config = space.build(pick)
    assert len(set(paths)) == len(paths)
    assert [path.rpartition("/")[2] for path in paths] == list(config)


@given(made_spaces())
def test_spaces_survive_json_pickle_and_repr(space: Space) -> None:
    again = Space.from_dict(json.loads(json.dumps(space.to_dict(), allow_nan=False)))
    assert again == space == pickle.loads(pickle.dumps(space)) == eval(repr(space), vars(spaces))
    assert hash(again) == hash(space)
    assert repr(again) == repr(space)


@given(discrete | continuous)
def test_domains_survive_json_and_repr(domain: Domain) -> None:
    assert domain_from_dict(json.loads(json.dumps(domain.to_dict()))) == domain == eval(repr(domain), vars(spaces))


@given(discrete | continuous, st.integers(1, 12))
def test_grid_values_belong_to_the_domain_and_are_distinct(domain: Domain, n: int) -> None:
    values = domain.grid(n)
    assert all(domain.contains(value) for value in values)
    assert len({repr(value) for value in values}) == len(values) >= 1


@given(bounded(integers, whole) | bounded(integers, st.integers(1, 500), log=True), st.integers(2, 12))
def test_a_grid_of_integers_has_as_many_as_asked_for_and_both_ends(domain: Integers, n: int) -> None:
    values = domain.grid(n)
    assert len(values) == min(n, domain.size)
    assert (values[0], values[-1]) == (domain.low, domain.high)


@given(made_spaces(bounded(integers, st.integers(-3, 3)) | lists.map(choice)))
def test_the_size_counts_the_configurations(space: Space) -> None:
    assume(space.size is not None and space.size < 2000)
    configs = list(space.grid(100))
    assert len({repr(config) for config in configs}) == len(configs) == space.size
    assert all(space.contains(config) for config in configs)


@given(discrete)
def test_the_size_of_a_discrete_domain_counts_its_values(domain: Domain) -> None:
    assert len(domain.grid(3000)) == domain.size


@given(continuous | discrete, st.floats(0, 1, exclude_max=True))
def test_every_unit_number_lands_in_the_domain(domain: Domain, u: float) -> None:
    assert domain.contains(domain.from_unit(u))


@given(st.floats(5e-324, 8e307), st.floats(5e-324, 8e307))
def test_loguniform_stays_in_its_bounds_at_both_ends_of_the_unit(low: float, high: float) -> None:
    assume(low < high)
    domain = loguniform(low, high)
    assert domain.from_unit(0.0) == low
    assert low <= domain.from_unit(math.nextafter(1.0, 0.0)) <= high


@given(stepped_uniforms())
def test_steps_count_from_low_and_end_at_high(domain: Uniform) -> None:
    values = domain.grid(100)
    assert (values[0], values[-1]) == (domain.low, domain.high)
    assert values[1:-1] == tuple(domain.low + i * (domain.step or 0.0) for i in range(1, len(values) - 1))


# --- Domains --------------------------------------------------------------------------------------


def test_a_stepped_grid_has_no_dust_at_its_end() -> None:
    assert uniform(0, 0.3, step=0.1).grid(9)[-1] == 0.3  # while 3 * 0.1 is 0.30000000000000004


def test_half_of_loguniform_lies_below_its_geometric_mean() -> None:
    assert math.isclose(loguniform(1e-4, 1.0).from_unit(0.5), 1e-2)


@pytest.mark.parametrize("domain", [integers(1, 4), integers(1, 7, step=2), ordered(["a", "b", "c", "d"])])
def test_values_are_equally_likely(domain: Domain) -> None:
    drawn = [domain.from_unit(i / 400) for i in range(400)]
    assert [drawn.count(value) for value in domain.grid(4)] == [100] * 4


def test_log_integers_reach_both_ends() -> None:
    domain = integers(1, 8, log=True)
    assert (domain.from_unit(0.0), domain.from_unit(math.nextafter(1.0, 0.0))) == (1, 8)
    assert integers(1, 100, log=True).grid(5) == (1, 3, 10, 32, 100)


def test_the_type_of_a_listed_value_counts() -> None:
    truth = choice([True, 1, 1.0, "1", None, (1,)])
    assert [type(value) for value in truth.grid(1)] == [bool, int, float, str, type(None), tuple]
    assert [choice([1]).contains(value) for value in (1, True, 1.0, "1")] == [True, False, False, False]
    assert not choice([(1, 2)]).contains((True, 2))
    assert choice([True]) != choice([1])
    assert truth.index(1.0) == 2


def test_numbers_know_ints_from_bools() -> None:
    assert uniform(0, 1).contains(1)
    assert not uniform(0, 1).contains(True)
    assert not integers(0, 1).contains(True)
    assert not integers(0, 1).contains(1.0)
    assert uniform(0, 1).why_not(math.nan) == "is not a number"
    assert uniform(0, 1).why_not(10**400) == "is above 1.0"


def test_anything_that_is_a_number_can_be_a_bound_and_becomes_plain() -> None:
    assert uniform(np.float32(0), Fraction(1, 2)) == uniform(0.0, 0.5)  # type: ignore[arg-type]
    assert type(integers(np.int64(1), 3).from_unit(0.0)) is int  # type: ignore[arg-type]


def test_domains_print_the_call_that_makes_them() -> None:
    domains = [
        uniform(0, 1),
        uniform(0, 1, step=0.5),
        integers(1, 8, log=True),
        choice(["a", None]),
        choice({"sgd": {"momentum": uniform(0, 1)}, "adam": {}}),
        ordered([1, "many"]),
    ]
    assert [repr(domain) for domain in domains] == [
        "uniform(0.0, 1.0)",
        "uniform(0.0, 1.0, step=0.5)",
        "integers(1, 8, log=True)",
        "choice(['a', None])",
        "choice({'sgd': {'momentum': uniform(0.0, 1.0)}, 'adam': {}})",
        "ordered([1, 'many'])",
    ]


def test_whole_numbers_of_64_bits_survive_what_spaces_are_written_with() -> None:
    space = Space.of({"n": integers(-(2**63), 2**64 - 1), "seed": [-(2**63), 2**64 - 1], "name": "h\U0001f600"})
    for config in space.grid(2):
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(config)) == config
        assert msgspec.json.decode(msgspec.json.encode(config)) == config


# --- Spaces ---------------------------------------------------------------------------------------


def test_handy_forms_become_domains() -> None:
    space = Space.of({"lr": 0.1, "width": [32, 64], "kernel": (3, 3), "optimizer.name": None})
    assert dict(space) == {
        "lr": choice([0.1]),
        "width": choice([32, 64]),
        "kernel": choice([(3, 3)]),
        "optimizer.name": choice([None]),
    }
    assert Space.of(space) is space


def test_a_space_knows_its_names_in_all_branches() -> None:
    assert BRANCHING.names == ("lr", "optimizer", "momentum", "schedule", "every", "beta", "width")
    assert BRANCHING.always == {"lr", "optimizer", "momentum", "width"}
    assert [domain for name, domain in BRANCHING.domains() if name == "momentum"] == [
        uniform(0, 1),
        choice([0.0, 0.9]),
    ]
    assert list(BRANCHING) == ["lr", "optimizer", "width"]
    assert BRANCHING.size is None


def test_paths_name_the_branch() -> None:
    paths = []

    def first(path: str, domain: Domain) -> spaces.Value:
        paths.append(path)
        return domain.from_unit(0.0)

    assert BRANCHING.build(first) == {
        "lr": 1e-4, "optimizer": "sgd", "momentum": 0.0, "schedule": "step", "every": 1, "width": 32,
    }  # fmt: skip
    assert paths == [
        "lr",
        "optimizer",
        "optimizer=sgd/momentum",
        "optimizer=sgd/schedule",
        "optimizer=sgd/schedule=step/every",
        "width",
    ]


def test_a_sample_takes_one_number_per_active_parameter() -> None:
    rng, twin = np.random.default_rng(0), np.random.default_rng(0)
    config = BRANCHING.sample(rng)
    twin.random(len(config))
    assert rng.random() == twin.random()


def test_a_grid_goes_through_all_branches() -> None:
    space = Space.of({"optimizer": choice({"sgd": {"momentum": uniform(0, 1)}, "adam": {}}), "seed": 1})
    assert list(space.grid(2)) == [
        {"optimizer": "sgd", "momentum": 0.0, "seed": 1},
        {"optimizer": "sgd", "momentum": 1.0, "seed": 1},
        {"optimizer": "adam", "seed": 1},
    ]
    assert next(space.grid(1))["momentum"] == 0.5


def test_spaces_can_be_keys_and_their_order_counts() -> None:
    ab, ba = Space.of({"a": [1], "b": [2]}), Space.of({"b": [2], "a": [1]})
    assert ab != ba
    assert {ab: "kept"}[Space.of({"a": [1], "b": [2]})] == "kept"


GOOD = {"lr": 0.1, "optimizer": "sgd", "momentum": 0.3, "schedule": "none", "width": 32}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, None),
        ({"lr": 2.0}, "lr=2.0 is above 1.0"),
        ({"lr": 0}, "lr=0 is below 0.0001"),
        ({"lr": "0.1"}, "lr='0.1' is a str, not a number"),
        ({"lr": ...}, "lr is missing"),
        ({"momentum": ...}, "momentum is missing"),
        ({"width": 32.0}, "width=32.0 is none of 32, 64"),
        ({"width": [32]}, "width=[32] is none of 32, 64"),
        ({"schedule": "step", "every": True}, "every=True is a bool, not a whole number"),
        ({"every": 2}, "every belongs to schedule='step', but schedule is 'none'"),
        ({"beta": 0.6}, "beta belongs to optimizer='adam', but optimizer is 'sgd'"),
        (
            {"depth": 3},
            "depth is not in the space, which has lr, optimizer, momentum, schedule, every, beta, width",
        ),
    ],
)
def test_a_misfit_is_told_its_reason(change: dict[str, object], reason: str | None) -> None:
    params = {name: value for name, value in (GOOD | change).items() if value is not ...}
    assert BRANCHING.why_not(params) == reason
    assert BRANCHING.contains(params) is (reason is None)


def test_values_between_steps_are_told_apart() -> None:
    assert uniform(0, 1, step=0.25).why_not(0.3) == "is not 0.0 plus whole steps of 0.25"
    assert integers(1, 9, step=2).why_not(4) == "is not 1 plus whole steps of 2"


# --- Errors ---------------------------------------------------------------------------------------


class Net:
    def __repr__(self) -> str:
        return "Net()"


PLAIN = "which is not plain (None, bool, int, float, str, or a tuple of those)"
LABEL = "Choose by a label, such as its name, and build the object inside the function."


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: uniform(1, 0),
            "uniform(1, 0) has its bounds reversed, so no value lies between them. Write uniform(0.0, 1.0).",
        ),
        (
            lambda: integers(3, 3),
            "integers(3, 3) has equal bounds, so there is nothing to search. "
            "For a fixed value write the value itself: 3.",
        ),
        (
            lambda: loguniform(0, 1),
            "loguniform(0, 1) has low=0, which has no logarithm. Pass a low above 0.",
        ),
        (
            lambda: uniform(0, math.inf),
            "uniform(0, inf) has high=inf, and nothing can be drawn evenly from a range without an end. "
            "Pass a finite number.",
        ),
        (
            lambda: uniform(False, 1),
            "uniform(False, 1) has low=False, a bool, where a number belongs. Pass a number, or use etude.choice.",
        ),
        (
            lambda: integers(1.0, 8),  # type: ignore[arg-type]
            "integers(1.0, 8) has low=1.0, a float, where a whole number belongs. "
            "Pass a whole number, or use etude.uniform.",
        ),
        (
            lambda: uniform(0, 1, step=0.3),
            "uniform(0, 1, step=0.3) has a step that does not fit: no whole number of steps leads "
            "from 0.0 to 1.0. Pass high=0.9 or high=1.2, or another step.",
        ),
        (
            lambda: integers(1, 8, step=10),
            "integers(1, 8, step=10) has a step that does not fit: no whole number of steps leads "
            "from 1 to 8. Pass high=11, or another step.",
        ),
        (
            lambda: uniform(0, 1, step=0),
            "uniform(0, 1, step=0) has step=0, which never leads from low to high. Pass a step above 0.",
        ),
        (
            lambda: integers(1, 9, log=True, step=2),
            "integers(1, 9, log=True, step=2) has log and step, which contradict each other. Leave one of them out.",
        ),
        (
            lambda: choice([]),
            "choice([]) has no values, so none can be picked. List at least one.",
        ),
        (
            lambda: ordered([1, 2, 1]),
            "ordered([1, 2, 1]) has 1 more than once, which would favour it. Leave one.",
        ),
        (
            lambda: choice([Net()]),  # type: ignore[list-item]
            f"The value Net() is of type 'Net', {PLAIN}. {LABEL}",
        ),
        (
            lambda: choice([[1, 2]]),  # type: ignore[list-item]
            f"The value [1, 2] is of type 'list', {PLAIN}. Write a tuple.",
        ),
        (
            lambda: choice([1, 2**64]),
            "The value 18446744073709551616 does not fit into 64 bits, so it cannot be written to a study's journal. "
            "Pass a smaller one, or its digits as a text, and convert that inside the function.",
        ),
        (
            lambda: choice(["a", "\udc80"]),
            "The value '\\udc80' is no Unicode text, since half of a surrogate pair is no character, so it cannot be "
            "written to a study's journal. Choose by a label, and look the text up inside the function.",
        ),
        (
            lambda: integers(0, 2**64),
            "integers(0, 18446744073709551616) has high=18446744073709551616, which does not fit into 64 bits, "
            "so no journal could hold what is drawn. "
            "Pass a high from -2**63 to 2**64 - 1, or use etude.uniform or etude.loguniform.",
        ),
        (
            lambda: choice("abc"),
            "choice('abc') is given a str, not a list. Write a list, such as choice([1, 2]).",
        ),
        (
            lambda: choice({1}),  # type: ignore[arg-type]
            "choice({1}) is given a set, not a list. Write a list, which has the same order in every run.",
        ),
        (
            lambda: Space.of({}),
            "The space is empty, so there is nothing to search. "
            'Name at least one parameter, such as {"lr": etude.loguniform(1e-4, 1.0)}.',
        ),
        (
            lambda: Space.of({"optimizer": {"lr": [1]}}),
            "optimizer: A mapping is no domain, since a configuration is flat. "
            'Write dots ("optimizer.lr"), or wrap it in etude.choice if its keys are alternatives.',
        ),
        (
            lambda: Space.of({"width": range(1, 9, 2)}),
            "width: range(1, 9, 2) is no domain. Write etude.integers(1, 7, step=2).",
        ),
        (
            lambda: Space.of({"width": {1}}),
            "width: {1} is no domain. Write a list, which has the same order in every run.",
        ),
        (
            lambda: Space.of({"width": np.array([1, 2])}),
            f"width: The value array([1, 2]) is of type 'ndarray', {PLAIN}. Call its .tolist().",
        ),
        (
            lambda: Space.of({"learning rate": [1]}),
            "'learning rate' cannot be the name of a parameter, since no function could ask for it. "
            "Write an identifier, or several joined by dots: 'lr', 'optimizer.lr'.",
        ),
        (
            lambda: Space.of({"momentum": [1], "optimizer": choice({"sgd": {"momentum": [2]}})}),
            "'momentum' is in a branch of 'optimizer' and outside of it as well. "
            "A configuration is flat, so it has room for one of them. Rename one.",
        ),
        (
            lambda: Space.of([1]),  # type: ignore[arg-type]
            "[1] is a list, not a mapping from names to domains. "
            'Write {"lr": etude.loguniform(1e-4, 1.0)}, or {} for no parameters.',
        ),
        (
            lambda: Space.of({"lr": [1]}).grid(0),
            "A grid of n=0 points per parameter has no points at all. Pass n of at least 1.",
        ),
        (
            lambda: Space.of({"lr": uniform(0, 1)}).build(lambda path, domain: 2.0),
            "lr was picked as 2.0, which is above 1.0. "
            "Whoever picks, such as a sampler, must return a value of uniform(0.0, 1.0).",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_the_way_on(call: Callable[[], object], message: str) -> None:
    with pytest.raises(SpaceError) as refused:
        call()
    assert str(refused.value) == message


@pytest.mark.parametrize(
    "call",
    [
        lambda: uniform(math.nan, 1),
        lambda: uniform(0, 10**400),
        lambda: uniform("0", 1),  # type: ignore[arg-type]
        lambda: uniform(1, 1 + 1e-15, step=1e-16),
        lambda: integers(0, 8, log=True),
        lambda: integers(0, True),
        lambda: integers(-(2**63) - 1, 0),
        lambda: integers(-(2**63), 2**64 - 1, step=2**64),
        lambda: Space.of({"n": -(2**63) - 1}),
        lambda: Space.of({"n": [(1, (2**64,))]}),
        lambda: Space.of({"path": ("a", "\ud800")}),
        lambda: choice({"\ud800": {}, "b": {}}),
        lambda: choice([math.nan]),
        lambda: choice([np.float64(1.0)]),
        lambda: choice({}),
        lambda: choice({"sgd": uniform(0, 1)}),  # type: ignore[dict-item]
        lambda: choice({"sgd": {"x": {1}}}),
        lambda: Space.of({3: [1]}),  # type: ignore[dict-item]
        lambda: Space.of({"a..b": [1]}),
        lambda: Space.of({"a": choice({"x": {"a": [1]}})}),
        lambda: Space.of({"a": choice({"x": {"c": [1]}}), "b": choice({"x": {"c": [1]}})}),
        lambda: domain_from_dict({"kind": "cauchy"}),
        lambda: domain_from_dict({"kind": "uniform", "low": 0}),
        lambda: Space.from_dict({}),
    ],
)
def test_other_things_that_cannot_be_are_refused_too(call: Callable[[], object]) -> None:
    with pytest.raises(SpaceError):
        call()


def test_branches_may_share_a_name_but_labels_of_a_plain_choice_have_none() -> None:
    shared = choice({"a": {"x": [1]}, "b": {"x": [2]}})
    assert Space.of({"kind": shared}).always == {"kind", "x"}
    assert choice(["a", "b"]).sub_spaces == {}
    assert isinstance(shared, Choice)
