"""Whether exactly the claimed columns are gone from what reaches ``fit``, or the first batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from etude.mage.claiming import briefly
from etude.mage.facts import Facts, FitFacts
from etude.mage.judge.comparing import listed, same, shown
from etude.mage.judge.feeding import named_fit
from etude.mage.judge.findings import Finding, fails, for_a_person, unclear
from etude.mage.witnesses import ColumnsGone


def columns_gone(claim: ColumnsGone, base: Facts, facts: Facts) -> Iterator[Finding]:
    """Yield what speaks against exactly these columns being gone from what reaches ``fit`` or the first batch."""
    columns = claim.columns
    if not base.fits:
        yield from _columns_of_batches(claim, base, facts)
        return
    concerned = [nth for nth, fit in enumerate(base.fits) if set(columns) & set(_names(fit, base))]
    if not concerned and not any(_is_numbered(fit) for fit in base.fits):
        yield unclear(
            f"No call of fit in the baseline has the column {listed(columns)}; the first has "
            f"{listed(_names(base.fits[0], base)) if base.fits[0].columns else 'none'}.",
            claim=briefly(claim),
        )
        return
    for nth, (before, after) in enumerate(zip(base.fits, facts.fits, strict=False)):
        if _is_selected(base.fits, nth) and _is_among(facts.fits, nth):
            if set(claim.columns) & {*before.columns, *after.columns}:
                yield _chosen_anew(claim, before, after)
        elif nth in concerned or not concerned:
            yield from _columns_of_fit(claim, before, after, base, facts)


def _is_selected(fits: Sequence[FitFacts], nth: int) -> bool:
    """Say whether some columns of an earlier call reach a later one: something between them has chosen."""
    return _is_among(fits, nth) and any(len(one.columns) > len(fits[nth].columns) for one in fits[:nth])


def _is_among(fits: Sequence[FitFacts], nth: int) -> bool:
    """Say whether all columns of a later call reach an earlier one too."""
    columns = set(fits[nth].columns)
    return not _is_numbered(fits[nth]) and any(columns <= set(one.columns) for one in fits[:nth])


def _chosen_anew(claim: ColumnsGone, before: FitFacts, after: FitFacts) -> Finding:
    still = [name for name in claim.columns if name in after.columns]
    if still:
        return _still(claim, still, after)
    return for_a_person(
        f"Something chooses the columns that reach {named_fit(after)}, and chooses others without "
        f"{listed(claim.columns)}: {len(after.columns)} columns, {len(before.columns)} in the baseline.",
        claim=briefly(claim),
        expected=f"{len(before.columns)} columns",
        found=f"{len(after.columns)}",
    )


def _still(claim: ColumnsGone, still: Sequence[str], after: FitFacts) -> Finding:
    return fails(
        f"{listed(still)} still reaches {named_fit(after)}: it was to go.",
        claim=briefly(claim),
        expected="without it",
        found=f"{len(after.columns)} columns with it",
    )


def _names(fit: FitFacts, facts: Facts) -> tuple[str, ...]:
    """Return a matrix's columns by name; those that have numbers alone, by a setting that lists so many names."""
    if not _is_numbered(fit):
        return fit.columns
    lists = [value for value in facts.settings.values() if _is_texts(value) and len(value) == len(fit.columns)]
    return tuple(lists[0]) if len(lists) == 1 else fit.columns


def _is_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(one, str) for one in value)


def _is_numbered(fit: FitFacts) -> bool:
    return tuple(fit.columns) == tuple(str(nth) for nth in range(len(fit.columns)))


def _columns_of_fit(
    claim: ColumnsGone, before: FitFacts, after: FitFacts, base: Facts, facts: Facts
) -> Iterator[Finding]:
    names = _names(before, base)
    found_names = _names(after, facts)
    wanted = tuple(name for name in names if name not in claim.columns)
    known = set(claim.columns) <= set(names)
    still = [name for name in claim.columns if name in found_names and not (_is_numbered(after) and not before.digests)]
    numbered = _is_numbered(after)
    expected = len(before.columns) - len(claim.columns)
    if not numbered and still:
        yield _still(claim, still, after)
    elif len(after.columns) != expected:
        yield fails(
            f"{len(after.columns)} columns reach {named_fit(after)}, {len(before.columns)} in the baseline: "
            f"{len(claim.columns)} were to go.",
            claim=briefly(claim),
            expected=f"{expected} columns",
            found=f"{len(after.columns)}",
        )
    elif not numbered and tuple(after.columns) != wanted:
        odd = [name for name in after.columns if name not in wanted] or [n for n in wanted if n not in after.columns]
        yield fails(
            f"The columns that reach {named_fit(after)} differ in more than {listed(claim.columns)}: "
            f"{listed(odd or list(after.columns))}"
            f"{'' if odd else ' in another order'}.",
            claim=briefly(claim),
            expected=", ".join(wanted),
            found=", ".join(after.columns),
        )
    elif numbered and not (known and (before.digests or found_names != after.columns)):
        yield from _which_unknown(claim, before, after)
        return
    elif numbered and not before.digests and found_names != wanted:
        yield fails(
            f"The setting that lists the columns has lost others than {listed(claim.columns)}.",
            claim=briefly(claim),
            expected=", ".join(wanted),
            found=", ".join(found_names),
        )
    yield from _contents(claim, before, after, names)


def _which_unknown(claim: ColumnsGone, before: FitFacts, after: FitFacts) -> Iterator[Finding]:
    yield unclear(
        f"{len(after.columns)} columns reach {named_fit(after)} in place of {len(before.columns)}, but they have no "
        f"names there: nobody can tell whether it is {listed(claim.columns)} that went.",
        claim=briefly(claim),
        expected=f"without {listed(claim.columns)}",
        found=f"{len(after.columns)} columns without names",
    )


def _contents(claim: ColumnsGone, before: FitFacts, after: FitFacts, names: Sequence[str]) -> Iterator[Finding]:
    """Yield whether the columns that stay have their values."""
    if len(before.digests) != len(names) or len(after.digests) != len(after.columns):
        return
    wanted = [digest for name, digest in zip(names, before.digests, strict=True) if name not in claim.columns]
    if len(wanted) != len(after.digests):
        return  # that was said already
    others = [name for name in names if name not in claim.columns]
    odd = [name for name, one, other in zip(others, wanted, after.digests, strict=True) if one != other]
    if odd:
        yield fails(
            f"{listed(odd)} reaches {named_fit(after)} with other values than in the baseline: other columns than "
            f"{listed(claim.columns)} went, or were changed.",
            claim=briefly(claim),
            expected="equal values in all columns that stay",
            found=f"others in {len(odd)}",
        )


def _columns_of_batches(claim: ColumnsGone, base: Facts, facts: Facts) -> Iterator[Finding]:
    if not base.batches:
        yield unclear(
            f"{briefly(claim)}: neither a call of fit nor a batch was seen in the baseline, so that nothing can be "
            "said about columns.",
            claim=briefly(claim),
        )
        return
    widths = [
        (one[-1], other[-1])
        for before, after in zip(base.batches, facts.batches, strict=False)
        for one, other in zip(before, after, strict=False)
        if len(one) > 1 and len(other) > 1 and one[:-1] == other[:-1]
    ]
    if not any(before - after == len(claim.columns) for before, after in widths):
        yield fails(
            f"The first batch is as wide as {shown([after for _, after in widths])}, "
            f"{shown([before for before, _ in widths])} in the baseline: {len(claim.columns)} columns were to go.",
            claim=briefly(claim),
            expected=f"{len(claim.columns)} columns fewer",
            found=shown([after for _, after in widths]),
        )
    elif not _listed_without(claim, base, facts):
        yield unclear(
            f"The first batch is {len(claim.columns)} narrower, but its columns have no names: nobody can tell whether "
            f"it is {listed(claim.columns)} that went.",
            claim=briefly(claim),
            expected=f"without {listed(claim.columns)}",
            found="columns without names",
        )


def _listed_without(claim: ColumnsGone, base: Facts, facts: Facts) -> bool:
    """Say whether a setting that lists columns has lost exactly these."""
    return any(
        _is_texts(value)
        and set(claim.columns) <= set(value)
        and same(facts.settings.get(name), [one for one in value if one not in claim.columns])
        for name, value in base.settings.items()
    )
