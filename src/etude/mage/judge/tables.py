"""Models of two runs side by side: names that mean the same, and what the parameter table is to be.

Names are those of the untouched program. A wrapper (``DataParallel``, ``torch.compile``) puts a prefix before all of
them, and a list of modules counts the rest anew when one of its modules goes: both are undone here, so that everybody
else compares like with like.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Final

from etude.mage.facts import Facts, ModelFacts
from etude.mage.judge.comparing import owner, same, under
from etude.mage.witnesses import ModuleGone, ModuleReplaced, ModuleUnused, Resized, Witness

WRAPPERS: Final = ("module", "_orig_mod")
"""Under these names wrappers keep what they wrap."""
NOTHING: Final = ("Identity", "Sequential")
"""Modules that give what they got, while they have no parameters and no modules inside."""

Pattern = tuple[int | None, ...] | None
"""A shape; a size of None may be any, and so may a shape of None."""


@dataclass(frozen=True)
class Pair:
    """A model of the baseline and what stands in its place in the variant, by the baseline's names.

    Attributes:
        base: The baseline's.
        variant: The variant's.
        witnesses: The claims that are about this one.
        wrapped: Whether one of them is wrapped and the other is not.
    """

    base: ModelFacts
    variant: ModelFacts
    witnesses: tuple[Witness, ...] = ()
    wrapped: bool = False


@dataclass(frozen=True)
class Expected:
    """What the parameter table of a variant is to be.

    Attributes:
        rows: Parameter -> its shape.
        anything: Paths under which any rows may be.
        others_stay: Whether rows that no claim names keep their shapes.
        resized: Rows whose shapes are claimed to change.
    """

    rows: Mapping[str, Pattern]
    anything: tuple[str, ...] = ()
    others_stay: bool = True
    resized: frozenset[str] = field(default_factory=frozenset)


def count(model: ModelFacts) -> int:
    """Return how many parameters a model has."""
    return sum(prod(row.shape) for row in model.parameters.values())


def rows_under(model: ModelFacts, path: str) -> dict[str, tuple[int, ...]]:
    """Return the parameters at a path and below it, and their shapes."""
    return {name: row.shape for name, row in model.parameters.items() if under(path, name)}


def calls_under(model: ModelFacts, path: str) -> int:
    """Return how often the module at a path was called; a container that is only indexed counts by its members."""
    found = model.modules.get(path)
    if found is not None and found.calls:
        return found.calls
    return max((one.calls for name, one in model.modules.items() if under(path, name)), default=0)


def is_nothing(model: ModelFacts, path: str) -> bool:
    """Say whether what is at a path does nothing: an identity, or a sequence of no modules."""
    found = model.modules.get(path)
    if found is None or found.type.rpartition(".")[2] not in NOTHING or found.operators:
        return False
    inside = any(name != path and under(path, name) for name in model.modules)
    return not inside and not rows_under(model, path)


def has(model: ModelFacts, path: str) -> bool:
    """Say whether a model has a module, or at least parameters, at a path."""
    return path in model.modules or bool(rows_under(model, path))


def pairs(base: Facts, facts: Facts, witnesses: Sequence[Witness]) -> tuple[Pair, ...]:
    """Return the models of both side by side, each with the claims that are about it.

    A claim names a path and no model. Where several models have it, the claim is about those in which something at the
    path is another; about all of them where nothing is.
    """
    ours = [unwrapped(model) for model in base.models]
    theirs = [unwrapped(model) for model in facts.models]
    claims: list[list[Witness]] = [[] for _ in ours]
    both = list(zip(ours, theirs, strict=False))
    for witness in witnesses:
        for nth in _about(witness, both):
            claims[nth].append(witness)
    return tuple(
        Pair(
            one,
            renumbered(other, one, _gone(claimed)),
            tuple(claimed),
            wrapped=(_prefix(base.models[nth]) != _prefix(facts.models[nth])),
        )
        for nth, ((one, other), claimed) in enumerate(zip(both, claims, strict=False))
    )


def _about(witness: Witness, both: Sequence[tuple[ModelFacts, ModelFacts]]) -> list[int]:
    if isinstance(witness, Resized):
        having = [n for n, (one, _) in enumerate(both) if witness.shapes.keys() <= one.parameters.keys()]
        changed = [n for n in having if any(_row(both[n][0], row) != _row(both[n][1], row) for row in witness.shapes)]
    elif isinstance(witness, ModuleGone | ModuleUnused | ModuleReplaced):
        having = [n for n, (one, _) in enumerate(both) if has(one, witness.path)]
        changed = [n for n in having if _differs(*both[n], witness.path)]
    else:
        return []
    return changed or having


def _row(model: ModelFacts, name: str) -> object:
    found = model.parameters.get(name)
    return None if found is None else found.shape


def _differs(one: ModelFacts, other: ModelFacts, path: str) -> bool:
    if len(rows_under(one, path)) != len(rows_under(other, path)):
        return True
    if any(_row(one, name) != _row(other, name) for name in rows_under(one, path)):
        return True
    mine, theirs = one.modules.get(path), other.modules.get(path)
    if mine is None or theirs is None:
        return mine is not theirs
    return mine.type != theirs.type or mine.calls != theirs.calls


def _gone(witnesses: Iterable[Witness]) -> list[str]:
    return [one.path for one in witnesses if isinstance(one, ModuleGone)]


# --- names ----------------------------------------------------------------------------------------


def _prefix(model: ModelFacts) -> str:
    prefix = ""
    while True:
        names = {
            name[len(prefix) :].partition(".")[0]
            for name in (*model.parameters, *model.modules)
            if len(name) >= len(prefix) and name.startswith(prefix)
        } - {""}
        if len(names) != 1 or (wrapper := names.pop()) not in WRAPPERS:
            return prefix
        prefix += f"{wrapper}."


def unwrapped(model: ModelFacts) -> ModelFacts:
    """Return a model without what was put around it: its names lose the wrapper's prefix."""
    prefix = _prefix(model)
    if not prefix:
        return model
    inner = model.modules.get(prefix[:-1])
    return ModelFacts(
        type=model.type if inner is None else inner.type,
        parameters={name.removeprefix(prefix): row for name, row in model.parameters.items()},
        modules={
            "" if f"{name}." == prefix else name.removeprefix(prefix): one
            for name, one in model.modules.items()
            if f"{name}.".startswith(prefix)
        },
    )


def renumbered(model: ModelFacts, base: ModelFacts, gone: Iterable[str]) -> ModelFacts:
    """Return a variant's model by the baseline's names, where a list has lost modules and counts the rest anew."""
    lists: dict[str, set[int]] = {}
    for path in gone:
        container, _, last = path.rpartition(".")
        if last.isdigit():
            lists.setdefault(container, set()).add(int(last))
    for container, lost in lists.items():
        model = _renumbered(model, base, container, lost)
    return model


def _renumbered(model: ModelFacts, base: ModelFacts, container: str, lost: set[int]) -> ModelFacts:
    before, after = _numbers(base, container), _numbers(model, container)
    left = [number for number in before if number not in lost]
    if after == left or after != list(range(len(left))):
        return model
    names = {f"{container}.{new}".lstrip("."): f"{container}.{old}".lstrip(".") for new, old in enumerate(left)}

    def named(name: str) -> str:
        found = next((new for new in names if under(new, name)), None)
        return name if found is None else names[found] + name[len(found) :]

    return ModelFacts(
        type=model.type,
        parameters={named(name): row for name, row in model.parameters.items()},
        modules={named(name): one for name, one in model.modules.items()},
    )


def _numbers(model: ModelFacts, container: str) -> list[int]:
    start = f"{container}." if container else ""
    inside = {name[len(start) :].partition(".")[0] for name in (*model.modules, *model.parameters) if _in(name, start)}
    return sorted(int(name) for name in inside if name.isdigit())


def _in(name: str, start: str) -> bool:
    return bool(name) and name.startswith(start)


# --- the table ------------------------------------------------------------------------------------


def expected(model: ModelFacts, witnesses: Iterable[Witness]) -> Expected:
    """Return what the parameter table is to be, if all claims about it hold at once.

    Two claims may give one row two shapes, since each was made for itself: then it may have any.
    """
    rows: dict[str, Pattern] = {name: row.shape for name, row in model.parameters.items()}
    resized: dict[str, Pattern] = {}
    anything: list[str] = []
    new: dict[str, Pattern] = {}
    gone: list[str] = []
    stay = True
    for one in witnesses:
        shapes: Mapping[str, Pattern] = {}
        if isinstance(one, ModuleGone):
            gone.append(one.path)
            shapes, stay = one.resized, stay and one.others_stay
        elif isinstance(one, ModuleReplaced):
            gone.append(one.path)
            shapes = one.resized
            if one.shapes:
                new |= {f"{one.path}.{name}".strip("."): shape for name, shape in one.shapes.items()}
            else:
                anything.append(one.path)
        elif isinstance(one, Resized):
            shapes, stay = one.shapes, stay and one.others_stay
        for name, shape in shapes.items():
            agree = name not in resized or same(resized[name], shape)
            resized[name] = shape if agree else None
    kept = {name: shape for name, shape in rows.items() if not any(under(path, name) for path in gone)}
    kept |= {name: shape for name, shape in resized.items() if name in kept}
    return Expected(kept | new, tuple(anything), stay, frozenset(resized))


def fits(shape: Sequence[int], pattern: Pattern) -> bool:
    """Say whether a shape is as it was claimed."""
    if pattern is None:
        return True
    return len(shape) == len(pattern) and all(
        size is None or size == found for found, size in zip(shape, pattern, strict=True)
    )


def parents(path: str) -> tuple[str, ...]:
    """Return the paths of all modules around one, the model itself first."""
    parts = path.split(".") if path else []
    return tuple(".".join(parts[:end]) for end in range(len(parts)))


def was_shared(row: str, pair: Pair, gone: Iterable[str]) -> bool:
    """Say whether a new row is a tensor that was shared with what goes: the table names it by its first name alone.

    Args:
        row: A row of the variant that the baseline's table does not have.
        pair: The two models.
        gone: The rows that go.
    """
    module, _, last = row.rpartition(".")
    before, after = pair.base.modules.get(module), pair.variant.modules.get(module)
    if not module or before is None or after is None or before.type != after.type or not before.calls:
        return False
    like = any(
        name.rpartition(".")[2] == last and _type(pair.base, name.rpartition(".")[0]) == before.type
        for name in pair.base.parameters
    )
    usual = before.type.rpartition(".")[2] in ("Linear", "Embedding", "EmbeddingBag")
    own = any(owner(name) == module for name in pair.base.parameters)
    shape = pair.variant.parameters[row].shape
    return (like or usual or own) and any(
        name.rpartition(".")[2] == last and pair.base.parameters[name].shape == shape for name in gone
    )


def _type(model: ModelFacts, path: str) -> str:
    found = model.modules.get(path)
    return "" if found is None else found.type
