"""What is trained: all parameters that were trained in the baseline want a gradient, get one, and follow it."""

from __future__ import annotations

from collections.abc import Iterator

from etude.mage.facts import ParameterFacts
from etude.mage.judge.comparing import listed, owner
from etude.mage.judge.findings import Finding, alarm, fails
from etude.mage.judge.licence import Licence
from etude.mage.judge.tables import Pair


def learning(pair: Pair, licence: Licence) -> Iterator[Finding]:
    """Yield what is not trained as in the baseline."""
    yield from _flags(pair)
    yield from _gradients(pair, licence)
    yield from _moved(pair, licence)


def _flags(pair: Pair) -> Iterator[Finding]:
    for which, word in ((True, "frozen"), (False, "trained")):
        changed = [
            name
            for name, row in pair.base.parameters.items()
            if row.trainable is which and _row(pair, name) is not None and _row(pair, name).trainable is not which  # type: ignore[union-attr]
        ]
        if changed:
            yield fails(
                f"{listed(changed)} {'is' if len(changed) == 1 else 'are'} {word} in this variant and not in the "
                "baseline.",
                claim="what is trained stays",
                expected=f"trainable: {which}",
                found=f"trainable: {not which}",
            )


def _row(pair: Pair, name: str) -> ParameterFacts | None:
    return pair.variant.parameters.get(name)


def _gradients(pair: Pair, licence: Licence) -> Iterator[Finding]:
    dead: dict[str, list[str]] = {}
    for name, before in pair.base.parameters.items():
        after = pair.variant.parameters.get(name)
        if after is None or licence.is_about(name):
            continue
        if before.got_gradient and after.trainable and not after.got_gradient:
            dead.setdefault(owner(name), []).append(name)
    whole = [
        module or "the model"
        for module, rows in dead.items()
        if all(name in rows for name, row in pair.base.parameters.items() if owner(name) == module and row.got_gradient)
    ]
    rows = [name for module, names in dead.items() if (module or "the model") not in whole for name in names]
    if not dead:
        return
    names = _sentence(whole + rows)
    many = len(whole + rows) > 1
    gets, does = ("get", "do") if many else ("gets", "does")
    text = f"{names} {gets} no gradient in this variant, but {does} in the baseline."
    if licence.loss or licence.free & {"models"}:
        yield alarm(f"{text} What only the removed term trained is not trained any more.")
    else:
        yield fails(
            f"{text} The removal cuts the path.",
            claim="all that was trained is trained",
            expected="a gradient",
            found="none",
        )


def _moved(pair: Pair, licence: Licence) -> Iterator[Finding]:
    """Yield modules whose parameters get gradients and are not changed by them: no optimizer has them.

    A single parameter says nothing: the gradient of a bias before a normalisation is rounding alone.
    """
    modules: dict[str, list[bool]] = {}
    for name, before in pair.base.parameters.items():
        after = pair.variant.parameters.get(name)
        if licence.is_about(name) or after is None or after.moved is None:
            continue
        if before.moved and after.got_gradient:
            modules.setdefault(owner(name) or "the model", []).append(after.moved)
    still = [module for module, moved in modules.items() if not any(moved)]
    if still:
        yield fails(
            f"{_sentence(still)} {'keep their' if len(still) > 1 else 'keeps its'} first values in this variant, but "
            f"{'are' if len(still) > 1 else 'is'} trained in the baseline: no optimizer has "
            f"{'them' if len(still) > 1 else 'it'}.",
            claim="all that was trained is trained",
            expected="other values after the steps",
            found="the first values",
        )


def _sentence(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
