"""All that no claim is about, beside the models and the data: optimizers, seeds, settings, steps and metrics."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

from etude.mage.facts import Facts
from etude.mage.judge.comparing import listed, same, shown
from etude.mage.judge.demanding import equal, is_part, is_without
from etude.mage.judge.feeding import rest_of_data
from etude.mage.judge.findings import Finding, alarm, fails, for_a_person
from etude.mage.judge.licence import Licence

ROUNDING: Final = 1e-7
"""So far a share lies from itself, if it was a number of 32 bits once."""
RATES: Final = ("lr", "learning_rate")


def rest_of_run(base: Facts, facts: Facts, licence: Licence, varies: frozenset[str]) -> Iterator[Finding]:
    """Yield what differs between two runs beside their models, and follows from no claim.

    Args:
        base: What was seen of the baseline.
        facts: What was seen of the variant.
        licence: What its claims allow.
        varies: In what the baseline differs from itself: nobody can demand that of a variant.
    """
    yield from _counts(base, facts, licence)
    yield from _optimizers(base, facts, licence)
    yield from rest_of_data(base, facts, licence, varies)
    yield from _seeds(base, facts, varies)
    yield from _settings(base, facts, licence, varies)
    yield from _metrics(base, facts, varies)


# --- how much of it -------------------------------------------------------------------------------


def _counts(base: Facts, facts: Facts, licence: Licence) -> Iterator[Finding]:
    if len(base.models) != len(facts.models) and "models" not in licence.free:
        yield from equal("The number of trained models", len(base.models), len(facts.models))
    if base.steps != facts.steps and "steps" not in licence.free:
        yield (for_a_person if licence.settings else fails)(
            f"The variant takes {facts.steps} optimizer steps, {base.steps} in the baseline: its training is "
            f"{'shorter' if facts.steps < base.steps else 'longer'}, and no claim says so.",
            claim="as many steps as in the baseline",
            expected=f"{base.steps} steps",
            found=f"{facts.steps} steps",
        )
    fewer = len(base.losses) - len(facts.losses)
    if (
        fewer
        and base.steps == facts.steps
        and not (licence.divides(fewer) and fewer > 0)
        and "losses" not in licence.free
    ):
        yield from equal("The number of backward passes", len(base.losses), len(facts.losses))


# --- optimizers -----------------------------------------------------------------------------------


def _optimizers(base: Facts, facts: Facts, licence: Licence) -> Iterator[Finding]:
    if "optimizers" in licence.free:
        return
    if len(base.optimizers) != len(facts.optimizers):
        yield from equal("The number of optimizers", len(base.optimizers), len(facts.optimizers))
        return
    for before, after in zip(base.optimizers, facts.optimizers, strict=True):
        if len(before) == len(after):
            for nth, (one, other) in enumerate(zip(before, after, strict=True)):
                yield from _group(nth, one, other, licence)
        elif 0 < len(after) < len(before) and licence.gone and is_part(after, before):
            yield alarm(
                f"The optimizer has {len(after)} groups of parameters, {len(before)} in the baseline; those that are "
                "left are equal."
            )
        else:
            yield from equal("The number of groups of parameters", len(before), len(after))
    yield from _rates(base, facts, licence)
    if not same(base.scheduled, facts.scheduled) and "scheduled" not in licence.free:
        fewer = is_part(facts.scheduled, base.scheduled)
        gone = [name for name in base.scheduled if name not in facts.scheduled]
        if fewer and any(_schedules(name, gone) for name in licence.calls):
            yield alarm(f"{listed(gone)} is not made any more.")
        else:
            weigh = for_a_person if licence.settings and fewer else fails
            yield from equal("The schedulers", base.scheduled, facts.scheduled, weigh)


def _rates(base: Facts, facts: Facts, licence: Licence) -> Iterator[Finding]:
    """Yield whether the learning rate takes another course."""
    known = licence.groups & set(RATES) or "rates" in licence.free or any("sched" in name for name in licence.calls)
    if known or not base.rates or not facts.rates:
        return
    for step, (one, other) in enumerate(zip(base.rates, facts.rates, strict=False), start=1):
        if not same(one, other) and not licence.explained(one, other):
            adapts = any("Plateau" in name for name in base.scheduled)  # it follows the losses, which are others
            yield (for_a_person if adapts or licence.settings else fails)(
                f"The learning rate of step {step} is {shown(other)}, {shown(one)} in the baseline, and no claim says "
                "so.",
                claim="the learning rate as in the baseline",
                expected=shown(one),
                found=shown(other),
            )
            return


def _schedules(name: str, gone: Sequence[str]) -> bool:
    return "sched" in name.lower() or any(one.rpartition(".")[2] in name for one in gone)


def _group(nth: int, before: Mapping[str, Any], after: Mapping[str, Any], licence: Licence) -> Iterator[Finding]:
    unscheduled = "initial_lr" in before and "initial_lr" not in after and _schedules_go(licence)
    for key in [*before, *(key for key in after if key not in before)]:
        one, other = before.get("initial_lr" if unscheduled and key in RATES else key), after.get(key)
        if same(one, other) or key in licence.groups or licence.explained(one, other):
            continue
        name = "learning rate" if key in RATES else f"`{key}` of the optimizer"
        where = f" (group {nth})" if nth else ""
        if key == "initial_lr" and None in (one, other) and _schedules_go(licence):
            continue
        yield (for_a_person if licence.settings and key not in RATES else fails)(
            f"The {name}{where} is {shown(other)}, {shown(one)} in the baseline, and no claim says so.",
            claim=f"the {name} as in the baseline",
            expected=shown(one),
            found=shown(other),
        )


def _schedules_go(licence: Licence) -> bool:
    return any("sched" in name.lower() for name in licence.calls) or bool(licence.settings)


# --- seeds, settings, metrics ---------------------------------------------------------------------


def _seeds(base: Facts, facts: Facts, varies: frozenset[str]) -> Iterator[Finding]:
    if "seeds" not in varies:
        yield from equal("The seeds", base.seeds, facts.seeds)


def _settings(base: Facts, facts: Facts, licence: Licence, varies: frozenset[str]) -> Iterator[Finding]:
    if "settings" in licence.free:
        return
    for name, before in base.settings.items():
        if name in licence.settings or f"setting {name}" in varies:
            continue
        if name not in facts.settings:
            yield alarm(f"The setting `{name}` ({shown(before)} in the baseline) is not there any more.")
            continue
        after = facts.settings[name]
        if same(before, after) or licence.explained(before, after) or (_is_place(before) and _is_place(after)):
            continue
        if licence.columns and is_without(before, after, licence.columns):
            continue
        if (
            licence.gone
            and isinstance(before, list | tuple)
            and isinstance(after, list | tuple)
            and is_part(after, before)
        ):
            yield alarm(f"The setting `{name}` is {shown(after)}, {shown(before)} in the baseline.")
            continue
        yield from equal(f"The setting `{name}`", before, after)
    new = [name for name in facts.settings if name not in base.settings and name not in licence.settings]
    if new:
        yield alarm(f"The variant has a setting that the baseline does not have: {listed(new)}.")


def _is_place(value: Any) -> bool:
    """Say whether a setting is a place in the file system: variants run in folders of their own."""
    return isinstance(value, str) and value.startswith("/")


def _metrics(base: Facts, facts: Facts, varies: frozenset[str]) -> Iterator[Finding]:
    missing = [name for name in base.metrics if name not in facts.metrics]
    if missing:
        yield fails(
            f"The variant reports no {listed(missing)}, which the baseline does.",
            claim="the metrics are there",
            expected=listed(missing),
            found=listed(sorted(facts.metrics)) if facts.metrics else "none",
        )
    odd = [name for name, value in facts.metrics.items() if not _is_number(value)]
    if odd:
        yield fails(
            f"{listed(odd)} is {shown(facts.metrics[odd[0]])}, which is no finite number.",
            claim="metrics are finite numbers",
            expected="a finite number",
            found=shown(facts.metrics[odd[0]]),
        )
    shared = [name for name in base.metrics if name in facts.metrics]
    trained_alike = same(base.losses, facts.losses) or not base.losses
    equal = [name for name in shared if same(base.metrics[name], facts.metrics[name])]
    if not shared or trained_alike or not equal:
        return
    fine = [name for name in equal if not _is_coarse(base.metrics[name])]
    if fine:
        yield fails(
            f"{listed(fine)} is {shown(facts.metrics[fine[0]])} to the last digit as in the baseline, though the "
            "losses differ: it is written down and not measured.",
            claim="metrics are measured",
            expected="a number of its own",
            found=shown(facts.metrics[fine[0]]),
        )
    else:
        yield alarm(f"{listed(equal)} is as in the baseline, though the losses differ.")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_coarse(value: float) -> bool:
    """Say whether a metric is a share of few examples, which two models can have by chance."""
    if not _is_number(value):
        return True
    share = value / 100 if abs(value) > 1 else value
    nearest = Fraction(share).limit_denominator(1000)
    return abs(float(nearest) - share) < ROUNDING
