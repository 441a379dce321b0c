"""Drift: whether all ranks still train one model, from checksums of every parameter.

A checksum is exact and of the bits: their sum as whole numbers in 1,024 columns, and these weighted, all modulo 2^64,
on the device where the parameter is. It is no secret digest; it tells an accident, and reads the memory once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parameter import is_lazy

from etude.core.errors import ConfigError, DriftError, RanksError
from etude.frameworks.torch_keras import untrained
from etude.frameworks.torch_ranks import Groups

COLUMNS: Final = 1024
ROUNDINGS: Final = 1000.0
"""So many roundings of the largest value may lie between ranks on different processors, epoch by epoch."""

MOST: Final = 1e-2
"""No larger share of the largest value, unless the type is so coarse that a few roundings are more."""

A_FEW: Final = 4

COMPARED: Final = "the comparison of parameters"

Tensors = dict[str, torch.Tensor]


def align(groups: Groups, modules: Mapping[str, nn.Module]) -> list[str]:
    """Let all modules begin alike: where they differ, rank 0's parameters and buffers are taken over.

    Args:
        groups: Those of the ranks; all of them call it.
        modules: By their place in the model.

    Returns:
        Notes on what was taken over.

    Raises:
        ConfigError: A module has parameters that are not made yet.
        RanksError: The modules are not of the same form on all ranks.
    """
    tensors = {**_parameters(modules), **_buffers(modules)}
    if unmade := [name for name, tensor in tensors.items() if is_lazy(tensor)]:
        raise ConfigError(
            f"{_some(unmade)} has no shape yet: the module is lazy, so ranks would make it from numbers of their own. "
            "Let one batch go through the model in the model function, before it is returned."
        )
    same_form(groups, tensors)
    differ = differing(groups, tensors)
    _take_over(groups, tensors, list(differ))
    if not differ:
        return []
    return [f"The ranks began with different values of {_some(differ)}; all of them have rank 0's now."]


def check(groups: Groups, modules: Mapping[str, nn.Module]) -> list[str]:
    """Compare all parameters over all ranks, to the bit; buffers become rank 0's.

    Parameters that differ by rounding alone, as on different processors, become rank 0's too.

    Args:
        groups: Those of the ranks; all of them call it at the same point, such as the end of an epoch.
        modules: By their place in the model.

    Returns:
        Notes on what was taken over.

    Raises:
        DriftError: Parameters differ by more than rounding.
    """
    parameters, buffers = _parameters(modules), _buffers(modules)
    differ = differing(groups, {**parameters, **buffers})
    if not differ:
        return []
    own = {name: parameters[name].detach().clone() for name in differ if name in parameters}
    _take_over(groups, {**parameters, **buffers}, list(differ))
    if not own:
        return []
    here = {name: (_distance(mine, parameters[name]), _tolerance(parameters[name])) for name, mine in own.items()}
    there = groups.gather(here, COMPARED)
    worst = {name: max(range(groups.ranks), key=lambda rank: there[rank][name][0]) for name in own}
    far = [name for name in own if not all(found[name][0] <= found[name][1] for found in there)]
    if not far:
        return [
            f"{_some(own)} differed between ranks by rounding; all of them have rank 0's values now. Ranks on "
            "different processors compute a little differently."
        ]
    name = max(far, key=lambda name: there[worst[name]][name][0])
    distance = there[worst[name]][name][0]
    others = f" It is one of {len(far)} that differ: {_some(far)}." if len(far) > 1 else ""
    raise DriftError(
        f"{name} is not the same on all ranks: on {_ranks(differ[name])} it differs from rank 0's by up to "
        f"{distance:.3g}.{others} The ranks train models of their own, and no average of them is meant by your code. "
        "Usual causes: a parameter is changed elsewhere than by an optimizer (change it alike on all ranks); a "
        "learning rate or a stop depends on a loss or metric of one rank alone (use run.mean(value), or "
        "evaluate on whole loaders); gradients come from torch.autograd.grad, which gives those of one rank (use "
        "backward); a parameter is drawn anew from a generator that differs by rank (draw it in the model function); "
        "backward or step is not called on every rank (call it on all, with a loss of 0 where need be)."
    )


def same_form(groups: Groups, tensors: Tensors) -> None:
    """Refuse tensors that are not of the same names, shapes and types on all ranks.

    Raises:
        RanksError: They are not; the first that differs is named.
    """
    form = [[name, list(tensor.shape), str(tensor.dtype)] for name, tensor in tensors.items()]
    forms = groups.gather(form, "model()")
    for rank, other in enumerate(forms):
        if other != forms[0]:
            odd = next((pair for pair in zip(other, forms[0], strict=False) if pair[0] != pair[1]), None)
            told = (
                f"it has {odd[0][0]} of shape {tuple(odd[0][1])} and type {odd[0][2]}, and rank 0 has {odd[1][0]} of "
                f"shape {tuple(odd[1][1])} and type {odd[1][2]}"
                if odd is not None
                else f"it has {len(other)} parameters and buffers, and rank 0 has {len(forms[0])}"
            )
            raise RanksError(
                f"Rank {rank} has another model than rank 0: {told}. All ranks train one model, so the model function "
                "has to give the same on all of them. Let its form depend on parameters alone."
            )


def differing(groups: Groups, tensors: Tensors) -> dict[str, list[int]]:
    """Return the names of tensors that are not the same to the bit on all ranks, each with the ranks unlike rank 0."""
    if not tensors:
        return {}
    sums = checksums(tensors.values())
    rows = torch.empty(groups.ranks, len(sums), dtype=torch.int64)
    awaited = groups.begin("comparison", COMPARED)
    groups.carry_out(dist.all_gather, list(rows), sums, awaited=awaited, what="the checksums of the parameters")
    unlike = rows != rows[0]
    names = list(tensors)
    where = unlike.any(dim=0).nonzero().flatten().tolist()
    return {names[nth]: unlike[:, nth].nonzero().flatten().tolist() for nth in where}


def checksums(tensors: Iterable[torch.Tensor]) -> torch.Tensor:
    """Return a checksum of the bits of each tensor, on the CPU; one wait for each device."""
    with torch.no_grad():
        by_device: dict[torch.device, list[tuple[int, torch.Tensor]]] = {}
        for nth, tensor in enumerate(tensors):
            by_device.setdefault(tensor.device, []).append((nth, _checksum(tensor.detach())))
        found = torch.zeros(sum(map(len, by_device.values())), dtype=torch.int64)
        for pairs in by_device.values():
            found[[nth for nth, _ in pairs]] = torch.stack([value for _, value in pairs]).cpu()
        return found


_FACTORS: dict[torch.device, torch.Tensor] = {}
"""Odd numbers, one for each column; the same on every machine."""


def _checksum(tensor: torch.Tensor) -> torch.Tensor:
    """Return the checksum, on the tensor's device."""
    factors = _FACTORS.get(tensor.device)
    if factors is None:
        odd = torch.arange(1, COLUMNS + 1, dtype=torch.int64) * 6364136223846793005
        factors = _FACTORS[tensor.device] = (odd | 1).to(tensor.device)
    flat = in_memory_order(tensor).view(torch.uint8)
    if flat.storage_offset() % 8 or flat.data_ptr() % 8:  # a sum is of eight bytes at a time, on every rank
        flat = flat.clone()
    wide = flat[: flat.numel() // 8 * 8].view(torch.int64)
    rest = flat[wide.numel() * 8 :].to(torch.int64)
    total = tensor.new_zeros((), dtype=torch.int64)
    for part in (wide, rest):
        rows = part.numel() // COLUMNS
        if rows:
            total = total + (part[: rows * COLUMNS].view(rows, COLUMNS).sum(dim=0) * factors).sum()
        if tail := part.numel() - rows * COLUMNS:
            total = total + (part[rows * COLUMNS :] * factors[:tail]).sum() * 3
    return total


def in_memory_order(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor's elements in a row: as they lie in memory where they lie without gaps, else copied."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    if is_dense(tensor):
        return tensor.as_strided((tensor.numel(),), (1,))
    return tensor.contiguous().view(-1)


def is_dense(tensor: torch.Tensor) -> bool:
    """Say whether a tensor's elements lie without gaps and overlaps, in whatever order."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True


def _parameters(modules: Mapping[str, nn.Module]) -> Tensors:
    """Return all parameters by their names, each once; but for those of which each rank has a part."""
    found: dict[int, tuple[str, torch.Tensor]] = {}
    for place, module in modules.items():
        others = {id(variable.tensor) for variable in untrained(module)}
        for name, parameter in module.named_parameters(prefix=place):
            if id(parameter) not in others and not hasattr(parameter, "placements"):
                found.setdefault(id(parameter), (name, parameter))
    return dict(found.values())


def _buffers(modules: Mapping[str, nn.Module]) -> Tensors:
    """Return all buffers by their names, each once, and what stands for them in models of Keras."""
    found: dict[int, tuple[str, torch.Tensor]] = {}
    for place, module in modules.items():
        for name, buffer in module.named_buffers(prefix=place):
            found.setdefault(id(buffer), (name, buffer))
        for variable in untrained(module, prefix=place):
            if not variable.is_seed:
                found.setdefault(id(variable.tensor), (variable.name, variable.tensor))
    return dict(found.values())


def _take_over(groups: Groups, tensors: Tensors, names: list[str]) -> None:
    """Give all ranks rank 0's values."""
    what = "rank 0's parameters"
    awaited = groups.begin(what, COMPARED)
    with torch.no_grad(), groups.waiting(what):
        for name in names:
            tensor = tensors[name].detach()
            sent = tensor if tensor.is_contiguous() else tensor.contiguous()
            work = dist.broadcast(torch.view_as_real(sent) if sent.is_complex() else sent, src=0, async_op=True)
            groups.wait(work, awaited, what, device=sent.device.type)
            if sent is not tensor:
                tensor.copy_(sent)


def _distance(mine: torch.Tensor, first: torch.Tensor) -> float:
    """Return the largest difference; infinite where one has NaN and the other a number."""
    if not mine.numel():
        return 0.0
    mine, first = mine.detach(), first.detach()
    apart = torch.where((mine == first) | (mine.isnan() & first.isnan()), 0, (mine - first).abs())
    return float(apart.double().nan_to_num(nan=torch.inf).max())


def _tolerance(tensor: torch.Tensor) -> float:
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return 0.0
    finite = tensor.detach().abs().double().nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    eps = torch.finfo(tensor.dtype).eps
    return min(ROUNDINGS * eps, max(MOST, A_FEW * eps)) * float(finite.max())


def _some(names: Iterable[str]) -> str:
    """Return the first names of several."""
    listed = list(names)
    return ", ".join(listed[:5]) + (f" and {len(listed) - 5} more" if len(listed) > 5 else "")  # noqa: PLR2004


def _ranks(numbers: list[int]) -> str:
    return ("rank " if len(numbers) == 1 else "ranks ") + ", ".join(map(str, numbers))
