"""Plans that a language model makes of hints: what it may answer, and what of an answer is taken.

Each item has to quote the line of the hint that it came from, letter for letter, and may name only what is there. The
names are looked up and the claims are made here, as for a hint that was read without a model: a model says what is
meant, and never by what it is known to be done.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import structs

from etude.core.errors import ConfigError
from etude.mage.annotations import Annotation, Mark, Remark
from etude.mage.facts import Facts
from etude.mage.plan.hinted import variants_of_items
from etude.mage.plan.hints import Item, Wish
from etude.mage.plan.pairs import unique
from etude.mage.plan.planning import routed
from etude.mage.plan.things import look_at
from etude.mage.tree import Tree
from etude.mage.variants import Plan

MOST_ITEMS: Final = 200
KEYS: Final = ("quote", "wish", "names", "sizes", "values", "each")


def schema() -> dict[str, Any]:
    """Return the JSON Schema of an answer: every property is required, as strict services want it."""
    texts = {"type": "array", "items": {"type": "string"}}

    def rows(key: str, kind: str) -> dict[str, Any]:
        properties = {"name": {"type": "string"}, key: {"type": kind}}
        return {"type": "array", "items": _object(properties)}

    wishes = [wish.value for wish in Wish if wish is not Wish.OTHER]
    item = _object(
        {
            "quote": {"type": "string", "description": "the line of the hint that asks for it, letter for letter"},
            "wish": {"type": "string", "enum": wishes},
            "names": {**texts, "description": "what is removed, or paired: names that stand in the code or the data"},
            "sizes": rows("outputs", "integer"),
            "values": rows("value", "string"),
            "each": {"type": "boolean", "description": "one variant for each name, not one for all of them"},
        }
    )
    return _object({"items": {"type": "array", "items": item}})


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def from_reply(
    text: str,
    tree: Tree,
    annotations: Sequence[Annotation],
    *,
    entry: str = "",
    columns: Sequence[str] = (),
    facts: Facts | None = None,
    choices: Mapping[str, str] | None = None,
) -> Plan:
    """Return the plan that a model made of hints.

    Args:
        text: Its answer: JSON as ``schema`` says, bare or in one fence.
        tree: The project's files.
        annotations: Its marks; only hints are looked at.
        entry: How it is run.
        columns: The columns of its data.
        facts: What was seen of it untouched.
        choices: As of ``planning.plan``.

    Raises:
        ConfigError: It is no such JSON, quotes what no hint says, or names what is not there. All of it is said.
    """
    hints = [one for one in annotations if one.mark is Mark.HINT]
    rows = _rows(text)
    wrong: list[str] = []
    by_hint: dict[int, list[Item]] = {}
    for number, row in enumerate(rows, start=1):
        found = _found(row["quote"], hints)
        if found is None:
            wrong.append(f"item {number} quotes {row['quote']!r}, which is no line of a hint")
            continue
        at, line, quoted = found
        by_hint.setdefault(at, []).append(_item(row, number, line, quoted))
    project = look_at(tree, entry=entry, columns=columns, facts=facts)
    variants, remarks = [], list[Remark]()
    for at, items in by_hint.items():
        made, said, refused = variants_of_items(project, hints[at], items, choices or {})
        if refused:
            wrong += [str(one) for one in said]
            continue
        variants += made
        remarks += said
    if wrong:
        raise ConfigError(
            f"The plan that came back cannot be taken: {'; '.join(wrong)}. Nothing was planned. Each item has to quote "
            "a line of a hint and may name only what is there."
        )
    return Plan(
        base=tree.digest,
        entry=entry,
        variants=tuple(routed(one, tree, facts) for one in unique(variants)),
        remarks=tuple(remarks),
    )


def _rows(text: str) -> list[dict[str, Any]]:
    fenced = re.findall(r"^(`{3,})(?:json)?[ \t]*\n(.*?)^\1[ \t]*$", text, re.DOTALL | re.MULTILINE)
    if len(fenced) > 1:
        raise ConfigError("The plan that came back has several fences, and it has to be one JSON object. Ask again.")
    try:
        said = json.loads(fenced[0][1] if fenced else text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"The plan that came back is no JSON: {error}. Nothing was planned. Ask again.") from None
    rows = said.get("items") if isinstance(said, dict) else None
    if not isinstance(rows, list) or len(rows) > MOST_ITEMS:
        raise ConfigError(f'The plan that came back has no list "items" of at most {MOST_ITEMS}. Nothing was planned.')
    for number, row in enumerate(rows, start=1):
        if why := _wrong_row(row):
            raise ConfigError(f"Item {number} of the plan that came back {why}. Nothing was planned. Ask again.")
    return rows


def _wrong_row(row: object) -> str:  # noqa: PLR0911 - one for each mistake
    if not isinstance(row, dict):
        return "is no object"
    if unknown := sorted(set(row) - set(KEYS)):
        return f"has {unknown[0]!r}, which is not in the schema"
    if missing := [key for key in KEYS if key not in row]:
        return f"lacks {missing[0]!r}"
    wishes = [wish.value for wish in Wish if wish is not Wish.OTHER]
    if not isinstance(row["quote"], str) or not row["quote"].strip():
        return "has no quote"
    if row["wish"] not in wishes:
        return f"has the wish {row['wish']!r}; there are {', '.join(wishes)}"
    if not isinstance(row["names"], list) or not all(isinstance(name, str) for name in row["names"]):
        return "has names that are no list of texts"
    if not isinstance(row["each"], bool):
        return "has an 'each' that is neither true nor false"
    for key, inner, kind in (("sizes", "outputs", int), ("values", "value", str)):
        if not isinstance(row[key], list) or not all(
            isinstance(one, dict)
            and set(one) == {"name", inner}
            and isinstance(one["name"], str)
            and type(one[inner]) is kind
            for one in row[key]
        ):
            return f"has {key} that are not as the schema says"
    return ""


def _found(quote: str, hints: Sequence[Annotation]) -> tuple[int, int, str] | None:
    """Return the hint that has a line with some text, the line's number, and the line."""
    for at, hint in enumerate(hints):
        for n, line in enumerate(hint.text.split("\n")):
            if quote.strip() == line.strip() or _bare(quote) == _bare(line) != "":
                return at, hint.lines[0] + 1 + n, line.strip()
    return None


def _bare(line: str) -> str:
    """Return a line without its bullet."""
    return re.sub(r"^\s*(?:[-*+]|\(?\w{1,3}[.)])\s+", "", line).strip()


def _item(row: Mapping[str, Any], number: int, line: int, quoted: str) -> Item:
    item = Item(text=_bare(quoted), line=line, number=number, kind=Wish(row["wish"]))
    return structs.replace(
        item,
        names=tuple(row["names"]),
        sizes=tuple((one["name"], one["outputs"]) for one in row["sizes"]),
        values=tuple((one["name"], one["value"]) for one in row["values"]),
        each=row["each"],
    )
