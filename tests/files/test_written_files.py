"""From what a study's journal says to a file, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import etude
from etude.core.errors import ConfigError
from etude.files.composing import read_text
from etude.files.nodes import Fields
from etude.files.source import Problems, Source
from etude.files.spaces import read_domain_of
from etude.files.writing import as_file, as_yaml
from etude.tune.spaces import Space

if TYPE_CHECKING:
    from pathlib import Path

VALUES = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.sampled_from(["no", "uniform(0, 1)", "f(x"])
LISTS = st.lists(VALUES | TEXTS | st.tuples(VALUES, TEXTS), min_size=1, max_size=4, unique_by=repr)
DOMAINS = st.one_of(
    st.builds(lambda low, more: etude.uniform(low, low + more), st.floats(-1e6, 1e6), st.floats(1e-3, 1e6)),
    st.builds(lambda low, times: etude.loguniform(low, low * times), st.floats(1e-9, 1.0), st.floats(1.5, 1e6)),
    st.builds(lambda low, more: etude.integers(low, low + more), st.integers(-50, 50), st.integers(1, 100)),
    st.builds(etude.choice, LISTS),
    st.builds(lambda values: etude.choice({value: {"inner": etude.uniform(0, 1)} for value in values}), LISTS),
)


@given(DOMAINS)
def test_a_space_is_read_again_as_it_was_written(domain: Any) -> None:
    from pathlib import Path

    problems = Problems()
    node = read_text(Source("it", as_yaml({"lr": domain}), Path()), problems, {})
    problems.check()
    assert isinstance(node, Fields)
    again = read_domain_of("lr", node.entries["lr"].node)
    assert repr(Space({"lr": again})) == repr(Space({"lr": domain}))


def test_nested_domains_are_read_again(tmp_path: Path) -> None:
    space = Space.of(
        {
            "lr": etude.piecewise(etude.loguniform(1e-4, 1), starts=(0, 10)),
            "epochs": etude.upto([5, 10]),
            "optimizer": etude.choice(
                {"sgd": {"momentum": etude.choice({1: {"nesterov": [True, False]}})}, "adam": {}}
            ),
            "depth": etude.ordered([2, 4]),
        }
    )
    problems = Problems()
    node = read_text(Source("it", as_yaml({"space": space}), tmp_path), problems, {})
    problems.check()
    assert isinstance(node, Fields)
    inner = node.entries["space"].node
    assert isinstance(inner, Fields)
    again = Space.of({name: read_domain_of(name, entry.node) for name, entry in inner.entries.items()})
    assert repr(again) == repr(space)


CALL = {"verb": "tune", "workers": [1, 2], "retries": 2, "trials": 6, "keep": "3,last,best", "engine": "local"}
QUESTION = {"space": Space.of({"lr": etude.uniform(0, 1)}).to_dict()}
TPE = {"name": "tpe", "startup": 3, "newest": 1000}


def test_what_is_the_default_is_left_out() -> None:
    call = {**CALL, "sampler": TPE, "stopper": None, "constraint": "script.py:rule", "seed": 0, "timeout_s": None}
    assert as_yaml(as_file(call, QUESTION, name="one")) == (
        "verb: tune\nname: one\nspace:\n  lr: uniform(0.0, 1.0)\n"
        'trials: 6\nsampler: "tpe(startup=3)"\nworkers: [1, 2]\nconstraint: rule\n'
    )


def test_the_searches_of_arms_are_written_with_their_space() -> None:
    question = {
        "verb": "ablate",
        "params": {"lr": 0.1},
        "policy": "leave_one_out",
        "retuned": {"trials": 8, "space": QUESTION["space"], "sampler": TPE, "seed": 0, "held": []},
        "asked": {"components": ["bias"], "policy": "LeaveOneOut()", "seeds": 12},
    }
    said = as_file({"verb": "ablate", "engine": "local"}, question, name="one")
    assert as_yaml(said).splitlines()[2:] == [
        "parameters:",
        "  lr: 0.1",
        "space:",
        "  lr: uniform(0.0, 1.0)",
        "components: [bias]",
        "seeds: 12",
        "retune: 8",
        'sampler: "tpe(startup=3)"',
    ]


def test_stoppers_and_ranks_are_texts() -> None:
    median = {"name": "median", "first_after": 8, "best_so_far": False, "metric": None}
    call = {**CALL, "sampler": {"name": "random"}, "stopper": [median, {"name": "divergence"}]}
    call |= {"ranks": 2, "parallel": {"type": "fsdp", "block": ["Layer"]}, "batch": "per_rank", "start": [{"lr": 0.5}]}
    said = as_file(call, QUESTION, name="one")
    assert said["sampler"] == "random"
    assert said["stopper"][0] == "median(first_after=8)"
    assert (said["ranks"], said["parallel"], said["batch"]) == (2, "FSDP(block=['Layer'])", "per_rank")
    assert "start:\n  - {lr: 0.5}\n" in as_yaml(said)


def test_how_machines_are_tuned_is_written() -> None:
    call = {**CALL, "sampler": TPE, "system": {}}
    assert "\nsystem: true\n" in as_yaml(as_file(call, QUESTION, name="one"))
    asked = {"knobs": ["threads"], "setting": None, "objective": {"time": 1.0, "energy": 2.0}, "best": "m, then time"}
    call["system"] = {name: value for name, value in asked.items() if value is not None}
    written = as_yaml(as_file(call, QUESTION, name="one"))
    assert pytest.importorskip("yaml").safe_load(written)["system"] == call["system"]


@pytest.mark.parametrize(
    ("call", "question", "why"),
    [
        (
            {"sampler": "Mine", "stopper": None},
            QUESTION,
            "Study one was started with a sampler of its own (Mine), which",
        ),
        ({"sampler": TPE, "constraint": True}, QUESTION, "Study one was started with a constraint, which no file can"),
        ({"sampler": TPE, "engine": "Own"}, QUESTION, "Study one was started with an engine with options (Own), which"),
        (
            {"sampler": TPE, "system": {"similarity": "Alike"}},
            QUESTION,
            "Study one was started with a similarity of its own (Alike), which no file can hold.",
        ),
        (
            {},
            {"verb": "compare"},
            "Study one compares partitions, which no file can hold. Run its script again instead.",
        ),
        ({}, {"verb": "fit", "weights": [{"name": "w"}]}, "Study one began with weights of other trials, which a file"),
        ({}, {"verb": "ablate", "params": {}}, "Study one was written by an earlier Étude, so that its components are"),
        (
            {},
            {"verb": "ablate", "params": {}, "asked": {"components": None}},
            "Study one takes away code of its own, so that its components are not on record.",
        ),
        (
            {},
            {
                "verb": "ablate",
                "params": {},
                "policy": "path",
                "asked": {"components": ["a"], "policy": "Path(key=<function f>)"},
            },
            "Study one has the policy Path(key=<function f>), which no file can hold.",
        ),
    ],
)
def test_what_no_text_can_hold_is_refused(call: dict[str, Any], question: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError) as refused:
        as_file({"sampler": None, **call}, question, name="one")
    assert str(refused.value).startswith(why)
