"""How a model computes, changed while it is trained: order of images in memory, compiled or not, lower precision.

Each of these is put on a model in place, and taken off again: it stays the object that optimizers, ranks and the
training function know.
"""

from __future__ import annotations

import itertools
import shutil
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch

from etude.frameworks.coats import Coat, put_on, take_off, worn

Say = Callable[[str], None]

IMAGES: Final = 4
"""Dimensions of a batch of images, and of what filters them."""


class ChannelsLast:
    """Has the weights and the inputs of a model in channels-last order.

    Args:
        model: It.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        self._strides: list[tuple[torch.Tensor, tuple[int, ...]]] = []
        self._hook: Any = None

    @staticmethod
    def lacks(model: torch.nn.Module) -> str:
        """Return why a model cannot be; empty if it can."""
        weights = list(model.parameters())
        if not any(weight.dim() == IMAGES for weight in weights):
            return "no layer of the model has a weight of four dimensions, as those have that see images."
        if any(type(weight.data) is not torch.Tensor for weight in weights):
            return "its weights are divided over ranks. Train with parallel='ddp'."
        return ""

    def on(self) -> None:
        """Reorder."""
        for tensor in itertools.chain(self._model.parameters(), self._model.buffers()):
            if tensor.dim() == IMAGES:
                self._strides.append((tensor, tensor.stride()))
                tensor.data = tensor.data.contiguous(memory_format=torch.channels_last)
        self._hook = self._model.register_forward_pre_hook(_reorder, with_kwargs=True)

    def off(self) -> None:
        """Bring the order back, to the last stride."""
        if self._hook is not None:
            self._hook.remove()
        for tensor, strides in self._strides:
            before = torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device)
            tensor.data = before.copy_(tensor.data)
        self._strides, self._hook = [], None


def _reorder(module: torch.nn.Module, args: Any, kwargs: Any) -> Any:
    return tuple(map(_last, args)), {name: _last(value) for name, value in kwargs.items()}


def _last(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.dim() == IMAGES and value.is_floating_point():
        return value.contiguous(memory_format=torch.channels_last)
    if type(value) in (list, tuple):
        return type(value)(map(_last, value))
    return {name: _last(one) for name, one in value.items()} if type(value) is dict else value


class Compiled:
    """Has a model compiled; it falls back to what it was, for good, if that fails.

    Args:
        model: It.
        failed: Called once with the reason if it fails.
    """

    def __init__(self, model: torch.nn.Module, failed: Say) -> None:
        self._model = model
        self._failed = failed
        self._before: Any = None
        self._is_on = False

    @staticmethod
    def lacks(model: torch.nn.Module) -> str:
        """Return why a model cannot be compiled; empty if it can."""
        places = {parameter.device.type for parameter in model.parameters()}
        if places <= {"cpu"} and not any(map(shutil.which, ("g++", "clang++"))):
            return "there is no compiler for C++. Install g++."
        if "cuda" in places:
            from torch.utils._triton import has_triton

            if not has_triton():
                return "there is no compiler for the GPU. Install triton."
        return ""

    def on(self) -> None:
        """Compile: that is done when the model is called next."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's own, of what it does itself
            import torch._inductor.config as inductor

        inductor.compile_threads = 1  # else torch starts processes that stay
        self._before = self._model._compiled_call_impl
        model = self._model

        def whole(*args: Any, **kwargs: Any) -> Any:  # torch leaves out what is its own, as the call of a Sequential
            return model._call_impl(*args, **kwargs)

        # Random numbers are to be those that it would draw uncompiled.
        compiled: Any = torch.compile(whole, options={"fallback_random": True})

        def call(*args: Any, **kwargs: Any) -> Any:
            state = torch.get_rng_state()
            try:
                return compiled(*args, **kwargs)
            except Exception as error:
                if not _of_the_compiler(error):
                    raise
                self.off()
                self._failed(f"{type(error).__name__}: {next(iter(str(error).strip().splitlines()), '')}")
                torch.set_rng_state(state)
                return self._model(*args, **kwargs)

        self._model._compiled_call_impl = call
        self._is_on = True

    def off(self) -> None:
        """Have it uncompiled."""
        if self._is_on:
            self._model._compiled_call_impl = self._before
        self._is_on = False


def _of_the_compiler(error: Exception) -> bool:
    """Say whether an exception is the compiler's, and not one of the model."""
    return type(error).__module__.startswith(("torch._dynamo", "torch._inductor", "torch._functorch"))


class LowerPrecision:
    """Has a model compute in bfloat16 where that is safe; what it returns is in float32 as before.

    Args:
        model: It.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model

    @staticmethod
    def lacks(model: torch.nn.Module) -> str:
        """Return why a model cannot; empty if it can."""
        if any(parameter.dtype is not torch.float32 for parameter in model.parameters()):
            return "its weights are not all in float32. Leave its type as torch makes it."
        return ""

    def on(self) -> None:
        """Lower it."""
        places = {parameter.device.type for parameter in self._model.parameters()}
        put_on(self._model, LOWER, next(iter(places), "cpu"))

    def off(self) -> None:
        """Bring it back."""
        take_off(self._model, LOWER)


def _lower(below: type[Any]) -> Mapping[str, Any]:
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        with torch.autocast(worn(self, LOWER), dtype=torch.bfloat16):
            found = below.forward(self, *args, **kwargs)
        return _whole(found)

    return {"forward": forward}


LOWER: Final = Coat("lower", _lower, copied=False)
"""A model that computes in lower precision."""


def _whole(value: Any) -> Any:
    """Return what a model returned in float32, in nested containers, which keep their types."""
    if isinstance(value, torch.Tensor):
        return value.float() if value.dtype is torch.bfloat16 else value
    if isinstance(value, Mapping):
        items = {name: _whole(one) for name, one in value.items()}
        return type(value)(**items) if hasattr(value, "to_tuple") else items  # the outputs of transformers
    if isinstance(value, list | tuple):
        parts = [_whole(one) for one in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value
