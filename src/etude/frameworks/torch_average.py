"""Data-parallel training without a wrapper: gradients are averaged in place, on the user's own modules.

A hook on every parameter sees when its gradient is there; when a backward ends, ``.grad`` is the average over ranks. So
it matters not how a loss came about: ``net(x)``, ``net.loss(x)``, two models in a dict, one backward or several.
Modules keep their type, methods, ``state_dict`` and copies; a copy is not averaged.

Which backward it is that ends takes care. Reentrant activation checkpointing runs a backward inside another, and
callbacks of the inner one come too early. Inside one, autograd tells a node that it is at; at the end of the outermost
there is none. From an inner end we go on to the outer one by way of the node that comes next there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import torch
import torch.distributed as dist
from torch import nn
from torch.autograd import Variable
from torch.optim.optimizer import register_optimizer_step_pre_hook

from etude.core.errors import ConfigError, RanksError
from etude.frameworks.standstill import Awaited
from etude.frameworks.torch_buckets import Lane, Slot
from etude.frameworks.torch_buffers import Buffers
from etude.frameworks.torch_drift import align, check
from etude.frameworks.torch_ranks import Groups

MOST_GROUPS: Final = 8
"""Of more modules, or of several on GPUs, gradients go at the end of backward: groups cost sockets and threads."""

_task: Final = torch._C._current_graph_task_id
_node: Final = torch._C._current_autograd_node


class Averager:
    """Averages the gradients of modules over ranks, from now on until ``detach``.

    Attributes:
        weight: How much the gradients of the next backward count on this rank: its examples x ranks / all examples of
            the batch. 1 is the mean of all; 0 leaves out what there is.
        notes: What was done at the beginning that the user may want to know.

    Args:
        modules: By their place in the model; a module that is there twice, or shares parameters, is averaged once.
        groups: Those of the ranks; all of them attach at the same point. With one rank leave the averager out.
        begins: Called when a backward begins to give gradients; what it raises ends the backward.

    Raises:
        ConfigError: A module cannot be averaged.
        RanksError: The ranks have models of different forms.
    """

    def __init__(
        self, modules: Mapping[str, nn.Module], groups: Groups, *, begins: Callable[[], object] = lambda: None
    ) -> None:
        self.weight = 1.0
        self._begins = begins
        self._groups = groups
        self._modules = dict(modules)
        _refuse_sparse(modules)
        self.notes = align(groups, modules)
        lanes = _slots(modules)
        on_gpus = any(slot.param.is_cuda for slots in lanes.values() for slot in slots)
        at_end = len(lanes) > MOST_GROUPS or (on_gpus and len(lanes) > 1)
        self._lanes = []
        self._buffers: list[Buffers] = []
        for place, slots in lanes.items():
            group = None if at_end or on_gpus else groups.add()  # the user's own collectives go through the default
            self._lanes.append(Lane(place, slots, groups, group, early=not at_end))
            self._buffers.append(Buffers(modules[place], groups, group))
        groups.averaged.update(id(slot.param) for lane in self._lanes for slot in lane.slots)
        self._left: list[torch.Tensor] = []
        self._kind = f"backward of model {groups.begin('model()').number}"
        self._name = " and ".join(place or type(module).__name__ for place, module in modules.items())
        self._backwards = 0
        self._backward: Awaited | None = None
        self._tasks: set[int] = set()
        self._handles: list[Any] = [self._listen(lane, slot) for lane in self._lanes for slot in lane.slots]
        self._handles.append(register_optimizer_step_pre_hook(self._before_step))

    def detach(self) -> None:
        """Leave the modules as they were."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._groups.averaged.difference_update(id(slot.param) for lane in self._lanes for slot in lane.slots)
        self._groups.averaged.difference_update(map(id, self._left))

    def leave(self, parameters: Iterable[torch.Tensor]) -> None:
        """Let optimizers change these parameters, which are no part of the modules, with this rank's own gradients."""
        self._left += parameters
        self._groups.averaged.update(map(id, self._left))

    def check(self) -> list[str]:
        """Compare all parameters over all ranks, and let buffers be rank 0's; return notes on what was taken over.

        All ranks call it at the same point, such as the end of an epoch.

        Raises:
            DriftError: Parameters differ by more than rounding.
        """
        notes = check(self._groups, self._modules)
        self.remember_buffers()
        return notes

    def remember_buffers(self) -> None:
        """Take buffers as they are now for the same on all ranks; called after a saved state was loaded."""
        for buffers in self._buffers:
            buffers.remember()

    # --- while a backward goes on ------------------------------------------------------------------

    def _listen(self, lane: Lane, slot: Slot) -> Any:
        """Hook a parameter; one that is frozen too, since it may be set free."""

        def reached(_: torch.Tensor) -> None:
            if _task() not in self._tasks:
                self._enter()
            if not lane.open:
                lane.begin()
            lane.reached(slot, self.weight)

        wanted = slot.param.requires_grad
        slot.param.requires_grad_(True)
        handle = slot.param.register_post_accumulate_grad_hook(reached)
        slot.param.requires_grad_(wanted)
        return handle

    def _enter(self) -> None:
        """See to it that we are called when the backward ends that goes on now."""
        task = _task()
        if self._tasks:
            self._send_at_end()
        else:
            self._begins()
            self._backwards += 1
            self._backward = self._groups.begin(self._kind, f"backward {self._backwards} of {self._name}")
        self._tasks.add(task)
        Variable._execution_engine.queue_callback(lambda: self._end(task))

    def _send_at_end(self) -> None:
        """Send no bucket early any more: with one backward inside another, parameters may get a gradient from each."""
        for lane in self._lanes:
            lane.early = False

    def _end(self, task: int) -> None:
        node = _node()
        if node is not None:
            self._tasks.discard(task)
            self._send_at_end()
            self._go_out(node)
        elif self._tasks == {task}:
            self._tasks.clear()
            self._average()
        elif task in self._tasks:
            raise RanksError(
                "An earlier backward ended with an exception that was caught, so that gradients went to the other "
                "ranks in part. Ranks cannot go on from there; let the exception end the training, which may begin "
                "again from its last checkpoint."
            )

    def _go_out(self, node: Any) -> None:
        """Go on from the end of an inner backward to the one around it, which the node that comes next belongs to."""
        held: list[Any] = []

        def outside(_: Any) -> None:
            if held:
                held.pop().remove()
            if _task() not in self._tasks:
                self._enter()

        following = next((one for one, _ in node.next_functions if one is not None), None)
        if following is not None:
            held.append(following.register_prehook(outside))

    def _average(self) -> None:
        """Finish a backward: afterwards gradients are averages, and buffers too."""
        assert self._backward is not None, "it has begun"
        touched = [lane.open for lane in self._lanes]
        if len(touched) > 1:
            marks = torch.tensor(touched, dtype=torch.uint8)
            self._groups.carry_out(
                dist.all_reduce, marks, op=dist.ReduceOp.MAX, awaited=self._backward, what="the end of a backward"
            )
            touched = marks.bool().tolist()
        pairs = [pair for pair, mark in zip(zip(self._lanes, self._buffers, strict=True), touched, strict=True) if mark]
        for lane, _ in pairs:
            if not lane.open:
                lane.begin()
            lane.send_rest(self.weight)
        for lane, buffers in pairs:
            lane.receive(self._backward)
            if buffers:
                buffers.average(self.weight, self._backward)

    # --- before an optimizer steps -----------------------------------------------------------------

    def _before_step(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """Refuse to change what nobody averages, or not yet."""
        if self._tasks or any(lane.open for lane in self._lanes):
            raise RanksError(
                "An optimizer steps before backward has ended, from a hook or after an exception, so with gradients of "
                "this rank alone. Call optimizer.step() after loss.backward()."
            )
        for group in optimizer.param_groups:
            for param in group["params"]:
                if (
                    id(param) not in self._groups.averaged
                    and param.grad is not None
                    and isinstance(param, nn.Parameter)
                ):
                    self._refuse_unknown(optimizer)

    def _refuse_unknown(self, optimizer: torch.optim.Optimizer) -> None:
        names = {id(p): name for place, m in self._modules.items() for name, p in m.named_parameters(prefix=place)}
        unknown = [
            names.get(id(param), f"one of shape {tuple(param.shape)}")
            for group in optimizer.param_groups
            for param in group["params"]
            if id(param) not in self._groups.averaged and param.grad is not None and isinstance(param, nn.Parameter)
        ]
        some = ", ".join(unknown[:5]) + (f" and {len(unknown) - 5} more" if len(unknown) > 5 else "")  # noqa: PLR2004
        raise RanksError(
            f"{type(optimizer).__name__} is about to change parameters whose gradients are this rank's alone: {some}. "
            "They came after the model function had returned, so the ranks would train models of their own without a "
            "word. Put new heads and losses with parameters into what the model function returns."
        )


def _slots(modules: Mapping[str, nn.Module]) -> dict[str, list[Slot]]:
    """Return the parameters of each module that has any of its own; those that are shared belong to the first."""
    seen: set[int] = set()
    found: dict[str, list[Slot]] = {}
    for place, module in modules.items():
        slots = []
        for name, param in module.named_parameters(prefix=place):
            is_quantised = not (param.is_floating_point() or param.is_complex())  # or a seed of Keras: never trained
            if id(param) not in seen and not is_quantised:
                seen.add(id(param))
                slots.append(Slot(name, param))
        if slots:
            found[place] = slots
    return found


def _refuse_sparse(modules: Mapping[str, nn.Module]) -> None:
    for place, module in modules.items():
        for name, part in module.named_modules(prefix=place):
            if isinstance(part, nn.Embedding | nn.EmbeddingBag) and part.sparse:
                raise ConfigError(
                    f"{name or type(part).__name__} is an embedding with sparse=True, and gradients are averaged over "
                    "ranks as dense ones. Leave out sparse=True, or train on one rank."
                )
