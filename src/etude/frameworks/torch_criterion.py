"""A user's criterion that is watched: it does what it did, and a ``Watch`` remembers what it saw of each example.

The loss is computed by the user's own code alone, and handed on as it is: the same object, with the same gradients.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final

from torch import nn

from etude.core.errors import ConfigError
from etude.core.text import brief
from etude.frameworks.aspects import OF_CLASSES
from etude.frameworks.coats import Coat, put_on, worn
from etude.frameworks.torch_aspects import Flattened
from etude.frameworks.torch_losses import Form, form_of
from etude.frameworks.torch_watch import Watch, no_classes


def tracked(
    loss: Any,
    watch: Watch | None,
    *,
    per_example: Callable[..., Any] | None = None,
    flattened: Flattened | None = None,
) -> Any:
    """Return the loss as it is, watched from now on.

    A module stays the object that it is, of a class with the same name. A function becomes an object that is called
    like it. Copies of either, pickled ones too, are the plain loss and are not watched.

    Args:
        loss: The user's criterion: a module or a function.
        watch: What remembers; None where nothing is to be watched: then the loss is returned untouched.
        per_example: Called as the loss is, returns one number for each example. For losses that cannot give that
            themselves. Random numbers that it draws are drawn again afterwards.
        flattened: Where the criterion is given several rows for each example, as tokens in ``logits.view(-1, V)``: in
            which order they are.

    Raises:
        ConfigError: The loss gives no number for each example, or not what is needed of it.
    """
    if watch is None:
        return loss
    if flattened not in (None, "batch_first", "time_first"):
        raise ConfigError(
            f"flattened={brief(flattened)} is no order of rows. Pass 'batch_first' where those of an example follow "
            "each other, 'time_first' where the first ones of all examples come first."
        )
    loss = loss.__wrapped__ if isinstance(loss, _WatchedFunction) else loss
    form = form_of(loss, per_example)
    if watch.needs & OF_CLASSES and form.kind.classes is None:
        raise no_classes(form, watch.needs & OF_CLASSES)
    watch.called = True
    if isinstance(loss, nn.Module):
        put_on(loss, WATCHED, (watch, form, flattened))
        return loss
    return _WatchedFunction(loss, watch, form, flattened)


def _watched(below: type[Any]) -> Mapping[str, Any]:
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        value = below.forward(self, *args, **kwargs)
        watch, form, flattened = worn(self, WATCHED)
        watch.saw(form, args, kwargs, value, flattened)
        return value

    return {"forward": forward}


WATCHED: Final = Coat("watched", _watched, copied=False)
"""A hook of the module would be copied and pickled with it."""


class _WatchedFunction:
    """A function whose calls are watched."""

    def __init__(self, function: Callable[..., Any], watch: Watch, form: Form, flattened: Flattened | None) -> None:
        functools.update_wrapper(self, function)
        self.__wrapped__ = function
        self._etude = (watch, form, flattened)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        value = self.__wrapped__(*args, **kwargs)
        watch, form, flattened = self._etude
        watch.saw(form, args, kwargs, value, flattened)
        return value

    def __getattr__(self, name: str) -> Any:
        if name == "__wrapped__":
            raise AttributeError(name)
        return getattr(self.__wrapped__, name)

    def __repr__(self) -> str:
        return repr(self.__wrapped__)

    def __reduce__(self) -> Any:
        return _itself, (self.__wrapped__,)


def _itself(function: Callable[..., Any]) -> Callable[..., Any]:
    return function
