"""PyTorch: seeds, generators for loaders, and the device."""

from __future__ import annotations

import copy
import dataclasses
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, Final, TypeVar

import torch
from torch.nn.parameter import is_lazy
from torch.utils.data import DataLoader

from etude.core.data import Data
from etude.core.errors import StateError
from etude.core.streams import stream_seed
from etude.frameworks.coats import Coat, put_on, wears, worn
from etude.frameworks.loading import Loaded, Parts, match
from etude.frameworks.sources import Source
from etude.frameworks.torch_marks import mark, passes_of

T = TypeVar("T")


def random_state() -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Return the state of torch's global generators."""
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    return torch.get_rng_state(), cuda


def restore_random_state(state: tuple[torch.Tensor, list[torch.Tensor]]) -> None:
    """Put the state of torch's global generators back; a process without torch may have handed it on, as arrays."""
    torch.set_rng_state(_as_tensor(state[0]))
    if state[1]:
        torch.cuda.set_rng_state_all(list(map(_as_tensor, state[1])))
    else:  # CUDA had not been started, so nobody had drawn from it since it was to be seeded like the CPU
        _seed_cuda(torch.initial_seed())


def source_of(generator: torch.Generator) -> Source:
    """Return how the state of a generator is read and set; it takes arrays as well, as above."""
    return Source(generator.get_state, lambda state: generator.set_state(_as_tensor(state)))


def _as_tensor(state: Any) -> Any:
    return torch.from_numpy(state) if type(state).__module__ == "numpy" else state


def seed(value: int) -> None:
    """Seed torch's global generators; CUDA is not started by it, so that a fork stays possible."""
    torch.default_generator.manual_seed(value)
    _seed_cuda(value)


def _seed_cuda(value: int) -> None:
    if torch.backends.cuda.is_built():
        torch.cuda.manual_seed_all(value)  # at once if CUDA was started, else when it starts


def default_device() -> str:
    """Return the device that a run uses: the first GPU that is visible, else the CPU."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def set_threads(n: int) -> None:
    """Let torch's operators use ``n`` threads."""
    torch.set_num_threads(n)


def gpu_peak_mb() -> float | None:
    """Return the peak of GPU memory that this process kept from others, in MB; None if it used no GPU.

    That is what torch had reserved, of all GPUs together: more than its tensors took.
    """
    if not torch.cuda.is_initialized():
        return None
    return sum(torch.cuda.max_memory_reserved(i) for i in range(torch.cuda.device_count())) / 2**20


def forget_gpu_peak() -> None:
    """Give back what no tensor holds, and have the peak start over from what is left."""
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
        for i in range(torch.cuda.device_count()):
            torch.cuda.reset_peak_memory_stats(i)


def prepare_data(data: Any, *, seed: int, device: str) -> Any:
    """Give each loader a generator of its own where the user set none, and batches on ``device``.

    What a data set draws for an example depends on the seed, the pass and the example alone (``torch_reseeded``).

    Args:
        data: What the data function returned: a loader, a ``Data``, or any nesting of tuples, lists
            and dicts of them. It is returned as it is, and so is everything else.
        seed: The trial's seed.
        device: Where batches are wanted.
    """
    for number, loader in enumerate(every(DataLoader, data)):
        give_generator(loader, stream_seed(seed, "data", "loader", number, bits=63))
        mark(loader, stream_seed(seed, "data", "examples", number, bits=63))
        on_device(loader, device)
    return data


def generators(data: Any) -> list[torch.Generator]:
    """Return what loaders and their samplers draw from, in order, each once; then what seeds their examples."""
    there: dict[int, torch.Generator] = {}
    loaders = list(every(DataLoader, data))
    for loader in loaders:
        for place in _places(loader):
            generator = getattr(place, "generator", None)
            if isinstance(generator, torch.Generator):
                there[id(generator)] = generator
    passes = (passes_of(loader) for loader in loaders)
    return [*there.values(), *(one.generator for one in passes if one is not None)]


def modules(model: Any) -> dict[str, torch.nn.Module]:
    """Return the modules that a model function gave, by their place in it; a single one has no name."""
    there = list(every(torch.nn.Module, model))
    return {"": there[0]} if len(there) == 1 else {str(nth): module for nth, module in enumerate(there)}


def lazy_in(module: torch.nn.Module) -> str | None:
    """Return the name of a parameter that is made when the module is first called; None if there is none."""
    return next((name for name, one in module.named_parameters() if is_lazy(one)), None)


def size_of(model: Any) -> int:
    """Return the bytes that the states of a model's modules take."""
    states = [module.state_dict() for module in modules(model).values()]
    arrays = [array for state in states for array in state.values() if torch.is_tensor(array) and not is_lazy(array)]
    return sum(array.numel() * array.element_size() for array in arrays)


def load_weights(model: Any, weights: Parts, *, shrink: float = 1.0, perturb: float = 0.0) -> Loaded:
    """Load weights into the modules that a model function gave, and tell which.

    Args:
        model: A module, or any nesting of modules.
        weights: The states of modules, by what they are called.
        shrink: How much of the weights is taken; buffers are taken as they are.
        perturb: How much of what the model has by now is added to it.

    Raises:
        StateError: Nothing fits, or there is no module.
    """
    found = modules(model)
    states = {name: module.state_dict() for name, module in found.items()}
    loads, told = match(states, weights)
    for name, module in found.items():
        learned = {key for key, _ in module.named_parameters(remove_duplicate=False)}
        if (shrink, perturb) != (1.0, 0.0):
            for key in loads[name].keys() & learned:
                here = states[name][key]
                if not is_lazy(here):
                    loads[name][key] = shrink * loads[name][key].to(here) + perturb * here
        module.load_state_dict(loads[name], strict=False)
    return told


def take_moments(optimizer: Any, state: Mapping[str, Any], *, path: str) -> None:
    """Give an optimizer what another had learned of its parameters; its settings stay its own.

    Args:
        optimizer: It.
        state: That of the other, as its ``state_dict`` gave it.
        path: What it is called, for the message.

    Raises:
        StateError: It is no optimizer, or one of other parameters.
    """
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise StateError(f"{path} is no optimizer of torch, and is to begin with the state of one.")
    own = optimizer.state_dict()
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    numbers = [number for group in own["param_groups"] for number in group["params"]]
    groups = [len(group["params"]) for group in own["param_groups"]]
    if groups != [len(group["params"]) for group in state["param_groups"]]:
        raise StateError(f"{path} has other groups of parameters than the optimizer whose state it is to begin with.")
    settings, others = (
        {name for group in groups for name in group if not name.startswith("initial_")}
        for groups in (own["param_groups"], state["param_groups"])
    )
    if settings != others:
        raise StateError(
            f"{path} is an optimizer of another kind than that whose state it is to begin with: it has the settings "
            f"{', '.join(sorted(settings))}, and that had {', '.join(sorted(others))}. Leave .with_optimizer() out."
        )
    for number, parameter in zip(numbers, parameters, strict=True):
        for name, moment in state["state"].get(number, {}).items():
            if getattr(moment, "ndim", 0) and moment.shape != parameter.shape:
                raise StateError(
                    f"{path} is to begin with the state of another optimizer, whose {name} is {tuple(moment.shape)} "
                    f"where its own parameter {number} is {tuple(parameter.shape)}. Leave .with_optimizer() out."
                )
    begins = {"state": state["state"], "param_groups": own["param_groups"]}
    if "etude.frameworks.torch_fsdp" in sys.modules:  # else nobody has sharded anything
        from etude.frameworks.torch_fsdp_states import distribute

        begins = distribute(optimizer, begins)
    optimizer.load_state_dict(begins)


def place(model: Any, *, device: str) -> Any:
    """Move a module, or any nesting of modules, to ``device``; it stays the object that it was."""
    if device != "cpu":
        for module in every(torch.nn.Module, model):
            module.to(device)
    return model


def give_generator(loader: DataLoader[Any], value: int) -> None:
    """Let a loader and its sampler draw from generators of their own, unless the user gave them some.

    A generator of ours is made anew each time: a loader may be older than this run, and serve many.
    """
    for number, place in enumerate(_places(loader)):
        if getattr(place, "generator", place) is getattr(place, OURS, None):  # None and None, or the one we gave
            generator = torch.Generator().manual_seed(stream_seed(value, number, bits=63))
            place.generator = generator
            setattr(place, OURS, generator)


def _places(loader: DataLoader[Any]) -> list[Any]:
    """Return what may draw for a loader: itself and its samplers, those that are within others too, each once."""
    found: dict[int, Any] = {id(loader): loader}
    for place in (getattr(place, DEALT, place) for place in (loader.sampler, loader.batch_sampler)):
        while place is not None and id(place) not in found:
            found[id(place)] = place
            place = getattr(place, "sampler", None)  # noqa: PLW2901
    return list(found.values())


def on_device(loader: DataLoader[Any], device: str) -> DataLoader[Any]:
    """Let a loader yield its batches on ``device``; it stays the object and the type that it was."""
    if device != "cpu" or wears(loader, MOVING):
        put_on(loader, MOVING, device)
    return loader


OURS: Final = "_etude_generator"
DEALT: Final = "dealt"
"""Where a sampler that stands for the user's has that one."""
MOST_LOADERS: Final = 1000
"""A longer list is one of examples, and nobody looks for loaders and models in it."""


def _moves(below: type[Any]) -> Mapping[str, Any]:
    def __iter__(self: Any) -> Iterator[Any]:  # noqa: N807 - the inner one begins at once, and draws then
        return _all_moved(below.__iter__(self), worn(self, MOVING))

    return {"__iter__": __iter__}


MOVING: Final = Coat("moving", _moves)


def _all_moved(batches: Iterator[Any], device: str) -> Iterator[Any]:
    for batch in batches:
        yield _moved(batch, device)


def _moved(value: Any, device: str) -> Any:
    """Return a batch on ``device``: tensors in nested containers, which keep their types."""
    if callable(getattr(value, "to", None)):  # a packed sequence, the batch of another library: it knows best
        return value.to(device, **{"non_blocking": True} if torch.is_tensor(value) else {})
    if isinstance(value, Data):
        return value.with_parts(*(_moved(part, device) for part in (value.train, value.valid, value.test)))
    if isinstance(value, Mapping):
        items = {k: _moved(v, device) for k, v in value.items()}
        return _refilled(value, items)
    if isinstance(value, list | tuple):
        moved = [_moved(v, device) for v in value]
        return type(value)(*moved) if hasattr(value, "_fields") else _refilled(value, moved)
    return value


def _refilled(value: Any, items: Any) -> Any:
    """Return a container of the same type with other items in it; the plain items where it cannot be made."""
    if isinstance(value, MutableMapping):
        copied = copy.copy(value)  # what else it knows, such as the default of a defaultdict, stays
        copied.update(items)
        return copied
    try:
        return type(value)(items)
    except TypeError:
        return items


def every(cls: type[T], value: Any) -> Iterator[T]:
    """Yield every object of a class in nested containers, in order, each once."""
    seen: set[int] = set()

    def look(value: Any) -> Iterator[T]:
        if isinstance(value, cls):
            if id(value) not in seen:
                seen.add(id(value))
                yield value
        elif isinstance(value, Data):
            yield from look((value.train, value.valid, value.test))
        elif isinstance(value, Mapping):
            yield from look(tuple(value.values()) if len(value) <= MOST_LOADERS else ())
        elif isinstance(value, list | tuple) and len(value) <= MOST_LOADERS:
            for item in value:
                yield from look(item)
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            yield from look(tuple(getattr(value, field.name) for field in dataclasses.fields(value)))

    return look(value)
