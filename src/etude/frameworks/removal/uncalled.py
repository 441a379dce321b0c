"""Modules that are never called: lists of others, weights and numbers that others read, and what is dead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from etude.core.errors import RefusalCode, RemovalRefused
from etude.core.rungs import Rung
from etude.frameworks.removal.branches import Branches
from etude.frameworks.removal.constants import channels_in_words, constants_of_layer
from etude.frameworks.removal.edits import Attribute, CallRule, Edit, Fill, Freeze, Same, StandIn
from etude.frameworks.removal.fake import refuse_fakes
from etude.frameworks.removal.names import canonical, names_of_each, tied, under
from etude.frameworks.removal.nested import Nth, Path, leaves
from etude.frameworks.removal.rules import NoRule
from etude.frameworks.removal.trace import Call, Op
from etude.frameworks.removal.tracing import Mode, Runs


@dataclass(frozen=True)
class Children:
    """What takes the place of a module that stays without what is in it.

    Attributes:
        used: Children that are used, and go one by one.
        idle: Others.
        frozen: What becomes of its own weights.
        why: What is to be said of them.
    """

    used: list[str]
    idle: list[str]
    frozen: Freeze | None = None
    why: str = ""


@dataclass(frozen=True)
class Read:
    """What takes the place of a module that others read and never call.

    Attributes:
        edits: What is done.
        rung: How deep that cuts.
        why: What is to be said of it.
    """

    edits: list[Edit]
    rung: Rung
    why: str = ""


def uncalled(runs: Runs, modes: Sequence[Mode], path: str, what: str, *, learned: bool = False) -> Children | Read:
    """Return what becomes of a module that is never called.

    Args:
        runs: Runs of a copy of the model.
        modes: What they showed.
        path: The module.
        what: As it is named to people.
        learned: Whether a layer that learns is wanted rather than averaged channels.

    Raises:
        RemovalRefused: It is dead, or nothing can take its place.
    """
    module = runs.copy.model.get_submodule(path)
    if _is_read_dropout(runs, modes, path, module):
        rule = CallRule((), (Same(("input",)),), Nth(0))
        return Read([Attribute(path, "p", 0), StandIn(path, (rule,))], Rung.IDENTITY)
    children = [f"{path}.{name}" for name, _ in module.named_children()]
    used = [child for child in children if _is_used(runs, modes, child)]
    if _read_without_call(runs.copy.model, path, modes, used):
        return _frozen(runs, modes, path, module, what, learned=learned)
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
    return bool(_read_without_call(model, path, modes, [])) or _is_read_dropout(
        runs, modes, path, model.get_submodule(path)
    )


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


def _read_without_call(model: nn.Module, path: str, modes: Sequence[Mode], besides: list[str]) -> list[str]:
    """Return names of a module's parameters that are used, though nothing that has them is called."""
    found = []
    others = _of_called_layers(model, path, modes)
    for mode in modes:
        for name, n in mode.trace.parameters.items():
            here = under(name, path) and name not in others and not any(under(name, child) for child in besides)
            if here and mode.flow.consumers[n] and mode.trace.values[n].kind == "parameter":
                found.append(name)
    return found


def _of_called_layers(model: nn.Module, path: str, modes: Sequence[Mode]) -> set[str]:
    """Return names of parameters that layers elsewhere have as well, and are called for: those go on to use them."""
    called = {call.path for mode in modes for call in mode.trace.calls}
    return {
        name
        for names in names_of_each(model)
        if any(not under(other, path) and other.rpartition(".")[0] in called for other in names)
        for name in names
    }


def _frozen(runs: Runs, modes: Sequence[Mode], path: str, module: nn.Module, what: str, *, learned: bool) -> Read:
    """Put a constant into the place of a weight that is used without a call."""
    constants = None if any(module.children()) else constants_of_layer(module)
    why = ""
    try:
        if constants is not None and any(_ends_branch(mode, f"{path}.weight") for mode in modes):
            constants = dict.fromkeys(constants, "zeros")
            why = "what it was added to stays"
    except NoRule as none:
        raise RemovalRefused(RefusalCode[none.code], what, str(none)) from None
    edit = Freeze(path, tuple((constants or {}).items()))
    rung = Rung.NEUTRAL if why else Rung.ADAPTER
    why = why or channels_in_words(edit, module)
    if constants is None or (why and rung is Rung.ADAPTER and learned):
        raise RemovalRefused(
            RefusalCode.WITHOUT_CALL, what, "its parameters are used without calling it, so nothing can stand in."
        )
    if f"{path}.weight" in tied(runs.copy.model):
        raise RemovalRefused(RefusalCode.TIED, what, "others share its weight, and it is used without a call.")
    with runs.trying() as carry:
        carry([edit])
        for mode in modes:
            try:
                runs.run(train=mode.train)
            except Exception as broken:
                refuse_fakes(broken)
                raise RemovalRefused(RefusalCode.WITHOUT_CALL, what, f"without it: {broken}.") from None
    return Read([edit], rung if why else Rung.IDENTITY, why)


def _ends_branch(mode: Mode, name: str) -> bool:
    """Say whether what a weight makes is added to something else, so that it ends a branch that has no other layers.

    Raises:
        NoRule: It is joined in another way, and a constant weight would not leave the other path as it is.
    """
    for op in _applied(mode, mode.trace.parameters[name]):
        given: dict[Path, int] = {("given", n): n for n in op.inputs if mode.flow.depends_on_content(n)}
        call = Call(-1, "", 0, -1, op.n, op.n + 1, given, {("made",): op.outputs[0]})
        neutral = Branches(mode.flow, mode.joins, mode.meaning, [call]).joined(call, op.outputs[0])
        if neutral is not None and isinstance(neutral.rule, Fill) and neutral.rule.value == 0:
            return True
        if neutral is not None:
            raise NoRule(
                "WITHOUT_CALL", "its weight is used without calling it, for what others are scaled by or compared with."
            )
    return False


def _applied(mode: Mode, weight: int) -> Iterator[Op]:
    """Go through the operations in which a weight, or what is made of it and of others, meets what went in."""
    waiting, seen = [weight], set[int]()
    while waiting:
        for op in (mode.trace.ops[n] for n in mode.flow.consumers[waiting.pop()]):
            if op.n in seen:
                continue
            seen.add(op.n)
            if not any(map(mode.flow.depends_on_content, op.outputs)):
                waiting += op.outputs
            elif op.name != "multi_head_attention_forward":  # it has other layers, and the branch is its own
                yield op
