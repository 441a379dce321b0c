"""Which parameter is trained with what: each stays in a group of the optimizer that has the same values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from etude.mage.facts import Facts, ModelFacts, ParameterFacts
from etude.mage.judge.comparing import listed, same, shown
from etude.mage.judge.findings import Finding, fails, for_a_person
from etude.mage.judge.licence import Licence
from etude.mage.judge.tables import Pair

CLAIM: Final = "each parameter is trained as it was"


def grouping(pairs: tuple[Pair, ...], base: Facts, facts: Facts, licence: Licence) -> Iterator[Finding]:
    """Yield which parameters went to a group with other values; values that changed for a whole group are no matter.

    Args:
        pairs: The models of both.
        base: What was seen of the baseline.
        facts: What was seen of the variant.
        licence: What its claims allow.
    """
    if "optimizers" in licence.free:
        return
    found: dict[tuple[str, str], list[str]] = {}
    for pair in pairs:
        if not (_is_known(pair.base) and _is_known(pair.variant)):
            continue
        for name, before in pair.base.parameters.items():
            after = pair.variant.parameters.get(name)
            if after is None or before.group == after.group or licence.is_about(name):
                continue
            for how in _differing(_group(before, base), _group(after, facts), licence):
                found.setdefault(how, []).append(name)
    for (now, then), names in found.items():
        yield (for_a_person if licence.settings else fails)(
            f"{listed(names)} {'is' if len(names) == 1 else 'are'} trained {now}, {then} in the baseline, and no claim "
            "says so.",
            claim=CLAIM,
            expected=then,
            found=now,
        )


def _is_known(model: ModelFacts) -> bool:
    return any(row.group is not None for row in model.parameters.values())


def _group(row: ParameterFacts, facts: Facts) -> Mapping[str, Any] | None:
    nth, number = row.group if row.group is not None else (-1, -1)
    groups = facts.optimizers[nth] if 0 <= nth < len(facts.optimizers) else ()
    return groups[number] if 0 <= number < len(groups) else None


def _differing(
    before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, licence: Licence
) -> Iterator[tuple[str, str]]:
    """Yield how a parameter is trained, and how it was."""
    if before is None or after is None:
        if before is not after:
            yield ("by no optimizer", "by one") if after is None else ("by an optimizer", "by none")
        return
    for key in [*before, *(key for key in after if key not in before)]:
        then, now = before.get(key), after.get(key)
        if not (same(then, now) or key in licence.groups or licence.explained(then, now)):
            yield f"with `{key}` {shown(now)}", shown(then)
