"""All of the models that no claim is about: every other row, module and gradient has to be as in the baseline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from etude.core.text import times
from etude.mage.facts import ModelFacts, ModuleFacts
from etude.mage.judge import along
from etude.mage.judge.beginning import beginning
from etude.mage.judge.comparing import counted, listed, owner, same, shown, under
from etude.mage.judge.findings import Finding, alarm, fails, for_a_person
from etude.mage.judge.learning import learning
from etude.mage.judge.licence import Licence
from etude.mage.judge.tables import Expected, Pair, expected, fits, parents, was_shared
from etude.mage.witnesses import ModuleGone, ModuleReplaced, ModuleUnused, ModuleValue, Resized

SIZES: Final = (
    "features",
    "channels",
    "dim",
    "hidden_size",
    "input_size",
    "num_embeddings",
    "normalized_shape",
    "width",
)
"""Attributes that say how large a module's parameters are: they follow these."""

MOVES: Final = frozenset(
    """
    _local_scalar_dense _reshape_alias _to_copy _unsafe_view alias as_strided broadcast_to chunk clone contiguous copy
    detach empty empty_like empty_strided expand fill flatten full full_like index item lift_fresh narrow new_empty
    new_empty_strided new_full new_ones new_zeros ones ones_like permute repeat reshape resize scalar_tensor select
    set_ slice split split_with_sizes squeeze stack t to transpose unbind unflatten unsafe_split unsqueeze view zero
    zeros zeros_like _unsafe_index select_backward slice_backward is_same_size arange random set resolve_conj
    resolve_neg is_pinned gt lt ge le eq ne any all isnan isfinite isinf logical_not logical_and logical_or
    """.split()  # noqa: SIM905 - it is a table to be read
)
"""Operators that move numbers or look at them, and calculate none. How often they run depends on strides and on the
numbers themselves, and says nothing."""


def rest_of_models(pairs: tuple[Pair, ...], licence: Licence, varies: frozenset[str]) -> Iterator[Finding]:
    """Yield what differs in the models beside what was claimed.

    Args:
        pairs: The models.
        licence: What the claims allow.
        varies: In what the baseline differs from itself.
    """
    for pair in pairs:
        table = expected(pair.base, pair.witnesses)
        yield from _type(pair)
        yield from _table(pair, table, licence)
        yield from _modules(pair, table, licence)
        yield from learning(pair, licence)
        yield from beginning(pair, licence, repeats="initial values" not in varies)


def _type(pair: Pair) -> Iterator[Finding]:
    if pair.base.type != pair.variant.type:
        yield fails(
            f"The model is of class {pair.variant.type}, and {pair.base.type} in the baseline.",
            claim="the same model",
            expected=pair.base.type,
            found=pair.variant.type,
        )
    if pair.wrapped:
        yield alarm(f"The model {pair.base.type} is wrapped in one of the two runs and not in the other.")


# --- the parameter table --------------------------------------------------------------------------


def _table(pair: Pair, table: Expected, licence: Licence) -> Iterator[Finding]:
    rows = pair.variant.parameters
    claimed = [one.path for one in pair.witnesses if isinstance(one, ModuleGone | ModuleReplaced | ModuleUnused)]
    speaks = any(isinstance(one, ModuleGone | ModuleReplaced | ModuleUnused | Resized) for one in pair.witnesses)
    odd = fails if speaks or not licence.settings else for_a_person
    lost = [name for name in table.rows if name not in rows and not any(under(path, name) for path in claimed)]
    if lost:
        yield odd(
            f"The parameters {listed(lost)} are not there any more, and no claim says that they go.",
            claim="nothing else differs",
            expected=f"`{lost[0]}` of {shown(pair.base.parameters[lost[0]].shape)}",
            found="no such parameter",
        )
    new = [name for name in rows if name not in table.rows and not _accounted(name, pair, table, claimed)]
    if new and not _is_said_elsewhere(pair):
        yield odd(
            f"The parameters {listed(new)} are new ({', '.join(shown(rows[name].shape) for name in new[:3])}), and no "
            "claim says that they come.",
            claim="nothing else differs",
            expected="no such parameter",
            found=f"`{new[0]}` of {shown(rows[new[0]].shape)}",
        )
    for name, shape in table.rows.items():
        if name in rows and not any(under(path, name) for path in claimed):
            yield from _shape(name, shape, pair, table, licence, odd)


def _is_said_elsewhere(pair: Pair) -> bool:
    """Say whether ``gone`` tells what is in the place of parameters that went."""
    return any(
        isinstance(one, ModuleGone) and under(one.path, name) and name not in pair.variant.parameters
        for one in pair.witnesses
        for name in pair.base.parameters
    )


def _accounted(name: str, pair: Pair, table: Expected, claimed: list[str]) -> bool:
    if any(under(path, name) for path in (*claimed, *table.anything)):
        return True  # a claim speaks of it itself
    return was_shared(name, pair, [row for row in pair.base.parameters if any(under(path, row) for path in claimed)])


def _shape(name: str, shape: Any, pair: Pair, table: Expected, licence: Licence, odd: Any) -> Iterator[Finding]:
    found, before = pair.variant.parameters[name].shape, pair.base.parameters.get(name)
    if fits(found, shape):
        return
    if name in table.resized:
        if not any(isinstance(one, Resized) and name in one.shapes for one in pair.witnesses):
            yield fails(
                f"`{name}` is {shown(found)} and was to become {shown(shape)}.",
                claim=f"`{name}` is {shown(shape)}",
                expected=shown(shape),
                found=shown(found),
            )
    elif before is not None and licence.resized(before.shape, found):
        return
    elif table.others_stay:
        yield odd(
            f"`{name}` is {shown(found)}, {shown(shape)} in the baseline, and no claim says that its shape changes.",
            claim="nothing else differs",
            expected=shown(shape),
            found=shown(found),
        )
    else:
        yield alarm(f"`{name}` is {shown(found)}, {shown(shape)} in the baseline.")


# --- modules --------------------------------------------------------------------------------------


def _modules(pair: Pair, table: Expected, licence: Licence) -> Iterator[Finding]:
    claimed = [one.path for one in pair.witnesses if isinstance(one, ModuleGone | ModuleReplaced | ModuleUnused)]
    around = {parent for path in claimed for parent in parents(path)}
    for path, before in pair.base.modules.items():
        if any(under(one, path) for one in claimed):
            continue
        after = pair.variant.modules.get(path)
        if after is None:
            left = along.beyond_the_plan(path, before.calls, pair)
            if left is along.Left.USELESS:
                yield alarm(f"The module `{path}` ({before.type}) is not there any more, and by the plan it stays.")
            elif left is along.Left.MORE:
                yield _odd(licence)(
                    f"The module `{path}` ({before.type}) is not there any more, and no claim says that it goes.",
                    claim="nothing else differs",
                    expected=times(before.calls),
                    found="no such module",
                )
            continue
        yield from _module(path, before, after, pair, table, licence, path in around)
    new = [path for path in pair.variant.modules if path not in pair.base.modules and _works(pair.variant, path)]
    new = [path for path in new if not any(under(one, path) for one in claimed)]
    if new:
        kinds = ", ".join(pair.variant.modules[path].type for path in new[:3])
        yield _odd(licence)(
            f"The modules {listed(new)} ({kinds}) are new, and no claim says that they come.",
            claim="nothing else differs",
            expected="no such module",
            found=kinds,
        )


def _works(model: ModelFacts, path: str) -> bool:
    found = model.modules[path]
    return bool(found.calls) and not found.type.endswith("Identity")


def _odd(licence: Licence) -> Any:
    return for_a_person if licence.settings else fails


def _module(
    path: str, before: ModuleFacts, after: ModuleFacts, pair: Pair, table: Expected, licence: Licence, around: bool
) -> Iterator[Finding]:
    name = f"`{path}`" if path else "the model"
    if before.type != after.type and path:
        yield _odd(licence)(
            f"{name} is of class {after.type}, and {before.type} in the baseline.",
            claim="nothing else differs",
            expected=before.type,
            found=after.type,
        )
        return
    yield from _calls(path, name, before, after, pair, licence)
    yield from _manner(name, before, after, licence)
    yield from _values(path, name, before, after, pair, licence, around)
    if before.calls == after.calls or around:
        yield from _operators(path, name, before, after, pair, licence, around)


def _calls(
    path: str, name: str, before: ModuleFacts, after: ModuleFacts, pair: Pair, licence: Licence
) -> Iterator[Finding]:
    if before.calls == after.calls or "calls" in licence.free:
        return
    fewer = before.calls - after.calls
    again_and_again = fewer > 0 and licence.divides(fewer)
    left = along.beyond_the_plan(path, fewer, pair) if again_and_again else along.Left.MORE
    if left is along.Left.NOTHING:
        return
    rows = any(owner(row) == path for row in pair.base.parameters)
    stays = again_and_again and after.calls and not rows and path
    if stays or left is along.Left.USELESS:
        yield alarm(f"{name} is called {times(after.calls)}, {times(before.calls)} in the baseline.")
        return
    called = again_and_again and after.calls and licence.ended  # what goes may have called it
    yield (for_a_person if called else _odd(licence))(
        f"{name} is called {times(after.calls)}, {times(before.calls)} in the baseline, and no claim says so.",
        claim="nothing else differs",
        expected=times(before.calls),
        found=times(after.calls),
    )


def _manner(name: str, before: ModuleFacts, after: ModuleFacts, licence: Licence) -> Iterator[Finding]:
    """Yield whether a module calculates with other types of numbers, or does in a way of its own what all can do."""
    if before.dtypes and after.dtypes and before.dtypes != after.dtypes:
        yield _odd(licence)(
            f"{name} gives numbers of type {listed(after.dtypes)}, {listed(before.dtypes)} in the baseline, and no "
            "claim says so.",
            claim="nothing else differs",
            expected=", ".join(before.dtypes),
            found=", ".join(after.dtypes),
        )
    if before.hides != after.hides:
        odd = sorted(set(before.hides) ^ set(after.hides))
        yield _odd(licence)(
            f"{name} has {listed(odd)} in {'another way' if set(odd) <= set(after.hides) else 'the usual way'} than "
            "in the baseline, and no claim says so.",
            claim="nothing else differs",
            expected=", ".join(before.hides) or "PyTorch's own",
            found=", ".join(after.hides) or "PyTorch's own",
        )


def _values(
    path: str,
    name: str,
    before: ModuleFacts,
    after: ModuleFacts,
    pair: Pair,
    licence: Licence,
    around: bool,
) -> Iterator[Finding]:
    resized = {
        owner(row)
        for row, one in pair.base.parameters.items()
        if row in pair.variant.parameters and pair.variant.parameters[row].shape != one.shape
    }
    for key in before.values.keys() | after.values.keys():
        one, other = before.values.get(key), after.values.get(key)
        if same(one, other) or (path, key) in licence.values or licence.explained(one, other):
            continue
        if path in resized and any(size in key for size in SIZES) and "kernel" not in key:
            continue
        text = f"`{key}` of {name} is {shown(other)}, {shown(one)} in the baseline"
        if around and key not in ("training",):
            yield alarm(f"{text}.")
        else:
            yield _odd(licence)(
                f"{text}, and no claim says so.",
                claim="nothing else differs",
                expected=shown(one),
                found=shown(other),
            )


def _operators(
    path: str, name: str, before: ModuleFacts, after: ModuleFacts, pair: Pair, licence: Licence, around: bool
) -> Iterator[Finding]:
    """Yield whether a module that stays does something else in its calls.

    Around what goes, operators that were applied to its result may go with it: no more often than it was called.
    """
    if not before.operators and not after.operators:
        return
    then, now = counted(before.operators), counted(after.operators)
    at_value = any(isinstance(one, ModuleValue) and one.path == path for one in pair.witnesses) or bool(
        licence.values and {place for place, _ in licence.values} & {path}
    )
    planned = along.planned(pair)
    for operator in sorted((then.keys() | now.keys()) - MOVES):
        more = now.get(operator, 0) - then.get(operator, 0)
        if not more or at_value or "operators" in licence.free:
            continue
        text = f"{name} runs {operator} {times(now.get(operator, 0))}, {times(then.get(operator, 0))} in the baseline"
        lost = more < 0 and bool(licence.calls) and licence.divides(-more)
        allowed = more < 0 and (
            (around and -more <= sum(licence.lost))
            or (lost and not licence.loss)  # a term of the loss is seldom what a module calculates
            or (bool(licence.settings) and (licence.akin(operator) or any(licence.explained(*v) for v in _both(pair))))
        )
        if allowed and -more <= along.of_operator(operator, planned, pair):
            continue
        if allowed:
            yield alarm(f"{text}.")
        else:
            yield (for_a_person if lost else _odd(licence))(
                f"{text}, and no claim says so.",
                claim="nothing else differs",
                expected=times(then.get(operator, 0)),
                found=times(now.get(operator, 0)),
            )


def _both(pair: Pair) -> Iterator[tuple[Any, Any]]:
    """Yield the values of modules in both runs that differ."""
    for path, one in pair.base.modules.items():
        other = pair.variant.modules.get(path)
        if other is not None:
            for key, value in one.values.items():
                if not same(value, other.values.get(key)):
                    yield value, other.values.get(key)
