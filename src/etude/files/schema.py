"""A JSON Schema of the files for one experiment: editors complete keys by it, and mark what cannot be.

It is weaker than the reader, never stricter: what ``etude run`` takes, it takes as well. Draft 7 is what editors know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from etude.core.signature import MISSING, Kind, Parameter
from etude.files.keys import FREE, VERBS, Key, groups_of, keys
from etude.files.values import is_by_type
from etude.system.asked import PROBING
from etude.system.knobs import NAMES
from etude.system.objective import OBJECTIVES
from etude.tune.samplers import SAMPLERS
from etude.tune.spaces import CALLS
from etude.tune.stop import STOPPERS

if TYPE_CHECKING:
    from etude.experiment import Experiment

DRAFT: Final = "http://json-schema.org/draft-07/schema#"
VARIABLE: Final = {"type": "string", "pattern": r"\$\{"}
"""What stands for any value: an environment variable."""

NOTHING: Final = {"type": "null"}
TEXT: Final = {"type": "string"}
TEXTS: Final = {"anyOf": [TEXT, {"type": "array", "items": TEXT}, NOTHING]}


def _system() -> dict[str, Any]:
    """Return what ``etude.System`` may be given."""
    one = {"anyOf": [{"enum": list(NAMES)}, TEXT]}  # the names are for completion
    return {
        "type": "object",
        "properties": {
            "knobs": {"anyOf": [{"type": "array", "items": one}, VARIABLE, NOTHING]},
            "objective": {"anyOf": [{"enum": list(OBJECTIVES)}, {"type": "object"}, TEXT]},
            "probing": {"anyOf": [{"enum": list(PROBING)}, VARIABLE]},
            "probes": {"type": ["integer", "string", "null"]},
            "similarity": TEXT,
            "history": {"type": ["string", "boolean", "null"]},
            "ledger": {"type": ["string", "boolean", "null"]},
            "power_meter": TEXT,
            "setting": {"type": ["object", "null"]},
            "best": TEXT,
            "within": {"type": ["number", "string"]},
        },
        "additionalProperties": False,
    }


READ_OTHERWISE: Final[Mapping[str, dict[str, Any]]] = {
    "workers": {"anyOf": [{"type": "integer"}, {"type": "array", "maxItems": 2}, VARIABLE, NOTHING]},
    "start": {"anyOf": [{"type": "array", "items": {"type": "object"}}, NOTHING]},
    "seeds": {
        "anyOf": [
            {"type": "integer"},
            {"type": "array", "items": {"type": "integer"}},
            {"type": "string", "pattern": r"^until[ _]decided|\$\{"},
            NOTHING,
        ]
    },
    "components": TEXTS,
    "reuse": TEXTS,
    "resources": {"type": ["string", "object", "null"]},
    "at": {"type": ["string", "object", "null"]},
    "weights": {"type": ["string", "object", "null"]},
    "keep": {"type": ["string", "integer", "null"]},
    "system": {"anyOf": [{"type": "boolean"}, _system(), VARIABLE, NOTHING]},
}
"""What stands behind keys that a type does not tell all about; behind the others a text."""


def schema_of(experiment: Experiment) -> dict[str, Any]:
    """Return the JSON Schema of files for an experiment."""
    parameters = {name: p for name, p in experiment.signature.parameters.items() if p.kind is not Kind.DERIVED}
    groups = groups_of(experiment)
    is_open = bool(experiment.signature.open)
    told: dict[str, Any] = {name: _of_key(key) for name, key in keys().items()}
    told["verb"] |= {"enum": list(VERBS)}
    told["experiment"] |= {"type": "string", "pattern": r"\.py(:\w+)?$|\$\{"}
    told["parameters"] |= _fields({name: _value(p) for name, p in parameters.items()}, groups, is_open)
    searched = {name: _domain(p) for name, p in parameters.items() if p.kind is Kind.STATEFUL}
    fixed = {name: _value(p) for name, p in parameters.items() if p.kind is Kind.STATELESS}
    told["space"] |= _fields({**searched, **fixed}, groups, is_open)
    return {
        "$schema": DRAFT,
        "title": "An experiment file for Étude",
        "type": "object",
        "properties": told,
        "patternProperties": {f"^{FREE}": {}, "^<<$": {}},
        "additionalProperties": False,
        "required": ["experiment"],
        "definitions": {"domain": _any_domain()},
    }


def _of_key(key: Key) -> dict[str, Any]:
    default = {} if key.default in (MISSING, None, ()) else {"default": key.default}
    return {"description": f"{key.says} (of {', '.join(key.verbs)})", **default, **_type_of_key(key)}


def _type_of_key(key: Key) -> dict[str, Any]:
    if key.name in ("experiment", "verb", "parameters", "space"):
        return {}
    if key.name in ("sampler", "stopper"):
        registry = SAMPLERS if key.name == "sampler" else STOPPERS
        one = {"anyOf": [{"enum": list(registry.choices)}, TEXT]}  # the names are for completion
        return {"anyOf": [one, {"type": "array", "items": one}, NOTHING]} if key.name == "stopper" else one
    if key.name in READ_OTHERWISE:
        return READ_OTHERWISE[key.name]
    if not is_by_type(key.name):
        return {"type": ["string", "null"]}
    return {"anyOf": [_of_type(key.type), VARIABLE, NOTHING]}


def _value(parameter: Parameter) -> dict[str, Any]:
    """Return the schema of one value of a hyperparameter."""
    default = parameter.default
    plain = default is not MISSING and isinstance(default, bool | int | float | str | None)
    told = f"Of {parameter.taken_by}."
    return {
        "description": told,
        **({"default": default} if plain else {}),
        "anyOf": [_of_type(parameter.annotation), VARIABLE],
    }


def _domain(parameter: Parameter) -> dict[str, Any]:
    """Return the schema of what a hyperparameter may be: a domain, a list of values, or one value."""
    value = _value(parameter)
    listed = {"type": "array", "items": {"anyOf": value["anyOf"]}, "minItems": 1}
    return {**value, "anyOf": [{"$ref": "#/definitions/domain"}, listed, *value["anyOf"]]}


def _any_domain() -> dict[str, Any]:
    call = {"type": "string", "pattern": rf"^\s*(etude\.)?({'|'.join(CALLS)})\s*\("}
    mapping = {
        "type": "object",
        "properties": {name: {"type": ["array", "object"]} for name in CALLS},
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 1,
    }
    return {"anyOf": [call, mapping], "description": f"One of {', '.join(CALLS)}: loguniform(1e-4, 1)."}


def _fields(schemas: Mapping[str, Any], groups: frozenset[str], is_open: bool, prefix: str = "") -> dict[str, Any]:
    """Return the schema of a mapping with names; fields of a group stand below it as well as with a dot."""
    here = {name.removeprefix(prefix): schema for name, schema in schemas.items() if name.startswith(prefix)}
    inner = {
        group.removeprefix(prefix): _fields(schemas, groups, is_open, f"{group}.")
        for group in sorted(groups)
        if group.startswith(prefix) and "." not in group.removeprefix(prefix)
    }
    return {"type": ["object", "null"], "properties": {**here, **inner}, "additionalProperties": is_open}


def _of_type(annotation: Any) -> dict[str, Any]:
    """Return the schema of a type; of what none can be made of, anything."""
    try:
        (schema,), components = msgspec.json.schema_components([annotation], ref_template="{name}")
    except (TypeError, msgspec.ValidationError):
        return {}
    if components and (schema := _inlined(schema, components)) is None:
        return {}
    return {name: value for name, value in _as_draft_7(schema).items() if name not in ("title", "description")}


def _inlined(schema: Any, components: Mapping[str, Any]) -> Any:
    """Return a schema with what it refers to in place, such as an enum; None if that goes deeper."""
    text = msgspec.json.encode(schema).decode()
    for name, component in components.items():
        text = text.replace(f'{{"$ref":"{name}"}}', msgspec.json.encode(component).decode())
    return None if '"$ref"' in text else msgspec.json.decode(text)


def _as_draft_7(schema: Any) -> Any:
    """Return a schema with tuples as draft 7 has them."""
    if isinstance(schema, list):
        return [_as_draft_7(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {name: _as_draft_7(value) for name, value in schema.items()}
    if "prefixItems" in inner:
        more = inner.pop("items", True)
        inner |= {"items": inner.pop("prefixItems"), "additionalItems": more}
    return inner
