"""Which layers of a model read features that are dropped, and the model without these inputs.

It is found by trying. The model runs on a batch, on the batch with the dropped features changed, and on the batch with
all others changed. Inputs of a layer that follow the dropped ones and no other are theirs alone, and go with them: the
columns of a first layer, of each of several that read the data, or all that an embedding of one feature gives. What
was found is carried out on a copy, which has to run on the data without the features, and has to give what the whole
model gives when these inputs count for nothing: a model that reads features by their place would not.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeAlias

import torch
from msgspec import Struct
from torch import nn

from etude.frameworks.cutting import CannotCutError, Kept
from etude.frameworks.removal.nested import Path, mapped, tensors
from etude.frameworks.removal.tracing import arguments
from etude.frameworks.torch_dropped import Where, indices, places_of_dropped, without_dropped
from etude.frameworks.torch_inputs import inputs_of, keep_inputs, n_inputs

CLOSE: Final = 1e-4
"""Results are equal if they differ by no more than this share of the largest."""


class Cut(Struct, frozen=True):
    """Inputs of a layer that stay.

    Attributes:
        path: The layer.
        kept: Which of its inputs, by number.
        of: How many it had.
    """

    path: str
    kept: tuple[int, ...]
    of: int


class Cuts(Struct, frozen=True):
    """What goes with features that are dropped.

    Attributes:
        cuts: Layers with fewer inputs.
        gone: Layers that read nothing else, each in a list or a dict of modules.
    """

    cuts: tuple[Cut, ...] = ()
    gone: tuple[str, ...] = ()

    @property
    def changes(self) -> tuple[str, ...]:
        """What is done to the model, in words."""
        fewer = (f"{cut.path or 'the model'} {cut.of}->{len(cut.kept)} inputs" for cut in self.cuts)
        return (*(f"{path} goes with it" for path in self.gone), *fewer)


_NOWHERE: Final[Where] = (0, ())


def cut(model: nn.Module, cuts: Cuts) -> None:
    """Take inputs off a model, in place; all else keeps its name and its values."""
    for one in cuts.cuts:
        layer = model.get_submodule(one.path)
        if inputs_of(layer) is None or n_inputs(layer) != one.of:
            raise CannotCutError(
                f"{one.path!r} has other inputs than the {one.of} that the ablation was planned for. The model "
                "function and the data function have to give the same shapes under each seed."
            )
        keep_inputs(layer, one.kept)
    for path in cuts.gone:
        holder, _, name = path.rpartition(".")
        del model.get_submodule(holder)._modules[name]  # names of the others stay, also in a list


def cuts_for(model: nn.Module, whole: Any, rest: Any, kept: Sequence[Kept], *, same: bool = True) -> Cuts:
    """Return what goes with the features that are dropped; the model is not touched.

    Args:
        model: It, whole.
        whole: What it is called with, with all features.
        rest: What it is called with, without some, for the same examples.
        kept: What stays of columns or channels, as far as names tell it.
        same: Whether other inputs have to be the same in both; not, if the data function makes them anew.

    Raises:
        CannotCutError: Nobody can tell.
    """
    gone = places_of_dropped(whole, rest, kept, same=same)
    if not gone:
        return Cuts()
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        found = _read_by(model, whole, gone)
        _try(model, found, whole, without_dropped(whole, rest, gone))
    return found


Seen: TypeAlias = dict[str, list[list[torch.Tensor]]]
"""By layer, for each of its calls, the tensors that it was given."""


def _read_by(model: nn.Module, whole: Any, gone: Mapping[Path, Where | None]) -> Cuts:
    """Return which layers read what is dropped, and which of their inputs follow nothing else."""
    model = copy.deepcopy(model).eval()
    for layer in model.modules():
        if isinstance(layer, nn.LayerNorm):  # it gives one output for each input, though all hang on all
            layer.register_forward_hook(lambda layer, args, result: args[0])
    plain = _seen(model, arguments(whole))
    theirs = list(_changed_runs(model, whole, gone, plain, these=True))
    others = list(_changed_runs(model, whole, gone, plain, these=False))
    shared = _shared(model)
    cuts, alone = [], []
    for path, calls in plain.items():
        moved, also = _moved(calls, path, theirs), _moved(calls, path, others)
        if not any(flags.any() for flags in _flat(moved)):
            continue
        if not any(flags.any() for flags in _flat(also)):
            alone.append(path)
            continue
        layer = model.get_submodule(path)
        known = inputs_of(layer)
        if known is None or shared.intersection(map(id, layer.parameters())):
            continue
        only = [_along(a[0], known.axis) & ~_along(b[0], known.axis) for a, b in zip(moved, also, strict=True)]
        if only and all(each.equal(only[0]) for each in only) and only[0].any():
            kept = tuple(nth for nth, goes in enumerate(only[0].tolist()) if not goes)
            cuts.append(Cut(path, kept, len(only[0])))
    return Cuts(tuple(cuts), tuple(_in_holders(model, alone)))


def _changed_runs(
    model: nn.Module, whole: Any, gone: Mapping[Path, Where | None], plain: Seen, *, these: bool
) -> Iterator[Seen]:
    """Yield what layers are given when the dropped features have other values, or when all others have.

    Values are exchanged between examples, so that each is one that there is; and a little is added to numbers, for
    those that all examples have in common. At last numbers are missing (NaN), which shows the way even through units
    that give 0 for all examples. If the model does not run with such, they are no numbers for it.
    """
    drawn = torch.Generator().manual_seed(0)

    def exchanged(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.roll(1, 0) if tensor.ndim else tensor

    def shifted(tensor: torch.Tensor) -> torch.Tensor:
        more = torch.rand(tensor.shape, generator=drawn) * 0.28 + 0.01  # never up to the next whole number
        return tensor + more.to(tensor) if tensor.is_floating_point() else tensor

    def missing(tensor: torch.Tensor) -> torch.Tensor:
        return torch.full_like(tensor, torch.nan) if tensor.is_floating_point() else exchanged(tensor)

    yield _seen(model, _with(whole, gone, exchanged, these=these))
    with suppress(Exception):
        yield _seen(model, _with(whole, gone, shifted, these=these))
    with suppress(Exception), _missing_rows(model, plain):
        yield _seen(model, _with(whole, gone, missing, these=these))


@contextmanager
def _missing_rows(model: nn.Module, plain: Seen) -> Iterator[None]:
    """Let embeddings give NaN for other numbers than they are plainly given: none of their rows is a missing value."""

    def forward(calls: Iterator[list[torch.Tensor]]) -> Any:
        def after(layer: nn.Module, args: tuple[torch.Tensor, ...], result: torch.Tensor) -> torch.Tensor:
            [before] = next(calls)
            return result.masked_fill((before != args[0]).unsqueeze(-1), torch.nan)

        return after

    handles = [
        layer.register_forward_hook(forward(iter(plain.get(path, []))))
        for path, layer in model.named_modules()
        if isinstance(layer, nn.Embedding)
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _with(
    whole: Any, gone: Mapping[Path, Where | None], change: Callable[[torch.Tensor], torch.Tensor], *, these: bool
) -> Any:
    """Return arguments with other values for what is dropped, or for all else."""
    where = {id(tensor): gone.get(path, _NOWHERE) for path, tensor in tensors(arguments(whole))}

    def changed(tensor: torch.Tensor) -> torch.Tensor:
        there = where[id(tensor)]
        mask = torch.zeros(tensor.shape, dtype=torch.bool)
        if there is None:
            mask[...] = True
        elif there[1]:
            mask.index_fill_(there[0], indices(there[1]), value=True)
        return torch.where(mask if these else ~mask, change(tensor), tensor)

    return mapped(arguments(whole), changed)


def _seen(model: nn.Module, given: tuple[tuple[Any, ...], dict[str, Any]]) -> Seen:
    """Run a model, and return what its layers are given."""
    seen: Seen = {}
    handles = []

    def note(path: str) -> Any:
        def before(module: nn.Module, args: Any, kwargs: Any) -> None:
            seen.setdefault(path, []).append([one.detach().clone() for _, one in tensors((args, kwargs))])

        return before

    for path, module in model.named_modules():
        if path or not list(module.children()):
            handles.append(module.register_forward_pre_hook(note(path), with_kwargs=True))
    try:
        torch.manual_seed(0)
        model(*given[0], **given[1])
    finally:
        for handle in handles:
            handle.remove()
    return seen


def _moved(calls: list[list[torch.Tensor]], path: str, runs: Sequence[Seen]) -> list[list[torch.Tensor]]:
    """Return for each tensor that a layer is given where it differs in any of these runs."""
    found = [[torch.zeros(tensor.shape, dtype=torch.bool) for tensor in call] for call in calls]
    for run in runs:
        there = run.get(path, [])
        if [[t.shape for t in call] for call in there] != [[t.shape for t in call] for call in calls]:
            raise CannotCutError(f"how {path!r} is called hangs on the values in the data")
        for marks, before, after in zip(_flat(found), _flat(calls), _flat(there), strict=True):
            marks.logical_or_(~((before == after) | (before.isnan() & after.isnan())))
    return found


def _along(marks: torch.Tensor, axis: int) -> torch.Tensor:
    """Return which places along an axis are marked anywhere."""
    return marks.movedim(axis, 0).flatten(1).any(1) if marks.ndim > 1 else marks


def _flat(calls: list[list[torch.Tensor]]) -> list[torch.Tensor]:
    return [tensor for call in calls for tensor in call]


def _shared(model: nn.Module) -> set[int]:
    """Return which parameters several layers have."""
    times = Counter(id(p) for module in model.modules() for p in module._parameters.values() if p is not None)
    return {one for one, n in times.items() if n > 1}


def _in_holders(model: nn.Module, alone: Sequence[str]) -> Iterator[str]:
    """Yield those layers that can go, since what holds them is gone through: a list or a dict of modules."""
    for path in alone:
        holder = path.rpartition(".")[0]
        if path and holder not in alone and isinstance(model.get_submodule(holder), nn.ModuleList | nn.ModuleDict):
            yield path


def _try(model: nn.Module, found: Cuts, whole: Any, rest: Any) -> None:
    """Refuse what does not run, or does not give what the whole model gives when these inputs count for nothing."""
    small, large = copy.deepcopy(model).eval(), copy.deepcopy(model).eval()
    cut(small, found)
    args, kwargs = arguments(rest)
    try:
        torch.manual_seed(0)
        here = dict(tensors(small(*args, **kwargs)))
    except Exception as broken:
        where = f" after {'; '.join(found.changes)}" if found.changes else ""
        said = str(broken).strip().partition("\n")[0][:200]
        none_left = any(tensor.ndim > 1 and 0 in tensor.shape[1:] for _, tensor in tensors((args, kwargs)))
        empty = (
            ". All columns of one of its inputs are dropped, so what reads it has none; a field whose columns have no "
            "names is dropped as one feature"
        ) * none_left
        raise CannotCutError(
            f"the model does not run without them{where}: {type(broken).__name__}: {said}{empty}"
        ) from broken
    args, kwargs = arguments(whole)
    with _counting_for_nothing(large, found):
        torch.manual_seed(0)
        there = dict(tensors(large(*args, **kwargs)))
    if here.keys() != there.keys() or not all(_close(here[path], there[path]) for path in here):
        raise CannotCutError(
            "without them the model gives something else than with them counting for nothing, so it reads others in "
            "their place"
        )


@contextmanager
def _counting_for_nothing(model: nn.Module, found: Cuts) -> Iterator[None]:
    """Let layers of the whole model ignore the inputs that they are to lose."""
    handles = []
    for one in found.cuts:
        layer = model.get_submodule(one.path)
        known = inputs_of(layer)
        assert known is not None
        small = copy.deepcopy(layer)
        keep_inputs(small, one.kept)
        handles.append(layer.register_forward_hook(_instead(small, one, known.axis, each=known.each)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _instead(small: nn.Module, one: Cut, axis: int, *, each: bool) -> Any:
    places = indices(one.kept)

    def forward(layer: nn.Module, args: tuple[Any, ...], result: Any) -> Any:
        given = small(args[0].index_select(axis, places), *args[1:])
        return torch.zeros_like(result).index_copy(axis, places, given) if each else given

    return forward


def _close(one: torch.Tensor, two: torch.Tensor) -> bool:
    if one.shape != two.shape:
        return False
    if not one.is_floating_point():
        return torch.equal(one, two)
    scale = float(two.abs().max()) if two.numel() else 0.0
    return torch.allclose(one, two, rtol=CLOSE, atol=CLOSE * scale, equal_nan=True)
