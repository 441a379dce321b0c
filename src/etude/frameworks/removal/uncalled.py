"""Modules that are never called: lists of others, weights and numbers that others read, and what is dead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from etude.core.errors import RefusalCode, RemovalRefused
from etude.core.rungs import Rung
from etude.frameworks.removal.apply import identity_weight
from etude.frameworks.removal.edits import Attribute, CallRule, Edit, Freeze, Same, StandIn
from etude.frameworks.removal.fake import refuse_fakes
from etude.frameworks.removal.names import canonical, tied, under
from etude.frameworks.removal.nested import Nth, leaves
from etude.frameworks.removal.trace import Op
from etude.frameworks.removal.tracing import Mode, Runs


@dataclass(frozen=True)
class Children:
    """What a module that is never called has: children that are used, and others."""

    used: list[str]
    idle: list[str]


@dataclass(frozen=True)
class Read:
    """What takes the place of a module that others read and never call.

    Attributes:
        edits: What is done.
        rung: How deep that cuts.
    """

    edits: list[Edit]
    rung: Rung


def uncalled(runs: Runs, modes: Sequence[Mode], path: str, what: str) -> Children | Read:
    """Return what becomes of a module that is never called.

    Args:
        runs: Runs of a copy of the model.
        modes: What they showed.
        path: The module.
        what: As it is named to people.

    Raises:
        RemovalRefused: It is dead, or nothing can take its place.
    """
    module = runs.copy.model.get_submodule(path)
    if _is_read_dropout(runs, modes, path, module):
        rule = CallRule((), (Same(("input",)),), Nth(0))
        return Read([Attribute(path, "p", 0), StandIn(path, (rule,))], Rung.IDENTITY)
    children = [f"{path}.{name}" for name, _ in module.named_children()]
    used = [child for child in children if _is_used(runs, modes, child)]
    if _read_without_call(path, modes, used):
        return _frozen(runs, modes, path, module, what)
    if not used:
        raise RemovalRefused(
            RefusalCode.DEAD,
            what,
            "it is never used with this example, so nothing would change without it. Leave it out, or pass an example "
            "with which the model uses it.",
        )
    return Children(used, [child for child in children if child not in used])


def _is_used(runs: Runs, modes: Sequence[Mode], path: str) -> bool:
    model = runs.copy.model
    called = canonical(model, path)
    if any(under(call.path, called) for mode in modes for call in mode.trace.calls):
        return True
    return bool(_read_without_call(path, modes, [])) or _is_read_dropout(runs, modes, path, model.get_submodule(path))


def _is_read_dropout(runs: Runs, modes: Sequence[Mode], path: str, module: nn.Module) -> bool:
    """Say whether others read the share of a dropout that nobody calls: with another one they do something else."""
    if not isinstance(module, nn.modules.dropout._DropoutNd):
        return False
    before = modes[-1].trace
    with runs.trying() as carry:
        carry([Attribute(path, "p", int(not module.p))])
        after = runs.traced(train=True)
    return [_plainly(op) for op in before.ops] != [_plainly(op) for op in after.ops]


def _plainly(op: Op) -> tuple[str, list[Any]]:
    """Return an operation with what it was given that is no tensor."""
    return op.name, [one for _, one in leaves((op.args, op.kwargs)) if isinstance(one, int | float | str)]


def _read_without_call(path: str, modes: Sequence[Mode], besides: list[str]) -> list[str]:
    """Return names of a module's parameters that are used, though nothing that has them is called."""
    found = []
    for mode in modes:
        for name, n in mode.trace.parameters.items():
            here = under(name, path) and not any(under(name, child) for child in besides)
            if here and mode.flow.consumers[n] and mode.trace.values[n].kind == "parameter":
                found.append(name)
    return found


def _frozen(runs: Runs, modes: Sequence[Mode], path: str, module: nn.Module, what: str) -> Read:
    """Put the identity into the place of a weight that is used without a call."""
    weight: Any = getattr(module, "weight", None)
    if weight is None or any(module.children()) or identity_weight(module, weight) is None:
        raise RemovalRefused(
            RefusalCode.WITHOUT_CALL, what, "its parameters are used without calling it, so nothing can stand in."
        )
    if f"{path}.weight" in tied(runs.copy.model):
        raise RemovalRefused(RefusalCode.TIED, what, "others share its weight, and it is used without a call.")
    edit = Freeze(path)
    with runs.trying() as carry:
        carry([edit])
        for mode in modes:
            try:
                runs.run(train=mode.train)
            except Exception as broken:
                refuse_fakes(broken)
                raise RemovalRefused(RefusalCode.WITHOUT_CALL, what, f"without it: {broken}.") from None
    return Read([edit], Rung.IDENTITY)
