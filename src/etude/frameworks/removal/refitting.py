"""Adapters that were made before something in front of them went: they are made anew for what reaches them in the end.

Several modules go one after the other, the last one first. What is put in its place is made for the width that reaches
it then, and that may be gone with the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from etude.frameworks.removal.edits import CallRule, Fit, Rule, Same, StandIn
from etude.frameworks.removal.nested import at
from etude.frameworks.removal.shaping import CHANNELS
from etude.frameworks.removal.trace import Call
from etude.frameworks.removal.words import moves


def refitted(edit: StandIn, calls: Iterable[Call]) -> tuple[StandIn, dict[str, str]]:
    """Return a stand-in whose adapters are for the widths that reach it now.

    An adapter that gets the width that it is to give, and moves no positions, becomes the identity.

    Args:
        edit: The stand-in.
        calls: Its calls, in the model without all that goes.

    Returns:
        It, and what was said of its channels -> what is to be said now.
    """
    inputs = next((call.given for call in calls), None)
    if inputs is None or len(edit.calls) != 1:
        return edit, {}
    [call] = edit.calls
    before = {path: (0, *shape) for path, shape in call.shapes}
    rules: list[Rule] = []
    learned = {name: (n_in, n_out) for name, n_in, n_out in edit.learned}
    said: dict[str, str] = {}
    for rule in call.rules:
        if not isinstance(rule, Fit) or len(rule.sources) != 1 or not (rule.learned or rule.channels):
            rules.append(rule)
            continue
        source = rule.sources[0]
        was, here = (source.axes.width_in(shape) for shape in (before[source.path], at(inputs, source.path).shape))
        there = learned[rule.learned][1] if rule.learned else rule.dims[rule.axes.width].size
        if here == was or rule.axes.batch == rule.axes.width:
            rules.append(rule)
            continue
        now = msgspec.structs.replace(rule, learned="", channels="")
        is_same = here == there and not moves(now)
        if rule.channels:
            how = "zeros" if rule.channels == "zeros" and here < there else "averaged" if here > there else "again"
            now = msgspec.structs.replace(now, channels="" if here == there else how)
            old = CHANNELS[rule.channels].format(here=was, there=there)
            said[old] = CHANNELS[how].format(here=here, there=there) if now.channels else ""
        elif here != there:
            now = msgspec.structs.replace(now, learned=rule.learned)
        learned |= {rule.learned: (here, there)} if now.learned else {}
        rules.append(Same(source.path) if is_same else now)
    kept = {rule.learned for rule in rules if isinstance(rule, Fit)}
    dense = tuple((name, *sizes) for name, sizes in learned.items() if name in kept)
    made = CallRule(call.shapes, tuple(rules), call.form, call.training)
    return StandIn(edit.path, (made,), dense), said


def said_of(word: str, path: str, said: Mapping[str, str], *, is_same: bool) -> str:
    """Return what is said of a stand-in now; words about others stay.

    Args:
        word: What was said before.
        path: Of the stand-in.
        said: What was said of its channels -> what is to be said now.
        is_same: Whether what goes in comes out now.

    Example:
        >>> said_of("a removed (what went in comes out, its 9 channels averaged to 3)", "a", {}, is_same=True)
        'a removed'
    """
    if not word.startswith((f"{path} removed (", f"{path} after it removed (")):
        return word
    for old, new in said.items():
        word = word.replace(old if new else f", {old}", new)
    return word.partition(" (")[0] if is_same else word


def is_fixed(edit: StandIn) -> bool:
    """Say whether a stand-in was made for a certain width that reaches it."""
    rules = [rule for call in edit.calls for rule in call.rules]
    return any(isinstance(rule, Fit) and (rule.learned or rule.channels) for rule in rules)
