"""Models that no rank holds as a whole: sharded with FSDP2, and saved in shards.

A saved state is a folder: one safetensors file for each rank, and ``index.json``, which says what each tensor is as a
whole, how it lies over the ranks, and the digest of each file. It is written last, so a folder with it is complete.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import torch
import torch.distributed as dist
from torch import nn

from etude.core.errors import ConfigError, StateError
from etude.core.ranks import FSDP
from etude.frameworks import state_file
from etude.frameworks.torch_drift import align, check
from etude.frameworks.torch_ranks import Groups, here
from etude.frameworks.trees import take_apart

try:
    from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
    from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
    from torch.distributed.tensor import DTensor, Replicate, Shard
except ImportError as error:
    raise ConfigError(
        f"FSDP needs fully_shard, and torch {torch.__version__} does not have it. Install torch 2.6 or later."
    ) from error

INDEX: Final = "index.json"
LOCAL: Final = "etude.local"
"""What marks a part of a tensor in a saved tree."""


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


def full_state(module: nn.Module, groups: Groups) -> dict[str, torch.Tensor]:
    """Return the whole state of a sharded module on rank 0, on the CPU; nothing on the others. All ranks call it."""
    whole = {}
    for name, tensor in module.state_dict().items():
        with groups.waiting(f"the parts of {name}"):
            full = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
        if groups.rank == 0:
            whole[name] = full.detach().cpu().clone()
    return whole


def save_shards(folder: Path, state: Any) -> None:
    """Write a state in shards, in a training function: ``save`` for the ranks that this process is one of.

    Args:
        folder: The same on all ranks; ``run.folder`` is another on each.
        state: As ``save`` takes it.

    Raises:
        RanksError: This process is no rank.
    """
    save(folder, state, here())


def load_shards(folder: Path, module: nn.Module) -> Any:
    """Return this rank's part of a saved state, for a module that is sharded as the one was that was saved.

    Args:
        folder: Where it was saved.
        module: A sharded one, such as the model.

    Raises:
        StateError: It is not complete, damaged, or of another number of ranks.
        ConfigError: The module is not sharded.
        RanksError: This process is no rank.
    """
    for parameter in module.parameters():
        if isinstance(parameter, DTensor):
            return load(folder, here(), parameter.device_mesh)
    raise ConfigError(
        f"{type(module).__name__} has no sharded parameters, and what is in {folder} is. Train with "
        "parallel=etude.FSDP(...), or load whole weights."
    )


def save(folder: Path, state: Any, groups: Groups) -> None:
    """Write a state in shards; all ranks call it, and it returns when everything is there.

    Args:
        folder: For this state alone; made if it is not there, and on a file system that all ranks share, or the files
            of a rank stay where it is.
        state: Dicts, lists and values with tensors in them, sharded ones and others, such as
            ``{"model": net.state_dict(), "optimizer": optimizer.state_dict()}``.
        groups: Those of the ranks.

    Raises:
        StateError: There is something in it that only pickle could write.
        OSError: It cannot be written.
    """
    tensors: dict[str, Any] = {}
    plain, arrays = take_apart(_taken(state, "", tensors), path="")
    name = _file(groups.rank, groups.ranks)
    (folder / INDEX).unlink(missing_ok=True)
    digest, size = state_file.write(folder / name, plain, arrays)
    files = groups.gather({"file": name, "digest": digest, "bytes": size})
    if groups.rank == 0:
        for one in files:
            for tensor in tensors.values():
                tensor["files"].append(one["file"])
        aside = folder / f".{INDEX}.part"
        aside.write_text(json.dumps({"ranks": groups.ranks, "files": files, "tensors": tensors}, indent=1))
        aside.rename(folder / INDEX)
    groups.gather(None)  # nobody goes on before the index is there


def load(folder: Path, groups: Groups, mesh: DeviceMesh) -> Any:
    """Return this rank's part of a saved state; what was sharded is again.

    Args:
        folder: Where it was saved.
        groups: Those of the ranks, as many as saved it.
        mesh: What the model is sharded over (``Sharded.mesh``).

    Raises:
        StateError: It is not complete, damaged, or of another number of ranks.
    """
    try:
        index = json.loads((folder / INDEX).read_text())
    except (OSError, ValueError) as error:
        raise StateError(f"{folder} holds no complete state: its {INDEX} is missing or damaged ({error}).") from error
    if index["ranks"] != groups.ranks:
        raise StateError(
            f"{folder} was saved by {index['ranks']} ranks, and {groups.ranks} are to go on. A sharded state is for as "
            f"many ranks as saved it: go on with ranks={index['ranks']}, or begin from its whole weights."
        )
    mine = index["files"][groups.rank]
    return _put_back(state_file.read(folder / mine["file"], mine["digest"]), mesh)


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


def _file(rank: int, ranks: int) -> str:
    return f"shard-{rank + 1:05d}-of-{ranks:05d}.safetensors"


def _taken(value: Any, path: str, tensors: dict[str, Any]) -> Any:
    """Return a state with this rank's parts in place of sharded tensors; tell of each what it is as a whole."""
    if isinstance(value, DTensor):
        placements = [f"shard {p.dim}" if isinstance(p, Shard) else "replicate" for p in value.placements]
        told = {"shape": list(value.shape), "stride": list(value.stride()), "placements": placements}
        tensors[path] = {**told, "dtype": str(value.dtype).removeprefix("torch."), "files": []}
        return {LOCAL: value.to_local().detach(), **told}
    if isinstance(value, Mapping):
        return {key: _taken(item, f"{path}.{key}" if path else str(key), tensors) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [_taken(item, f"{path}[{nth}]", tensors) for nth, item in enumerate(value)]
        return items if isinstance(value, list) else tuple(items)
    return value


def _put_back(value: Any, mesh: DeviceMesh) -> Any:
    if isinstance(value, dict) and LOCAL in value:
        placements = [
            Replicate() if said == "replicate" else Shard(int(said.removeprefix("shard ")))
            for said in value["placements"]
        ]
        local = value[LOCAL].to(mesh.device_type)
        shape, stride = torch.Size(value["shape"]), tuple(value["stride"])
        return DTensor.from_local(local, mesh, placements, run_check=False, shape=shape, stride=stride)
    if isinstance(value, dict):
        return {key: _put_back(item, mesh) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [_put_back(item, mesh) for item in value]
        return items if isinstance(value, list) else tuple(items)
    return value
