"""Which channels of a model's layers belong to which head of an attention, read from a run of the model.

How an attention lays out its heads is nowhere written down: all queries first, or head by head; one projection or
three; keys that several heads share. So channels are followed. What each layer of the attention gives is labelled with
the numbers of its channels, and the labels go where the model's own operations carry them: views and transpositions.
Where queries meet keys, each slice of the product is a head, and the labels say of which channels. Where that meets the
values, its results get labels of their own, which are followed to the layer that reads them.

Labels are real numbers beside fake tensors, so nothing of the model is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

import torch
from torch import nn
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.overrides import TorchFunctionMode

from etude.frameworks.removal.nested import mapped, tensors
from etude.frameworks.removal.operations import ATTENTION, CAT
from etude.frameworks.removal.resize import sides, width_axis
from etude.frameworks.removal.scalars import Scalars
from etude.frameworks.removal.trace import function_name

MOVES: Final = frozenset(
    [
        *("view", "reshape", "permute", "transpose", "flatten", "squeeze", "unsqueeze", "expand", "unflatten"),
        *("movedim", "moveaxis", "swapaxes", "swapdims", "T", "mT", "t", "repeat", "tile", "repeat_interleave"),
        *("__getitem__", "select", "narrow", "chunk", "split", "split_with_sizes", "tensor_split", "unbind"),
        *("cat", "concat", "concatenate", "stack", "roll", "flip", "expand_as", "view_as", "reshape_as"),
    ]
)
"""Operations that move numbers about: done to labels, they give the labels of their results."""
PRODUCTS: Final = frozenset(["matmul", "bmm", "__matmul__", "__rmatmul__", "baddbmm"])
MIXING: Final = frozenset(["linear", "conv1d", "conv2d", "conv3d", "addmm", "mm", "embedding", "einsum", "bilinear"])
NORMS: Final = frozenset(["layer_norm", "rms_norm", "normalize", "group_norm"])


class Unfollowed(Exception):  # noqa: N818 - it becomes a refusal
    """The heads of an attention could not be found."""


@dataclass
class HeadsOf:
    """The heads of an attention.

    Attributes:
        n: How many.
        channels: Layers that make queries, keys or values -> of each of their outputs, the heads that use it.
        columns: Layers that read the results -> of each of their inputs, the head that it comes from, or -1.
        scalars: The numbers that the model reckoned with in that run.
    """

    n: int
    channels: dict[str, list[frozenset[int]]] = field(default_factory=dict)
    columns: dict[str, list[int]] = field(default_factory=dict)
    scalars: set[tuple[str, tuple[float, ...]]] = field(default_factory=set)


def heads_of(model: nn.Module, path: str, run: Callable[[], Any]) -> HeadsOf:
    """Find the heads of an attention.

    Args:
        model: The model.
        path: Of the attention, or of a block that holds one.
        run: Runs the model.

    Raises:
        Unfollowed: There are none, or more than one attention, or they cannot be followed.
    """
    labels, scalars = _Labels(model, path), Scalars()
    with labels.watching(), scalars, labels:
        run()
    return replace(labels.found(), scalars=scalars.found)


class _Labels(TorchFunctionMode):
    """Follows labels while a model runs."""

    def __init__(self, model: nn.Module, path: str) -> None:
        super().__init__()
        self._model, self._path = model, path
        self._labels: dict[int, tuple[str, torch.Tensor]] = {}
        self._alive: list[torch.Tensor] = []
        self._offsets: dict[str, tuple[int, int]] = {}
        self._heads: list[tuple[int, ...]] = []
        self._owners: dict[int, set[int]] = {}
        self._readers: dict[str, torch.Tensor] = {}
        self._together: list[torch.Tensor] = []
        self._width = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Label what layers of the attention give, and note which layers read its results."""
        handles = []
        layers = [(path, module, sides(module)) for path, module in self._model.named_modules()]
        n = 0
        for path, module, widths in layers:
            if "in" not in widths or "out" not in widths:
                continue
            handles.append(module.register_forward_pre_hook(self._reads(path), with_kwargs=True))
            if path.startswith(f"{self._path}."):
                self._offsets[path] = (n, widths["out"])
                n += widths["out"]
                handles.append(module.register_forward_hook(self._gives(path)))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def found(self) -> HeadsOf:
        """Return the heads that were met."""
        if not self._heads:
            raise Unfollowed("no attention was seen in it, of queries and keys that layers of its own make")
        heads = HeadsOf(len(self._heads))
        for path, (start, width) in self._offsets.items():
            owned = [frozenset(self._owners.get(start + n, ())) for n in range(width)]
            if any(owned):
                heads.channels[path] = owned
        for path, row in self._readers.items():
            heads.columns[path] = [n // self._width if n >= 0 else -1 for n in row.tolist()]
        if not heads.columns:
            raise Unfollowed("no layer was seen that reads what its heads give")
        for rows in self._together:
            for row in rows.tolist():
                if len({frozenset(self._owners.get(n, ())) for n in row if n >= 0}) > 1:
                    raise Unfollowed("a norm looks at all of its heads together")
        return heads

    # --- what layers give and read ----------------------------------------------------------------

    def _gives(self, path: str) -> Any:
        def hook(module: nn.Module, args: Any, result: Any) -> None:
            start, width = self._offsets[path]
            if isinstance(result, torch.Tensor) and result.shape[width_axis(module)] == width:
                with torch._C.DisableTorchFunction(), unset_fake_temporarily():
                    row = torch.arange(start, start + width)
                    label = row.expand(*result.movedim(width_axis(module), -1).shape) if result.ndim else row
                    self._label(result, "channel", label.movedim(-1, width_axis(module)))

        return hook

    def _reads(self, path: str) -> Any:
        def hook(module: nn.Module, args: Any, kwargs: Any) -> None:
            for _, tensor in tensors((args, kwargs)):
                kind, label = self._labels.get(id(tensor), ("", None))
                if kind == "column" and label is not None:
                    with torch._C.DisableTorchFunction(), unset_fake_temporarily():
                        rows = label.movedim(width_axis(module), -1).reshape(-1, label.shape[width_axis(module)])
                        if not bool((rows == rows[:1]).all()):
                            raise Unfollowed(f"{path} reads its heads in several places")
                        self._readers[path] = rows[0]

        return hook

    def _label(self, tensor: torch.Tensor, kind: str, label: torch.Tensor) -> None:
        self._labels[id(tensor)] = (kind, label)
        self._alive.append(tensor)

    # --- what operations do -----------------------------------------------------------------------

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Do an operation, and label its results."""
        kwargs = kwargs or {}
        given = [t for _, t in tensors((args, kwargs))]
        known = [self._labels[id(t)] for t in given if id(t) in self._labels]
        result = func(*args, **kwargs)
        if known:
            for tensor in given:  # what was changed in place
                if any(tensor is out for _, out in tensors(result)):
                    self._labels.pop(id(tensor), None)
            with torch._C.DisableTorchFunction(), unset_fake_temporarily():
                self._follow(function_name(func), func, args, kwargs, known, result)
        return result

    def _follow(self, name: str, func: Any, args: Any, kwargs: Any, known: list[Any], result: Any) -> None:
        out = [t for _, t in tensors(result)]
        if name == ATTENTION:
            self._attention(args, kwargs, out[0])
        elif name in PRODUCTS:
            a, b = [self._labels.get(id(t)) for _, t in tensors((args, kwargs))][-2:]
            self._product(a, b, out[0])
        elif name == "__setitem__":
            self._labels.pop(id(args[0]), None)
        elif name in MIXING:
            return
        elif name in MOVES:
            self._move(name, func, args, kwargs, known[0][0], out)
        else:
            for tensor in out:
                self._entry_by_entry(name, known, tensor)

    def _move(self, name: str, func: Any, args: Any, kwargs: Any, kind: str, out: list[torch.Tensor]) -> None:
        def swapped(tensor: torch.Tensor) -> Any:
            if id(tensor) in self._labels:
                return self._labels[id(tensor)][1]
            if name in CAT or name in ("expand_as", "view_as", "reshape_as"):
                return torch.full(tuple(tensor.shape), -1)
            raise LookupError

        try:
            moved = func(*mapped(args, swapped), **mapped(kwargs, swapped))
        except (LookupError, RuntimeError, TypeError):
            return
        for tensor, (_, label) in zip(out, tensors(moved), strict=False):
            if tensor.shape == label.shape:
                self._label(tensor, kind, label)

    def _entry_by_entry(self, name: str, known: list[tuple[str, torch.Tensor]], out: torch.Tensor) -> None:
        """Label what an operation gives that treats entries each for itself, or an axis of them together."""
        shape = tuple(out.shape)
        kind, label = max(known, key=lambda one: one[1].numel())
        if name in NORMS:
            self._same_heads(kind, label)
        for other_kind, other in known:
            if other is not label and kind == other_kind == "channel":
                try:
                    pairs = torch.stack(torch.broadcast_tensors(label, other), -1)
                except RuntimeError:
                    return
                self._same_heads(kind, pairs)
        if tuple(label.shape) == shape:
            self._label(out, kind, label)
        elif label.ndim == len(shape) and all(b in (a, 1) for a, b in zip(label.shape, shape, strict=True)):
            for axis, (a, b) in enumerate(zip(label.shape, shape, strict=True)):
                if a != b:
                    self._same_heads(kind, label.movedim(axis, -1))
                    label = label.narrow(axis, 0, 1)
            self._label(out, kind, label)

    def _same_heads(self, kind: str, label: torch.Tensor) -> None:
        """Remember that channels in a row look at each other: they must be of one head."""
        if kind == "channel":
            rows = label.reshape(-1, label.shape[-1])
            self._together.append(torch.unique(rows, dim=0))

    # --- where queries, keys and values meet ------------------------------------------------------

    def _attention(self, args: Any, kwargs: Any, out: torch.Tensor) -> None:
        given = [
            kwargs.get(name, args[n] if n < len(args) else None) for n, name in enumerate(("query", "key", "value"))
        ]
        found = [self._labels.get(id(each)) for each in given]
        labels = [each[1] for each in found if each is not None]
        if len(labels) == len(given):
            n = labels[0].shape[-3] if kwargs.get("enable_gqa") else 1
            q, k, v = (x.repeat_interleave(n // x.shape[-3], -3) if n > x.shape[-3] else x for x in labels)
            self._values(self._meet(q, k), v, out)

    def _product(self, a: Any, b: Any, out: torch.Tensor) -> None:
        if a is None or b is None:
            return
        if a[0] == b[0] == "channel":
            scores = self._meet(a[1], b[1].transpose(-1, -2))
            self._label(out, "head", scores[..., None, None].expand(*out.shape))
        elif a[0] == "head" and b[0] == "channel":
            self._values(a[1][..., 0, 0], b[1], out)

    def _meet(self, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        """Note which channels each head has, where queries meet keys; return the head of each slice."""
        rows, keys = (_slices(each) for each in (q, k.expand(*q.shape[:-2], *k.shape[-2:])))
        named = [tuple(row) for row in rows.tolist()]
        heads = list(dict.fromkeys(named))
        if self._heads and self._heads != heads:
            raise Unfollowed("it holds more than one attention: name one of them")
        self._heads = heads
        of = [heads.index(name) for name in named]
        for head, row, key in zip(of, named, keys.tolist(), strict=True):
            self._own(head, (*row, *key))
        return torch.tensor(of).reshape(q.shape[:-2])

    def _values(self, heads: torch.Tensor, v: torch.Tensor, out: torch.Tensor) -> None:
        rows = _slices(v.expand(*heads.shape, *v.shape[-2:]))
        for head, row in zip(heads.reshape(-1).tolist(), rows.tolist(), strict=True):
            self._own(head, row)
        self._width = v.shape[-1]
        label = heads[..., None, None] * self._width + torch.arange(self._width)
        self._label(out, "column", label.expand(*out.shape))

    def _own(self, head: int, channels: Any) -> None:
        for channel in channels:
            if channel >= 0:
                self._owners.setdefault(channel, set()).add(head)


def _slices(label: torch.Tensor) -> torch.Tensor:
    """Return the channels of each slice, which all of its tokens must have; rows in which nothing is known are left."""
    flat = label.reshape(-1, *label.shape[-2:])
    first = flat.amax(1)
    if not bool(((flat == first[:, None]) | (flat == -1)).all()):
        raise Unfollowed("its tokens have their heads in different places")
    return first
