"""Components that make weights of others, as a weight norm does: without them the weight stays what it is.

A layer whose weight is no longer normed has the same weight as before, and trains it as any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn
from torch.nn.utils.parametrize import ParametrizationList, is_parametrized

from etude.core.errors import RefusalCode, RemovalRefused
from etude.core.rungs import Rung
from etude.frameworks.removal.edits import Bare
from etude.frameworks.removal.fake import refuse_fakes
from etude.frameworks.removal.flow import within
from etude.frameworks.removal.names import canonical, names_of_each, under
from etude.frameworks.removal.parametrized import HOLDER, makers
from etude.frameworks.removal.tracing import Mode, Runs
from etude.frameworks.removal.uncalled import Read


def unparametrized(runs: Runs, modes: Sequence[Mode], path: str) -> Read | None:
    """Return what becomes of a component that makes weights of a layer; None if it is nothing of that kind.

    Args:
        runs: Runs of a copy of the model.
        modes: What they showed.
        path: The component: what makes one weight, or all of a layer's.

    Raises:
        RemovalRefused: It is not used, others share it, or what it is made of is used without it.
    """
    model = runs.copy.model
    edit = _bared(model, path)
    if edit is None:
        return None
    called = [canonical(model, one) for one in makers(edit)]
    if not any(mode.trace.of(one) for mode in modes for one in called):
        why = "no weight that it makes is used with this example, so nothing would change without it. Leave it out."
        raise RemovalRefused(RefusalCode.DEAD, path, why)
    shared = _shared(model, makers(edit))
    if shared:
        raise RemovalRefused(RefusalCode.TIED, path, f"what it makes its weight with is shared as {shared}.")
    for mode in modes:
        calls = [call for one in called for call in mode.trace.of(one)]
        for name, n in mode.trace.parameters.items():
            here = any(under(name, one) for one in called)
            if here and any(not within(op, calls) for op in mode.flow.consumers[n]):
                raise RemovalRefused(RefusalCode.WITHOUT_CALL, path, f"{name} is also used without it.")
    with runs.trying() as carry:
        try:
            carry([edit])
            for mode in modes:
                runs.run(train=mode.train)
        except Exception as broken:
            refuse_fakes(broken)
            raise RemovalRefused(RefusalCode.WITHOUT_CALL, path, f"without it: {broken}.") from None
    return Read([edit], Rung.NEUTRAL)


def _bared(model: nn.Module, path: str) -> Bare | None:
    """Return the edit for a component that is all of what makes one weight, or several."""
    before, _, inside = f".{path}.".rpartition(f".{HOLDER}.")
    layer = before.removeprefix(".")
    if HOLDER not in path.split(".") or not is_parametrized(model.get_submodule(layer)):
        return None
    holder: Any = model.get_submodule(layer).get_submodule(HOLDER)
    name, _, step = inside.removesuffix(".").partition(".")
    if not name:
        return Bare(layer, tuple(holder))
    whole = isinstance(holder[name], ParametrizationList) and (not step or (step == "0" and len(holder[name]) == 1))
    return Bare(layer, (name,)) if whole else None


def _shared(model: nn.Module, made: list[str]) -> str:
    """Return the name that something in these modules has elsewhere, too; empty if there is none."""
    lists = {id(model.get_submodule(one)) for one in made}
    named = list(model.named_modules(remove_duplicate=False))
    mine = [name for name, module in named if id(module) in lists]

    def is_inside(name: str) -> bool:
        return any(under(name, one) for one in mine)

    inside = {id(module) for name, module in named if is_inside(name)}
    modules = [name for name, module in named if id(module) in inside and not is_inside(name)]
    parameters = [name for names in names_of_each(model) if any(map(is_inside, names)) for name in names]
    return next((name for name in (*modules, *parameters) if not is_inside(name)), "")
