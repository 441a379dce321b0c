"""Reads lists in plain words: what each item of a hint wants to be removed, in pairs, or made smaller.

No model is asked. An item says what goes by names, in quotes, in backticks or between commas, or by places, such as
"the second layer". What cannot be read this way is told as such; it is never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum

from etude.mage.annotations import Annotation
from etude.mage.plan.wording import (
    ALONE_TOO,
    BULLET,
    CLAUSES,
    EACH,
    LAYER_NUMBER,
    LAYERS,
    NAME,
    OTHERWISE,
    PAIRS,
    PLACE,
    PROSE,
    QUOTED,
    REMOVES,
    SETS,
    SIZE,
    WORDS_OF_PLACES,
)
from etude.mage.values import Value


class Wish(StrEnum):
    """What an item wants."""

    REMOVE = "remove"
    PAIRS = "pairs"
    RESIZE = "resize"
    SET = "set"
    OTHER = "other"
    """It cannot be read."""


class Item(Value, frozen=True):
    """An item of a hint.

    Attributes:
        text: What it says, on one line.
        line: Where it begins in its file, from 1.
        names: What it names: columns, modules, functions, settings.
        kind: What it wants.
        number: Which item it is, from 1.
        places: Layers that go, by their place from 1; -1 is the last one.
        sizes: Layers whose size is to be another, by place (``"1"``) or name, and their number of outputs.
        values: Settings, and the text of what they are to be.
        each: Whether the names are removed one at a time, not together.
        pairs: Whether pairs of them are wanted, too.
        maybe: Words that may be names.
        about: What the heading above it says.
    """

    text: str
    line: int
    names: tuple[str, ...] = ()
    kind: Wish = Wish.OTHER
    number: int = 0
    places: tuple[int, ...] = ()
    sizes: tuple[tuple[str, int], ...] = ()
    values: tuple[tuple[str, str], ...] = ()
    each: bool = False
    pairs: bool = False
    maybe: tuple[str, ...] = ()
    about: str = ""


def items_of(annotation: Annotation) -> tuple[Item, ...]:
    """Return the items of a hint.

    Items are what stands behind bullets or numbers, however deep; a heading above them says what is to be done with
    names that stand alone. A hint without any bullet has an item on each line.

    Args:
        annotation: A hint. Its text has a line for each line of its file between the marks.
    """
    found = []
    for n, (line, text, heading) in enumerate(_lines(annotation), start=1):
        found.append(_item(text, annotation.lines[0] + 1 + line, n, heading))
    return tuple(found)


def _lines(annotation: Annotation) -> Iterator[tuple[int, str, str]]:
    """Yield line, text and heading of each item; lines that go on below a bullet are put together."""
    lines = annotation.text.split("\n")
    has_bullets = any(BULLET.match(line) for line in lines)
    entries: list[tuple[int, int, str, bool]] = []  # line, indentation, text, whether it is an item
    for n, line in enumerate(lines):
        if not line.strip():
            continue
        bullet = BULLET.match(line)
        depth = len(line.expandtabs(4)) - len(line.expandtabs(4).lstrip())
        if bullet is not None:
            entries.append((n, depth, bullet[2].strip(), True))
        elif not has_bullets:
            entries.append((n, depth, line.strip(), True))
        elif entries and entries[-1][3] and depth > entries[-1][1]:
            first, at, text, _ = entries[-1]
            entries[-1] = (first, at, f"{text} {line.strip()}", True)
        elif entries and not entries[-1][3]:
            first, at, text, _ = entries[-1]
            entries[-1] = (first, at, f"{text} {line.strip()}", False)
        else:
            entries.append((n, -1, line.strip(), False))
    above: list[tuple[int, str]] = []
    for nth, (n, depth, text, is_item) in enumerate(entries):
        above = [one for one in above if one[0] < depth]
        deeper = nth + 1 < len(entries) and entries[nth + 1][1] > depth and entries[nth + 1][3]
        if not is_item or (deeper and text.endswith(":")):
            above.append((depth, text))
            continue
        yield n, text, " ".join(heading for _, heading in above)
        if deeper:
            above.append((depth, text))


def _item(text: str, line: int, number: int, heading: str) -> Item:
    names: list[str] = []
    maybe: list[str] = []
    places: list[int] = []
    sizes: list[tuple[str, int]] = []
    values: list[tuple[str, str]] = []
    loose: list[int] = []  # sizes of something that another clause names
    removes = bool(REMOVES.search(text))
    for clause in CLAUSES.split(text):
        size, is_set = SIZE.search(clause), SETS.search(clause)
        if size is not None and not REMOVES.search(clause[: size.start()]):
            found = _sizes(clause, size)
            sizes += found
            loose += [int(size["a"] or size["b"])] if not found else []
        elif is_set is not None:
            values.append((is_set["a"] or is_set["b"], (is_set["av"] or is_set["bv"]).rstrip(".")))
        else:
            places += _places(clause)
            names += _names(clause)
            maybe += _words(clause)
    if loose and not removes and (names or places):
        sizes += [(target, n) for n in loose for target in (*names, *map(str, places))]
        names, places, loose = [], [], []
    pairs = bool(PAIRS.search(text))
    alone_too = bool(ALONE_TOO.search(PAIRS.sub("pairs", text.replace("one pair at a time", ""))))
    named = bool(names or places)
    if OTHERWISE.search(text) or loose:
        kind = Wish.OTHER
    elif (values or sizes) and not removes:
        kind = Wish.SET if values else Wish.RESIZE
    elif pairs and not alone_too:
        kind = Wish.PAIRS
    elif removes or named or _is_bare(text):
        kind = Wish.REMOVE
    else:
        kind = Wish.OTHER
    one_by_one = bool(EACH.search(text) or EACH.search(heading)) and kind is Wish.REMOVE
    return Item(
        text=text,
        line=line,
        names=tuple(names),
        kind=kind,
        number=number,
        places=tuple(places),
        sizes=tuple(sizes),
        values=tuple(values),
        each=one_by_one,
        pairs=pairs,
        maybe=tuple(dict.fromkeys(word for word in maybe if word not in names)),
        about=heading,
    )


def _is_bare(text: str) -> bool:
    """Say whether an item is a name and nothing else, or a few of them."""
    parts = [part.strip(" .`'\"") for part in re.split(r",|\band\b", text)]
    return all(re.fullmatch(r"[^\W\d][\w.]*[*]?", part) for part in parts if part) and any(parts)


def _names(clause: str) -> list[str]:
    """Return what is named without doubt: in quotes, or by words that no prose has."""
    quoted = [next(filter(None, found.groups())) for found in QUOTED.finditer(clause)]
    rest = QUOTED.sub(" ", clause)
    if quoted:
        return [name.strip() for one in quoted for name in re.split(r"\s*,\s*", one) if name.strip()]
    return [word for word in _candidates(rest) if _looks_like_code(word)]


def _words(clause: str) -> list[str]:
    return [word for word in _candidates(QUOTED.sub(" ", clause)) if word.lower() not in PROSE]


def _candidates(text: str) -> list[str]:
    return [found[0].rstrip(".") for found in NAME.finditer(text)]


def _looks_like_code(word: str) -> bool:
    if PLACE.fullmatch(word) or word.lower() in PROSE:
        return False
    return (
        "_" in word.strip("_")
        or word.endswith("_")
        or "." in word
        or "*" in word
        or bool(re.search(r"[a-z]\d|[a-z][A-Z]", word))
    )


def _places(clause: str) -> list[int]:
    if not LAYERS.search(clause):
        return []
    found = [(place.start(), _place(place)) for place in PLACE.finditer(clause)]
    found += [(place.start(), int(place[1])) for place in LAYER_NUMBER.finditer(clause)]
    return [place for _, place in sorted(found)]


def _place(found: re.Match[str]) -> int:
    if found["last"]:
        return -1
    return int(found["digits"]) if found["digits"] else WORDS_OF_PLACES.index(found["word"].lower()) + 1


def _sizes(clause: str, size: re.Match[str]) -> list[tuple[str, int]]:
    n = int(size["a"] or size["b"])
    if places := _places(clause):
        return [(str(place), n) for place in places]
    around = clause[: size.start()] + " " + (size["between"] or "") + " " + clause[size.end() :]
    return [(name, n) for name in _names(around) or _words(around)]
