"""The JSON Schema of files for an experiment: what can be read is valid, and plain mistakes are not."""

from __future__ import annotations

import sys
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pytest
from test_reading_files import ALL, SPACES

from etude.files import scripts
from etude.files.keys import keys
from etude.files.schema import schema_of
from etude.system.asked import System

if TYPE_CHECKING:
    from .conftest import Files

jsonschema = pytest.importorskip("jsonschema")
yaml = pytest.importorskip("yaml")

HEAD = "experiment: script.py:experiment\nverb: tune\n"


@pytest.fixture
def validator(files: Files) -> Any:
    experiment, _ = scripts.load("script.py:experiment")
    sys.modules.pop("script", None)
    schema = schema_of(experiment)
    jsonschema.Draft7Validator.check_schema(schema)
    return jsonschema.Draft7Validator(schema)


def test_it_has_every_key_with_a_word_of_help(validator: Any) -> None:
    told = validator.schema["properties"]
    assert set(told) == set(keys())
    assert all(one["description"] for one in told.values())
    assert told["sampler"]["default"] == "tpe"
    assert told["parameters"]["properties"]["width"]["default"] == 64


@pytest.mark.parametrize("text", [ALL, ALL.replace("tune", "run"), f"{HEAD}space: {{optimizer: {{lr: '${{LR}}'}}}}\n"])
def test_what_can_be_read_is_valid(validator: Any, text: str) -> None:
    assert [error.message for error in validator.iter_errors(yaml.safe_load(text))] == []


@pytest.mark.parametrize(
    "system", ["true", "{knobs: [threads], objective: {time: 1}, history: false, setting: {threads: 1}}", "null"]
)
def test_how_machines_are_tuned_is_valid(validator: Any, system: str) -> None:
    assert [error.message for error in validator.iter_errors(yaml.safe_load(f"{HEAD}system: {system}\n"))] == []


def test_every_option_of_machines_is_known(validator: Any) -> None:
    told = validator.schema["properties"]["system"]["anyOf"][1]["properties"]
    assert set(told) == {one.name for one in fields(System)}
    assert "loader_workers" in told["knobs"]["anyOf"][0]["items"]["anyOf"][0]["enum"]


@pytest.mark.parametrize("domain", SPACES)
def test_spaces_are_valid(validator: Any, domain: str) -> None:
    if "null" in domain or "[[" in domain or "a)" in domain or "choice: {" in domain:
        pytest.skip("its values are none of a number's")
    if "1e-4" in domain and "(" not in domain:
        pytest.skip("a number of YAML 1.2 only")
    text = f"{HEAD}space:\n  optimizer.lr: {domain}\n"
    assert [error.message for error in validator.iter_errors(yaml.safe_load(text))] == []


@pytest.mark.parametrize(
    "text",
    [
        "trails: 3\n",
        "trials: many\n",
        "parameters: {widht: 3}\n",
        "parameters: {width: wide}\n",
        "parameters: {optimizer: {name: rmsprop}}\n",
        "space: {width: [a, b]}\n",
        "space: {width: {integer: [1, 2]}}\n",
        "space: {folder: [a, b]}\n",
        "seed: 1.5\n",
        "on_refusal: test\n",
        "system: 3\n",
        "system: {objektive: time}\n",
    ],
)
def test_plain_mistakes_are_marked(validator: Any, text: str) -> None:
    assert list(validator.iter_errors(yaml.safe_load(HEAD + text)))
