"""One rule for calls that look alike, in training and in evaluation."""

from __future__ import annotations

from typing import Any

import msgspec

from etude.frameworks.removal.edits import CallRule, Fill, Rule, Same


def merged(one: CallRule, two: CallRule) -> CallRule | None:
    """Return one rule for two calls; None if they want different things.

    Dropout passes its input through in evaluation, and gives a new tensor in training: a copy does for both.
    """
    if one.form != two.form or len(one.rules) != len(two.rules):
        return None
    rules = [_merged(a, b) for a, b in zip(one.rules, two.rules, strict=True)]
    if any(rule is None for rule in rules):
        return None
    return msgspec.structs.replace(one, rules=tuple(rules))


def for_both(evaluation: dict[Any, CallRule], training: dict[Any, CallRule]) -> tuple[CallRule, ...]:
    """Return the rules for calls in both modes, as few as say it."""
    found: list[CallRule] = []
    for shapes in dict.fromkeys([*evaluation, *training]):
        one, two = evaluation.get(shapes), training.get(shapes)
        if one is None or two is None:
            found.append(one or two)  # type: ignore[arg-type]
        elif (same := merged(one, two)) is not None:
            found.append(same)
        else:
            found.append(msgspec.structs.replace(one, training=False))
            found.append(msgspec.structs.replace(two, training=True))
    if all(rule.training is None and rule.rules == found[0].rules and rule.form == found[0].form for rule in found):
        return tuple(found[:1])
    return tuple(found)


def _merged(one: Rule, two: Rule) -> Rule | None:
    if one == two:
        return one
    if isinstance(one, Same) and isinstance(two, Same) and one.source == two.source:
        return Same(one.source, clone=True)
    unused = [rule for rule in (one, two) if isinstance(rule, Fill) and rule.value == 0 and rule.unused]
    if unused:
        return two if one is unused[0] else one
    return None
