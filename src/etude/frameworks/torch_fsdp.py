"""Models that no rank holds as a whole: sharded with FSDP2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from etude.core.errors import ConfigError
from etude.core.ranks import FSDP
from etude.frameworks.torch_drift import align, check
from etude.frameworks.torch_ranks import Groups

try:
    from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
    from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
except ImportError as error:
    raise ConfigError(
        f"FSDP needs fully_shard, and torch {torch.__version__} does not have it. Install torch 2.6 or later."
    ) from error


class Sharded:
    """Modules that are sharded over ranks, from now on.

    Attributes:
        weight: How much the gradients of the next backward count on this rank, as an averager's does.
        notes: What was done at the beginning that the user may want to know.

    Args:
        modules: By their place in the model. They stay the objects that they are, and their classes get a subclass.
        spec: What is sharded.
        groups: Those of the ranks; all of them call it at the same point, before optimizers are made.

    Raises:
        ConfigError: There is no such block, or a method is missing.
        RanksError: The ranks have models of different forms.
    """

    def __init__(self, modules: Mapping[str, nn.Module], spec: FSDP, groups: Groups) -> None:
        self.weight = 1.0
        self._groups = groups
        self._modules = dict(modules)
        found = {place: _blocks(module, spec) for place, module in modules.items()}
        _refuse_unknown(modules, spec, any(found.values()))
        self.notes = align(groups, modules)
        if not any(found.values()):
            self.notes.append(
                "FSDP has no block=, so each rank gathers the whole model at each step. Name the class of the blocks "
                'that it repeats, for instance etude.FSDP(block="DecoderLayer").'
            )
        self.mesh = mesh_of(modules, groups)
        for place, module in modules.items():
            own = type(module).__name__
            for block in found[place]:
                fully_shard(block, mesh=self.mesh)
            fully_shard(module, mesh=self.mesh)
            for method in spec.methods:
                if callable(getattr(module, method, None)):
                    register_fsdp_forward_method(module, method)
            for name, part in module.named_modules(prefix=place):
                if isinstance(part, FSDPModule):
                    scatter: Any = _Weighted(self, groups, name or own)  # they have the methods of what torch declares
                    gather: Any = _Gathered(groups, name or own)
                    part.set_custom_reduce_scatter(scatter)
                    part.set_custom_all_gather(gather)

    def check(self) -> list[str]:
        """Let buffers be rank 0's. Parameters cannot differ: each is in one place alone."""
        return check(self._groups, self._modules)

    def remember_buffers(self) -> None:
        """Do nothing: buffers are not averaged after each backward, but become rank 0's at each check."""

    def detach(self) -> None:
        """Do nothing: modules stay sharded for good."""


class _Watched:
    """A collective of torch as it is, for which ranks wait where they know of each other what they wait for."""

    def __init__(self, collective: Any, groups: Groups, kind: str, at: str) -> None:
        self._collective = collective
        self._groups = groups
        self._kind = kind
        self._at = at

    def allocate(self, size: Any, *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """Return room for what is sent or received."""
        return torch.empty(*size, dtype=dtype, device=device)

    def carry_out(self, output: torch.Tensor, given: torch.Tensor, *, async_op: bool, **settings: Any) -> Any:
        """Carry it out, and wait for it unless torch will, or its device does."""
        awaited = self._groups.begin(self._kind, self._at)
        if async_op or output.device.type != "cpu":
            return self._collective(output, given, async_op=async_op, **settings)
        self._groups.wait(self._collective(output, given, async_op=True, **settings), awaited)
        return None


class _Gathered(_Watched):
    """Gathers parameters as torch does."""

    def __init__(self, groups: Groups, name: str) -> None:
        # Its name changed; what it does did not.
        collective = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
        super().__init__(collective, groups, "parameters", f"the parameters of {name}")

    def __call__(
        self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, group: Any, async_op: bool = False
    ) -> Any:
        return self.carry_out(output_tensor, input_tensor, group=group, async_op=async_op)


class _Weighted(_Watched):
    """Scatters sums of gradients as torch does, those of this rank weighted."""

    def __init__(self, sharded: Sharded, groups: Groups, name: str) -> None:
        collective = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
        super().__init__(collective, groups, "gradients", f"the gradients of {name}")
        self._sharded = sharded

    def __call__(
        self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, group: Any, op: Any, async_op: bool = False
    ) -> Any:
        weight = self._sharded.weight
        if weight == 0:
            input_tensor.zero_()
        elif weight != 1:
            input_tensor.mul_(weight)
        return self.carry_out(output_tensor, input_tensor, group=group, op=op, async_op=async_op)


def mesh_of(modules: Mapping[str, nn.Module], groups: Groups) -> DeviceMesh:
    """Return the ranks as torch wants them, on the device where the modules are."""
    kinds = {p.device.type for module in modules.values() for p in module.parameters()} or {"cpu"}
    if len(kinds) > 1:
        raise ConfigError(
            f"The model has parameters on {' and '.join(sorted(kinds))}, and FSDP shards those of one kind of device. "
            "Put all of them on one."
        )
    return init_device_mesh(kinds.pop(), (groups.ranks,))


def _blocks(module: nn.Module, spec: FSDP) -> list[nn.Module]:
    """Return the blocks of a module, the innermost first."""
    return [
        part for part in reversed(list(module.modules())) if type(part).__name__ in spec.blocks and part is not module
    ]


def _refuse_unknown(modules: Mapping[str, nn.Module], spec: FSDP, blocks: bool) -> None:
    """Refuse names of what is not in the model."""
    if spec.blocks and not blocks:
        there = sorted({type(part).__name__ for module in modules.values() for part in module.modules()})
        raise ConfigError(
            f"FSDP(block={_plain(spec.blocks)}) names no class of the model, whose parts are {', '.join(there)}. Name "
            "the class of the blocks that it repeats."
        )
    for method in spec.methods:
        if not any(callable(getattr(module, method, None)) for module in modules.values()):
            raise ConfigError(
                f"FSDP(methods={spec.methods!r}) names {method!r}, which no module has. Name methods of what the model "
                "function returns."
            )


def _plain(block: str | tuple[str, ...]) -> str:
    return repr(block[0] if isinstance(block, tuple) and len(block) == 1 else block)
