"""Samplers, stoppers, configurations and budgets as they are given on the command line."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etude.cli.options import read_budget, read_sampler, read_start, read_stoppers, read_system, read_workers
from etude.core.errors import ConfigError
from etude.files.calls import made_of
from etude.tune.registry import Registry
from etude.tune.samplers import TPE, Random
from etude.tune.stop import MedianRule, NeverStop


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("random", Random()),
        ("tpe", TPE()),
        ("TPE", TPE()),
        ("tpe()", TPE()),
        ("tpe(startup=20)", TPE(startup=20)),
        (" TPE( 20 ) ", TPE(startup=20)),
    ],
)
def test_a_sampler_is_a_name_or_a_call(text: str, made: object) -> None:
    assert read_sampler(text) == made


def test_several_stoppers_are_a_list() -> None:
    assert read_stoppers(["none"]) == NeverStop()
    made = read_stoppers(["median(first_after=8)", "median(metric='loss')"])
    assert made == [MedianRule(first_after=8), MedianRule(metric="loss")]


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (read_sampler, "tpee", "sampler='tpee' is not known. Did you mean 'tpe'? There are: "),
        (
            read_sampler,
            "tpe(start=2)",
            "--sampler 'tpe(start=2)': tpe has no option 'start'. Did you mean 'startup'? It has: startup, newest.",
        ),
        (read_sampler, "random(n=2)", "--sampler 'random(n=2)': random has no option 'n'. It has none."),
        (
            read_sampler,
            "tpe(startup=__import__('os').getpid())",
            "--sampler \"tpe(startup=__import__('os').getpid())\" is no call whose options are Python literals. Write "
            "--sampler tpe, or --sampler 'tpe(option=1)' with quotes around it.",
        ),
        (
            read_sampler,
            "tpe(",
            "--sampler 'tpe(' is no call whose options are Python literals. Write --sampler tpe, or ",
        ),
        (read_sampler, "tpe(1)[0]", "--sampler 'tpe(1)[0]' is no call whose options are Python literals."),
        (read_sampler, "tpe(**{})", "--sampler 'tpe(**{})': tpe has no option 'None'."),
        (read_sampler, "tpe(1, 2, 3)", "--sampler 'tpe(1, 2, 3)' cannot be called so: "),
        (lambda text: read_stoppers([text]), "medain", "stopper='medain' is not known. Did you mean 'median'? "),
        (lambda text: read_stoppers([text]), "median(first_after=0)", "first_after=0 cannot be: "),
        (read_start, "", "--start '' is no configuration. Write NAME=VALUE: --start 'lr=0.1 width=64'."),
        (read_start, "0.1 lr=2", "--start '0.1 lr=2' is no configuration. "),
        (read_start, "lr=1 lr=2", "--start 'lr=1 lr=2' gives lr twice. Leave one; another --start is another trial."),
        (
            read_start,
            "lr=[1 width=2",
            "--start 'lr=[1 width=2': lr=[1 is neither a Python literal nor a word. Put a text in quotes of its own: "
            "--start 'lr=\"...\"'.",
        ),
        (
            read_budget,
            "27",
            "--budget '27' gives no two numbers. Write the smallest and the largest: --budget 1,27.",
        ),
        (
            lambda text: read_system(False, text),
            "energy",
            "--system-options 'energy' is no configuration. Write NAME=VALUE: --system-options 'objective=energy "
            "probes=8'.",
        ),
        (
            lambda text: read_system(True, text),
            "knobs=[thread]",
            "--system-options 'knobs=[thread]': knobs=[thread] is neither a Python literal nor a word. ",
        ),
        (
            lambda text: read_system(True, text),
            "knobs=['thread']",
            "--system-options \"knobs=['thread']\": There is no",
        ),
        (
            lambda text: read_system(True, text),
            "objektive=time",
            "--system-options 'objektive=time': system= got 'objektive', which etude.System does not know.",
        ),
        (read_budget, "1,x", "--budget '1,x' gives no two numbers. "),
        (read_budget, "True,2", "--budget 'True,2' gives no two numbers. "),
    ],
)
def test_what_cannot_be_read_is_refused(read: Callable[[str], Any], text: str, message: str) -> None:
    with pytest.raises(ConfigError, match="^" + re.escape(message)):
        read(text)


def test_a_short_name_takes_no_options() -> None:
    class Short(Registry[Any]):
        def make(self, name: str) -> Any:
            return TPE(startup=2)

    registry = Short("sampler", {"tpe": TPE})
    assert made_of("two", registry, lead="--sampler ") == TPE(startup=2)
    with pytest.raises(ConfigError) as refused:
        made_of("two(startup=3)", registry, lead="--sampler ")
    assert str(refused.value) == (
        "--sampler 'two(startup=3)': two is short for TPE(startup=2), and takes no options. Write that instead, with "
        "the options that you want."
    )


def test_a_configuration_is_read_as_people_write_it() -> None:
    text = "lr=1e-3, optimizer=sgd optimizer.momentum = 0.9 layers=(8, 8) note='a = b, c=d' size=None on=True"
    assert read_start(text) == {
        "lr": 1e-3,
        "optimizer": "sgd",
        "optimizer.momentum": 0.9,
        "layers": (8, 8),
        "note": "a = b, c=d",
        "size": None,
        "on": True,
    }


NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,5}(\.[a-z]{1,3})?", fullmatch=True)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(NAMES, SCALARS | st.lists(SCALARS, max_size=3), min_size=1), st.sampled_from([" ", ", ", ",  "]))
def test_a_configuration_survives_being_written(params: dict[str, Any], between: str) -> None:
    assert read_start(between.join(f"{name}={value!r}" for name, value in params.items())) == params


def test_machines_are_tuned_by_a_switch_or_by_options() -> None:
    assert read_system(False, None) is None
    found = [read_system(True, None), read_system(False, "objective=energy"), read_system(True, "probes=3")]
    assert [one.as_call if one is not None else None for one in found] == [{}, {"objective": "energy"}, {"probes": 3}]


def test_a_budget_is_two_numbers() -> None:
    assert read_budget("1,27") == (1, 27)
    assert read_budget("(0.1, 1)") == (0.1, 1)


def test_how_many_workers_may_come_is_left_open_where_it_is_not_said() -> None:
    assert read_workers(None, None) is None
    assert read_workers(4, None) == 4
    assert read_workers(None, 2) == (2, None)
    assert read_workers(2, 2) == (2, 2)
    with pytest.raises(ConfigError) as refused:
        read_workers(2, 4)
    assert str(refused.value) == "--wait-for-workers 4 waits for more than --workers 2 lets run. Swap them."
