"""PyTorch: seeds, generators for loaders, and the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, RandomSampler

from etude.core.data import Data
from etude.core.streams import stream_seed


def random_state() -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Return the state of torch's global generators."""
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    return torch.get_rng_state(), cuda


def restore_random_state(state: tuple[torch.Tensor, list[torch.Tensor]]) -> None:
    """Put the state of torch's global generators back."""
    torch.set_rng_state(state[0])
    if state[1]:
        torch.cuda.set_rng_state_all(state[1])


def seed(value: int) -> None:
    """Seed torch's global generators; CUDA's only if CUDA was started, so that a fork stays possible."""
    torch.default_generator.manual_seed(value)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(value)


def default_device() -> str:
    """Return the device that a run uses: the first GPU that is visible, else the CPU."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def set_threads(n: int) -> None:
    """Let torch's operators use ``n`` threads."""
    torch.set_num_threads(n)


def gpu_memory_mb() -> float | None:
    """Return the peak of GPU memory that this process held, in MB; None if it used no GPU."""
    if not torch.cuda.is_initialized():
        return None
    return sum(torch.cuda.max_memory_allocated(i) for i in range(torch.cuda.device_count())) / 2**20


def prepare_data(data: Any, *, seed: int, device: str) -> Any:
    """Give each loader a generator of its own where the user set none, and batches on ``device``.

    Args:
        data: What the data function returned: a loader, a ``Data``, or any nesting of tuples, lists
            and dicts of them. Everything else is left as it is.
        seed: The trial's seed.
        device: Where batches are wanted.
    """
    numbered = iter(range(2**31))

    def prepare(value: Any) -> Any:
        if isinstance(value, DataLoader):
            give_generator(value, stream_seed(seed, "data", "loader", next(numbered), bits=63))
            return on_device(value, device)
        return value

    return _map(data, prepare)


def place(model: Any, *, device: str) -> Any:
    """Move a module, or any nesting of modules, to ``device``."""
    if device == "cpu":
        return model
    return _map(model, lambda value: value.to(device) if isinstance(value, torch.nn.Module) else value)


def give_generator(loader: DataLoader[Any], value: int) -> None:
    """Let a loader and its sampler draw from a generator of their own, unless they have one."""
    if loader.generator is None:
        loader.generator = torch.Generator().manual_seed(value)
    sampler = loader.sampler
    if isinstance(sampler, RandomSampler) and sampler.generator is None:
        sampler.generator = torch.Generator().manual_seed(stream_seed(value, "sampler", bits=63))


def on_device(loader: DataLoader[Any], device: str) -> DataLoader[Any]:
    """Let a loader yield its batches on ``device``; it stays the object and the type that it was."""
    if device == "cpu":
        return loader
    cls = type(loader)

    def __iter__(self: Any) -> Iterator[Any]:  # noqa: N807 - looked up on the type, so it has to be there
        for batch in cls.__iter__(self):
            yield _map(batch, lambda v: v.to(device, non_blocking=True) if torch.is_tensor(v) else v)

    loader.__class__ = type(cls.__name__, (cls,), {"__iter__": __iter__, "__module__": cls.__module__})
    return loader


def _map(value: Any, change: Callable[[Any], Any]) -> Any:
    """Apply ``change`` to every leaf of nested containers, and keep their types."""
    if isinstance(value, Data):
        value.train, value.valid, value.test = (_map(v, change) for v in (value.train, value.valid, value.test))
        return value
    if isinstance(value, tuple):
        items = [_map(v, change) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, list):
        return [_map(v, change) for v in value]
    if isinstance(value, dict):
        return {k: _map(v, change) for k, v in value.items()}
    return change(value)
