"""What a removal cuts off: inputs and layers that the model's results would no longer depend on.

Small things that only the removed module read, such as a norm in front of it, stay and have no effect; that is said.
Layers that mix are another matter: a whole encoder should not fall silent because the attention that reads it went.
"""

from __future__ import annotations

import math
from dataclasses import replace

from torch import nn

from etude.core.errors import RefusalCode, RemovalRefused
from etude.core.rungs import Rung
from etude.frameworks.removal.edits import Fit
from etude.frameworks.removal.flow import values
from etude.frameworks.removal.names import is_small, under
from etude.frameworks.removal.rules import Choice
from etude.frameworks.removal.trace import Call, Value
from etude.frameworks.removal.tracing import Mode

SHOWN = 3


class Reach:
    """What results depend on before and after a module is taken out.

    Args:
        model: The model.
        path: The module.
        mode: A run.
        calls: Calls of the module in it.
    """

    def __init__(self, model: nn.Module, path: str, mode: Mode, calls: list[Call]) -> None:
        self._model, self._path, self._mode, self._calls = model, path, mode, calls
        self.controls = self._controls()

    def starved(self, chosen: list[Choice]) -> int:
        """Return layers that mix, and content if none was left, that would have no effect any more, as bits."""
        bits = self._content_lost(chosen)
        for value in self._mixing(self.lost(chosen)):
            bits |= 1 << value.n
        return bits

    def lost(self, chosen: list[Choice]) -> list[Value]:
        """Return parameters of other layers that the results would no longer depend on."""
        if not self._calls:
            return []
        flow = self._mode.flow
        gone = values(flow.reached() & ~flow.reached(self._replaced(chosen)), self._mode.trace)
        return [v for v in gone if v.kind == "parameter" and not under(v.name, self._path)]

    def doubled(self, chosen: list[Choice]) -> str:
        """Return the operation of which one side would repeat the other one; empty if there is none."""
        made = self._replaced([replace(c, reads=()) if _mixes(c) else c for c in chosen])
        found = self._mode.sources.doubled(made, self._calls)
        return found.name if found else ""

    def unread(self, chosen: list[Choice]) -> list[str]:
        """Return paths of modules without parameters, activations and the like, that nothing reads any more."""
        if not self._calls:
            return []
        flow, trace = self._mode.flow, self._mode.trace
        before, after = flow.reached(), flow.reached(self._replaced(chosen))
        read: dict[str, list[bool]] = {}
        for call in trace.calls:
            module = self._model.get_submodule(call.path)
            small = is_small(module) and not list(module.children()) and not list(module.parameters())
            made = [n for n in call.outputs.values() if n not in call.inputs.values()]
            if small and made and not under(call.path, self._path):
                read.setdefault(call.path, []).append(any(after >> n & 1 or not before >> n & 1 for n in made))
        return [path for path, calls in read.items() if not any(calls)]

    def refuse(self, chosen: list[Choice], what: str) -> None:
        """Refuse what cuts the results off from the inputs, or layers that mix from the results."""
        if self._content_lost(chosen):
            raise RemovalRefused(
                RefusalCode.NO_PATH, what, "what the model gives would no longer depend on what goes in."
            )
        mixing = [v.name for v in self._mixing(self.lost(chosen))]
        if mixing:
            shown = ", ".join(mixing[:SHOWN]) + (", ..." if len(mixing) > SHOWN else "")
            raise RemovalRefused(RefusalCode.NO_PATH, what, f"{shown} would no longer have any effect.")

    def _mixing(self, lost: list[Value]) -> list[Value]:
        return [v for v in lost if len(v.shape) > 1 and not self.controls >> v.n & 1]

    def _content_lost(self, chosen: list[Choice]) -> int:
        """Return the content inputs, as bits, if the results would depend on none of them any more."""
        flow = self._mode.flow
        if not self._calls or not flow.reached() & flow.content_bits:
            return 0
        return 0 if flow.reached(self._replaced(chosen)) & flow.content_bits else flow.content_bits

    def _replaced(self, chosen: list[Choice]) -> dict[int, tuple[int, ...]]:
        """Return what each output is computed from, once rules stand for them."""
        outputs = [n for call in self._calls for n in call.outputs.values()]
        pairs = zip(outputs, chosen, strict=True)
        return {n: choice.reads for n, choice in pairs if choice.reads != (n,)}

    def _controls(self) -> int:
        """Return what is computed beside a module, as bits, and says how it works: the router of experts, for instance.

        It comes from what the module is given as well, lies in the same block, and has fewer parameters than it.
        """
        trace, flow, found = self._mode.trace, self._mode.flow, 0
        for call in self._calls:
            shapes = {trace.values[n].shape for n in call.outputs.values()}
            like = [n for n in call.inputs.values() if trace.values[n].shape in shapes and flow.carries(n)]
            for n in call.inputs.values():
                if trace.values[n].shape not in shapes and any(flow.is_ancestor(flow.origin(one), n) for one in like):
                    found |= flow.ancestors[n]
            for n in like:
                found &= ~flow.ancestors[n]
        theirs = [v for v in values(found, trace) if v.kind == "parameter"]
        own = sum(p.numel() for p in self._model.get_submodule(self._path).parameters())
        small = sum(math.prod(v.shape) for v in theirs) < own
        return found if small and all(under(v.name, self._path.rpartition(".")[0]) for v in theirs) else 0


def _mixes(choice: Choice) -> bool:
    """Say whether what stands for an output mixes channels: it says something of its own then."""
    return choice.rung is Rung.LEARNED or (isinstance(choice.rule, Fit) and choice.rule.channels == "averaged")
