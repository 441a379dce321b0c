"""All that no claim is about, beside the models: data, optimizers, seeds, settings, steps and metrics stay as they are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

from etude.mage.comparing import listed, same, shown
from etude.mage.facts import Facts, FitFacts
from etude.mage.findings import Finding, alarm, fails, for_a_person
from etude.mage.licence import Licence

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
    yield from _data(base, facts, licence, varies)
    yield from _fits(base, facts, licence)
    yield from _seeds(base, facts, varies)
    yield from _settings(base, facts, licence, varies)
    yield from _metrics(base, facts, varies)


def _equal(what: str, before: Any, after: Any, weigh: Any = fails) -> Iterator[Finding]:
    if not same(before, after):
        verb = (
            "are"
            if what.startswith(("The shapes", "The numbers", "The schedulers", "The seeds", "The columns"))
            else "is"
        )
        yield weigh(
            f"{what} {verb} {shown(after)}, {shown(before)} in the baseline, and no claim says so.",
            claim=f"{what[0].lower()}{what[1:]} as in the baseline",
            expected=shown(before),
            found=shown(after),
        )


# --- how much of it -------------------------------------------------------------------------------


def _counts(base: Facts, facts: Facts, licence: Licence) -> Iterator[Finding]:
    if len(base.models) != len(facts.models) and "models" not in licence.free:
        yield from _equal("The number of trained models", len(base.models), len(facts.models))
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
        yield from _equal("The number of backward passes", len(base.losses), len(facts.losses))


# --- optimizers -----------------------------------------------------------------------------------


def _optimizers(base: Facts, facts: Facts, licence: Licence) -> Iterator[Finding]:
    if "optimizers" in licence.free:
        return
    if len(base.optimizers) != len(facts.optimizers):
        yield from _equal("The number of optimizers", len(base.optimizers), len(facts.optimizers))
        return
    for before, after in zip(base.optimizers, facts.optimizers, strict=True):
        if len(before) == len(after):
            for nth, (one, other) in enumerate(zip(before, after, strict=True)):
                yield from _group(nth, one, other, licence)
        elif 0 < len(after) < len(before) and licence.gone and _is_part(after, before):
            yield alarm(
                f"The optimizer has {len(after)} groups of parameters, {len(before)} in the baseline; those that are "
                "left are equal."
            )
        else:
            yield from _equal("The number of groups of parameters", len(before), len(after))
    if not same(base.scheduled, facts.scheduled) and "scheduled" not in licence.free:
        fewer = _is_part(facts.scheduled, base.scheduled)
        gone = [name for name in base.scheduled if name not in facts.scheduled]
        if fewer and any(_schedules(name, gone) for name in licence.calls):
            yield alarm(f"{listed(gone)} is not made any more.")
        else:
            weigh = for_a_person if licence.settings and fewer else fails
            yield from _equal("The schedulers", base.scheduled, facts.scheduled, weigh)


def _schedules(name: str, gone: Sequence[str]) -> bool:
    return "sched" in name.lower() or any(one.rpartition(".")[2] in name for one in gone)


def _is_part(few: Sequence[Any], many: Sequence[Any]) -> bool:
    """Say whether some values stand in others in the same order."""
    rest = iter(many)
    return all(any(same(one, other) for other in rest) for one in few)


def _group(nth: int, before: Mapping[str, Any], after: Mapping[str, Any], licence: Licence) -> Iterator[Finding]:
    for key in [*before, *(key for key in after if key not in before)]:
        one, other = before.get(key), after.get(key)
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


# --- data -----------------------------------------------------------------------------------------


def _data(base: Facts, facts: Facts, licence: Licence, varies: frozenset[str]) -> Iterator[Finding]:
    resized = False
    if not same(base.batches, facts.batches) and not {"batches"} & (varies | licence.free):
        resized = _explained(base.batches, facts.batches, licence)
        if not resized:
            yield from _equal("The shapes of the first batches", base.batches, facts.batches)
    if not same(base.lengths, facts.lengths) and not {"lengths"} & (varies | licence.free):
        if not (resized and licence.settings):
            yield from _equal("The numbers of batches in an epoch", base.lengths, facts.lengths)
    if same(base.batch_digests, facts.batch_digests) or licence.data or {"batch_digests"} & (varies | licence.free):
        return
    if not licence.draws or _starts_alike(base, facts):
        weigh = alarm_of if not licence.draws and licence.calls and not _only_after(licence) else fails
        yield weigh(
            "The first batches are others than in the baseline, though all parameters begin with the same values: the "
            "data are others.",
            claim="the data as in the baseline",
            expected=shown(base.batch_digests),
            found=shown(facts.batch_digests),
        )


def alarm_of(text: str, **_: str) -> Finding:
    """Return an alarm in place of a finding that weighs more."""
    return alarm(text)


AFTER: Final = ("clip", "sched", "ema", "zero_grad", "step")
"""Parts of names of functions that are called when the loss is there already."""


def _only_after(licence: Licence) -> bool:
    return bool(licence.calls) and all(any(part in name.lower() for part in AFTER) for name in licence.calls)


def _starts_alike(base: Facts, facts: Facts) -> bool:
    """Say whether nothing was drawn otherwise before the first batch, by all rows: no row is gone, none is others."""
    if len(base.models) != len(facts.models):
        return False
    for one, other in zip(base.models, facts.models, strict=True):
        if one.parameters.keys() != other.parameters.keys():
            return False
        for name, row in one.parameters.items():
            if not row.digest or row.digest != other.parameters[name].digest:
                return False
    return bool(base.models)


def _explained(before: Any, after: Any, licence: Licence) -> bool:
    if len(before) != len(after):
        return False
    return all(
        len(one) == len(other) and all(licence.resized(shape, now) for shape, now in zip(one, other, strict=True))
        for one, other in zip(before, after, strict=True)
    )


def _fits(base: Facts, facts: Facts, licence: Licence) -> Iterator[Finding]:
    if "fits" in licence.free:
        return
    if len(base.fits) != len(facts.fits):
        yield from _equal("The number of calls of fit", len(base.fits), len(facts.fits))
        return
    for before, after in zip(base.fits, facts.fits, strict=True):
        yield from _fit(before, after, licence)


def _fit(before: FitFacts, after: FitFacts, licence: Licence) -> Iterator[Finding]:
    yield from _equal("The class of what is fitted", before.type, after.type)
    yield from _equal(f"The number of rows that reach {before.type}.fit", before.rows, after.rows)
    if before.target != after.target:
        yield fails(
            f"The labels that reach {before.type}.fit are others than in the baseline.",
            claim="the labels as in the baseline",
            expected=before.target,
            found=after.target,
        )
    if not licence.columns:
        yield from _equal(f"The columns that reach {before.type}.fit", before.columns, after.columns)
        if before.columns == after.columns and before.digests and after.digests and before.digests != after.digests:
            odd = [n for n, one, two in zip(before.columns, before.digests, after.digests, strict=False) if one != two]
            yield (for_a_person if licence.data else fails)(
                f"{listed(odd)} reaches {before.type}.fit with other values than in the baseline.",
                claim="the data as in the baseline",
                expected="equal values",
                found=f"others in {len(odd)} columns",
            )
    for key in [*before.values, *(key for key in after.values if key not in before.values)]:
        one, other = before.values.get(key), after.values.get(key)
        if same(one, other) or licence.explained(one, other) or key in licence.groups:
            continue
        if licence.columns and _is_without(one, other, licence.columns):
            continue
        yield (for_a_person if licence.settings else fails)(
            f"`{key}` of {before.type} is {shown(other)}, {shown(one)} in the baseline, and no claim says so.",
            claim="nothing else differs",
            expected=shown(one),
            found=shown(other),
        )


def _is_without(before: Any, after: Any, columns: Sequence[str]) -> bool:
    """Say whether a value has lost columns: a list their names, a number as many."""
    if isinstance(before, list | tuple) and isinstance(after, list | tuple):
        return same([one for one in before if one not in columns], after) or (
            len(before) - len(after) == len(columns) and _is_part(after, before)
        )
    if isinstance(before, bool) or isinstance(after, bool):
        return False
    return isinstance(before, int) and isinstance(after, int) and before - after == len(columns)


# --- seeds, settings, metrics ---------------------------------------------------------------------


def _seeds(base: Facts, facts: Facts, varies: frozenset[str]) -> Iterator[Finding]:
    if "seeds" not in varies:
        yield from _equal("The seeds", base.seeds, facts.seeds)


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
        if licence.columns and _is_without(before, after, licence.columns):
            continue
        if (
            licence.gone
            and isinstance(before, list | tuple)
            and isinstance(after, list | tuple)
            and _is_part(after, before)
        ):
            yield alarm(f"The setting `{name}` is {shown(after)}, {shown(before)} in the baseline.")
            continue
        yield from _equal(f"The setting `{name}`", before, after)
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
            f"{listed(fine)} is {shown(facts.metrics[fine[0]])} to the last digit as in the baseline, though the losses "
            "differ: it is written down and not measured.",
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
    return abs(float(nearest) - share) < 1e-7
