"""What reaches the model: batches, rows, columns and labels stay as they are, but for what a claim says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import sqrt
from typing import Any, Final

from etude.mage.facts import Facts, FitFacts
from etude.mage.judge.comparing import listed, same, shown
from etude.mage.judge.demanding import equal, is_part, is_without
from etude.mage.judge.estimators import is_asked, left_of
from etude.mage.judge.findings import Finding, alarm, fails, for_a_person
from etude.mage.judge.licence import Licence

SPREAD: Final = 1.5
"""So many times the spread of a first batch is more than chance."""
SHIFT: Final = 0.75
"""So many spreads its mean may move."""
FAR: Final = 4.0
"""So many standard errors are more than chance where an example is one number, as labels are."""


def rest_of_data(base: Facts, facts: Facts, licence: Licence, varies: frozenset[str]) -> Iterator[Finding]:
    """Yield what differs in the data, and follows from no claim."""
    yield from _fits(base, facts, licence)
    resized = False
    if not same(base.batches, facts.batches) and not {"batches"} & (varies | licence.free):
        resized = _explained(base.batches, facts.batches, licence)
        if not resized:
            yield from equal("The shapes of the first batches", base.batches, facts.batches)
    if not (resized and licence.settings) and not {"lengths"} & (varies | licence.free):
        yield from equal("The numbers of batches in an epoch", base.lengths, facts.lengths)
    if not {"examples"} & (varies | licence.free):
        weigh = for_a_person if licence.settings else fails
        yield from equal("The numbers of examples in an epoch", base.examples, facts.examples, weigh)
    if same(base.batch_digests, facts.batch_digests):
        return
    yield from _values_of_batches(base, facts, licence)
    if licence.data or {"batch_digests"} & (varies | licence.free):
        return
    fixed = _others_without_seed(base, facts)
    if fixed:
        yield fails(
            f"The first batch of loader {fixed[0] + 1} is another than in the baseline, where no seed changes it: the "
            "data are others.",
            claim="the data as in the baseline",
            expected=base.batch_digests[fixed[0]],
            found=facts.batch_digests[fixed[0]],
        )
        return
    if not licence.draws or _starts_alike(base, facts):
        weigh = alarm_of if not licence.draws and licence.may_reach_the_start else fails
        why = "all parameters begin with the same values" if _starts_alike(base, facts) else "nothing that goes draws"
        yield weigh(
            f"The first batches are others than in the baseline, though {why}: the data are others.",
            claim="the data as in the baseline",
            expected=shown(base.batch_digests),
            found=shown(facts.batch_digests),
        )


def _others_without_seed(base: Facts, facts: Facts) -> list[int]:
    """Return the loaders whose first batches are others, though in the baseline they are the same for two seeds."""
    if base.other is None or not _follows_seed(base, base.other):
        return []
    many = (base.batch_digests, base.other.batch_digests, facts.batch_digests)
    return [
        nth
        for nth, (one, other, now) in enumerate(zip(*many, strict=False))
        if one and now and one == other and one != now
    ]


def _follows_seed(base: Facts, other: Facts) -> bool:
    """Say whether another seed gives other first values: one that is not used tells nothing about data."""
    rows = [
        {name: row.digest for model in run.models for name, row in model.parameters.items()} for run in (base, other)
    ]
    return rows[0] != rows[1]


def _values_of_batches(base: Facts, facts: Facts, licence: Licence) -> Iterator[Finding]:
    """Yield whether the first batches are of another kind: another draw of the same data has nearly the same spread."""
    if len(base.batch_values) != len(facts.batch_values):
        return
    shapes = [shape for batch in base.batches for shape in batch]
    known = len(shapes) == len(base.batch_values)
    for nth, ((mean, spread), (other, now)) in enumerate(zip(base.batch_values, facts.batch_values, strict=True)):
        few, many = sorted((spread, now))
        wide, far = SPREAD, SHIFT
        if known and len(shapes[nth]) == 1:
            n = max(1, shapes[nth][0])
            wide, far = max(SPREAD, 1 + FAR / sqrt(n)), max(SHIFT, FAR * sqrt(2 / n))
        if many > wide * few or abs(mean - other) > far * max(spread, 1e-12):
            yield (alarm_of if licence.columns else for_a_person)(
                f"The numbers of a first batch are {other:.3g} with a spread of {now:.3g}, {mean:.3g} with "
                f"{spread:.3g} in the baseline: that is more than another order of the same data gives.",
                claim="the data as in the baseline",
                expected=f"{mean:.3g}, spread {spread:.3g}",
                found=f"{other:.3g}, spread {now:.3g}",
            )


def alarm_of(text: str, **_: str) -> Finding:
    """Return an alarm in place of a finding that weighs more."""
    return alarm(text)


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
    for what, asked in (("fit", False), ("predict", True)):
        one, other = ([fit for fit in run.fits if is_asked(fit) is asked] for run in (base, facts))
        if _changes_hands(one, other, licence):
            yield from _what_is_left(what, one, other, licence)
            continue
        if goes_along(one, other, licence):
            yield for_a_person(
                f"{len(one) - len(other)} calls of {what} are gone with what goes, and what follows may have other "
                f"columns: {listed(dict.fromkeys(fit.type for fit in one))} before, "
                f"{listed(dict.fromkeys(fit.type for fit in other))} now.",
                claim=f"the calls of {what} as in the baseline",
            )
            return
        if len(one) != len(other):
            yield from equal(f"The number of calls of {what}", len(one), len(other))
            continue
        for before, after in zip(one, other, strict=True):
            yield from _call(before, after, licence)
            left = left_of(before, licence.made_no_more) or before, left_of(after, ()) or after
            yield from _settings(before.type, left[0].values, left[1].values, licence)


def _changes_hands(before: Sequence[FitFacts], after: Sequence[FitFacts], licence: Licence) -> bool:
    """Say whether the program calls other estimators itself, because one that held them goes, or a chain of one."""
    gone = licence.made_no_more
    return any(
        not fit.within and ((left := left_of(fit, of)) is None or left.type != fit.type)
        for fits, of in ((before, gone), (after, ()))
        for fit in fits
    )


def _what_is_left(
    what: str, before: Sequence[FitFacts], after: Sequence[FitFacts], licence: Licence
) -> Iterator[Finding]:
    """Yield what differs from what is left of the calls of the program itself; chains call others in their turn."""
    left = [left_of(fit, licence.made_no_more) for fit in before if not fit.within]
    found = [left_of(fit, ()) or fit for fit in after if not fit.within]
    if len(left) != len(found):
        yield from equal(f"The number of calls of {what}", len(left), len(found))
        return
    for wanted, fit in zip(left, found, strict=True):
        if wanted is None:
            yield for_a_person(
                f"What goes held no other estimator, or several, so that nobody can tell whether {named_fit(fit)} is "
                "what is left.",
                claim=f"the calls of {what} as in the baseline",
                found=fit.type,
            )
        else:
            yield from _call(wanted, fit, licence)
            yield from _settings(wanted.type, wanted.values, fit.values, licence)


def goes_along(before: Sequence[FitFacts], after: Sequence[FitFacts], licence: Licence) -> bool:
    """Say whether calls of some estimators are gone because who called them is: all of theirs, and no others."""
    left = {fit.type for fit in after}
    stay = [fit.type for fit in before if fit.type in left]
    fewer = len(before) - len(after)
    return fewer > 0 and bool(licence.calls) and licence.divides(fewer) and stay == [fit.type for fit in after]


WEIGHTS: Final = "fit.sample_weight"
"""How the weights of rows stand among the values of a fit."""


def named_fit(fit: FitFacts) -> str:
    """Return the name of the method that was called."""
    return fit.type if is_asked(fit) else f"{fit.type}.fit"


def _call(before: FitFacts, after: FitFacts, licence: Licence) -> Iterator[Finding]:
    """Yield what differs in what is called, and in the table and the labels that reach it."""
    yield from equal(
        "What is asked of the model" if is_asked(before) else "The class of what is fitted", before.type, after.type
    )
    made = for_a_person if any(":" in name for name in licence.ended) else fails  # by a function that goes, perhaps
    yield from equal(f"The number of rows that reach {named_fit(before)}", before.rows, after.rows, made)
    if before.target != after.target:
        yield made(
            f"The labels that reach {named_fit(before)} are others than in the baseline.",
            claim="the labels as in the baseline",
            expected=before.target,
            found=after.target,
        )
    if not licence.columns:
        fewer = bool(licence.calls) and is_part(after.columns, before.columns)  # which a call that goes may have made
        weigh = for_a_person if fewer else fails
        yield from equal(f"The columns that reach {named_fit(before)}", before.columns, after.columns, weigh)
        if before.columns == after.columns and before.digests and after.digests and before.digests != after.digests:
            odd = [n for n, one, two in zip(before.columns, before.digests, after.digests, strict=False) if one != two]
            yield (for_a_person if licence.data else made)(
                f"{listed(odd)} reaches {named_fit(before)} with other values than in the baseline.",
                claim="the data as in the baseline",
                expected="equal values",
                found=f"others in {len(odd)} columns",
            )


def _settings(name: str, before: Mapping[str, Any], after: Mapping[str, Any], licence: Licence) -> Iterator[Finding]:
    """Yield what differs in the settings of an estimator, and in what else it was called with."""
    for key in [*before, *(key for key in after if key not in before)]:
        one, other = before.get(key), after.get(key)
        if same(one, other) or licence.explained(one, other) or key in licence.groups:
            continue
        if licence.columns and is_without(one, other, licence.columns):
            continue
        weighed = key == WEIGHTS and licence.calls  # which a call that goes may have made
        yield (for_a_person if licence.settings or weighed else fails)(
            f"`{key}` of {name} is {shown(other)}, {shown(one)} in the baseline, and no claim says so.",
            claim="nothing else differs",
            expected=shown(one),
            found=shown(other),
        )
