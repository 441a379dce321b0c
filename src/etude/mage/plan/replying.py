"""Plans that a language model makes of hints, documents and code: what it may answer, and what of an answer is taken.

Each item has to quote the line that it came from, letter for letter: of a hint, of a document, or of the code that
names what goes. It may name only what is there. The names are looked up and the claims are made here, as for a hint
that was read without a model: a model says what is meant, and never by what it is known to be done.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from msgspec import structs

from etude.core.errors import ConfigError
from etude.mage.annotations import Annotation, Mark, Remark
from etude.mage.facts import Facts
from etude.mage.plan.hinted import variants_of_items
from etude.mage.plan.hints import Item, Wish
from etude.mage.plan.pairs import unique
from etude.mage.plan.planning import check_choices, routed
from etude.mage.plan.things import look_at
from etude.mage.sources.entry import entry_file
from etude.mage.tree import Tree
from etude.mage.variants import Plan, Variant

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
            "quote": {
                "type": "string",
                "description": "the line that it rests on, letter for letter: of a hint, a document or the code",
            },
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
    docs: Mapping[str, str] | None = None,
    facts: Facts | None = None,
    choices: Mapping[str, str] | None = None,
) -> Plan:
    """Return the plan that a model made.

    Args:
        text: Its answer: JSON as ``schema`` says, bare or in one fence.
        tree: The project's files.
        annotations: Its marks; only hints are looked at.
        entry: How it is run.
        columns: The columns of its data.
        docs: Documents that the model was shown: name -> text.
        facts: What was seen of it untouched.
        choices: As of ``planning.plan``.

    Raises:
        ConfigError: It is no such JSON, quotes what nobody says, or names what is not there. All of it is said.
    """
    places = [*_hints(annotations), *_documents(docs or {}), *_code(tree)]
    wrong: list[str] = []
    by_place: dict[int, list[Item]] = {}
    for number, row in enumerate(_rows(text), start=1):
        found = next(((at, line) for at, place in enumerate(places) if (line := place.line_of(row)) is not None), None)
        if found is None:
            wrong.append(f"item {number} quotes {row['quote']!r}, which is no line of a hint{_or_else(row, docs)}")
            continue
        at, line = found
        by_place.setdefault(at, []).append(_item(row, number, *line))
    project = look_at(tree, entry=entry, columns=columns, facts=facts)
    variants, remarks = [], list[Remark]()
    for at, items in by_place.items():
        made, said, refused = variants_of_items(project, places[at].annotation, items, choices or {})
        if refused:
            wrong += [str(one) for one in said]
            continue
        variants += [places[at].told(one, entry_file(entry, tree)) for one in made] if entry else made
        remarks += said
    if wrong:
        raise ConfigError(
            f"The plan that came back cannot be taken: {'; '.join(wrong)}. Nothing was planned. Each item has to quote "
            "a line of a hint, a document or the code, and may name only what is there."
        )
    return Plan(
        base=tree.digest,
        entry=entry,
        variants=tuple(routed(one, tree, facts) for one in unique(variants)),
        remarks=tuple(remarks),
    )


def joined(marked: Plan, drafted: Plan, *, choices: Mapping[str, str]) -> Plan:
    """Return one plan of the variants that marks ask for, and those that a model has read; what both want is once.

    Raises:
        ConfigError: A choice names nothing in either.
    """
    known = {_what_goes(one) for one in marked.variants}
    variants = [*marked.variants, *(one for one in drafted.variants if _what_goes(one) not in known)]
    check_choices(choices, variants)
    return structs.replace(drafted, variants=tuple(unique(variants)), remarks=(*marked.remarks, *drafted.remarks))


def _what_goes(variant: Variant) -> object:
    return variant.name, tuple(sorted(thing.name for thing in variant.things))


@dataclass(frozen=True)
class _Place:
    """Something whose lines may be quoted.

    Attributes:
        annotation: Stands for it: which file, and where.
        lines: Number and text.
        is_code: Whether it is code: then a line has to name what goes, since any line of it does something.
        is_document: Whether it is no file of the project.
    """

    annotation: Annotation
    lines: Sequence[tuple[int, str]]
    is_code: bool = False
    is_document: bool = False

    def line_of(self, row: Mapping[str, Any]) -> tuple[int, str] | None:
        """Return the line that an item quotes, and its number; None if there is none."""
        quote = row["quote"]
        if self.is_code and not any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", quote) for name in _named(row)):
            return None
        for number, line in self.lines:
            if quote.strip() == line.strip() or (not self.is_code and _bare(quote) == _bare(line) != ""):
                return number, line.strip()
        return None

    def told(self, variant: Variant, entry: str) -> Variant:
        """Return a variant with where its quote stands, and with places that are in the project."""
        if not (self.is_code or self.is_document):
            return variant
        quote = f"{variant.quote}  ({self.annotation.file})"
        if self.is_code:
            return structs.replace(variant, quote=quote)
        things = tuple(
            structs.replace(one, declared=next(iter(one.used), (entry, 1)))
            if one.declared[0] == self.annotation.file
            else one
            for one in variant.things
        )
        files = tuple(file for file in variant.files if file != self.annotation.file) or (entry,)
        return structs.replace(variant, things=things, files=files, quote=quote)


def _hints(annotations: Sequence[Annotation]) -> list[_Place]:
    hints = [one for one in annotations if one.mark is Mark.HINT]
    return [_Place(one, list(enumerate(one.text.split("\n"), start=one.lines[0] + 1))) for one in hints]


def _documents(docs: Mapping[str, str]) -> list[_Place]:
    found = []
    for name, text in docs.items():
        lines = [(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
        # a name of its own: a document may be called as a file of the project is
        annotation = Annotation(mark=Mark.HINT, file=f"document {name}", lines=(1, max(len(lines), 1)))
        found.append(_Place(annotation, lines, is_document=True))
    return found


def _code(tree: Tree) -> list[_Place]:
    """Return each line of Python as a place of its own: what stands around it says what it is about."""
    return [
        _Place(Annotation(mark=Mark.HINT, file=path, lines=(number, number), text=line), [(number, line)], is_code=True)
        for path in tree
        if path.endswith(".py")
        for number, line in enumerate(tree.files[path].decode("utf-8", "replace").splitlines(), start=1)
        if line.strip()
    ]


def _named(row: Mapping[str, Any]) -> list[str]:
    return [*row["names"], *(one["name"] for one in (*row["sizes"], *row["values"]))]


def _or_else(row: Mapping[str, Any], docs: Mapping[str, str] | None) -> str:
    """Return where else a quote was looked for."""
    names = ", ".join(_named(row))
    return f"{' or a document' if docs else ''}{f', nor one of the code that names {names}' if names else ''}"


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


def _bare(line: str) -> str:
    """Return a line without its comment sign and bullet."""
    return re.sub(r"^\s*(?:#+\s*)?(?:(?:[-*+]|\(?\w{1,3}[.)])\s+)?", "", line).strip()


def _item(row: Mapping[str, Any], number: int, line: int, quoted: str) -> Item:
    item = Item(text=_bare(quoted), line=line, number=number, kind=Wish(row["wish"]))
    return structs.replace(
        item,
        names=tuple(row["names"]),
        sizes=tuple((one["name"], one["outputs"]) for one in row["sizes"]),
        values=tuple((one["name"], one["value"]) for one in row["values"]),
        each=row["each"],
    )
