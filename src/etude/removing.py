"""``etude.remove``: take a component out of a model, alone and at once, without a study."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import msgspec

from etude.core.errors import ConfigError
from etude.core.removal import Layers, Part, Whole
from etude.core.rungs import Rung

if TYPE_CHECKING:
    from etude.frameworks.removal.edits import Plan

Model = TypeVar("Model")


@dataclass(frozen=True)
class Removed(Generic[Model]):
    """A model without a component.

    Attributes:
        model: The model; the object that was given, changed in place.
        rung: How deep the repair cuts.
        changes: What was done, in words.
        plan: The same as data.
        checks: Names of the checks that were passed; empty if the model is on fake tensors.
    """

    model: Model
    rung: Rung
    changes: tuple[str, ...]
    plan: Plan
    checks: tuple[str, ...]

    def __str__(self) -> str:
        return f"{'; '.join(self.changes)} (rung {int(self.rung)}, {self.rung.name.lower()})"


def remove(
    model: Model,
    component: str | Layers,
    example: Any,
    *,
    with_: tuple[str, ...] = (),
    repair: str = "auto",
    seed: int = 0,
) -> Removed[Model]:
    """Take a component out of a model, in place, and repair what is left so that it still runs.

    It is planned without computing anything, tried and checked on a copy, and only then done to the model. A repair
    that does not pass the checks is refused; see docs/removal.md for the ladder of repairs and for the checks.

    Args:
        model: A PyTorch module, or several by name.
        component: For instance ``"layer:conv2"``, ``"layers:[conv2,pool]"`` or ``"module:encoder.block3"``, with
            dotted paths as ``named_modules()`` has them; ``"filters:conv2[0:16]"`` and ``"units:fc1[0,3]"`` for parts.
        example: Inputs of the model: a tensor, a tuple of arguments, or a dict of them by name. Best with two examples
            or more.
        with_: Paths of further modules that are taken along, such as the activation behind a layer. What follows a
            removed layer stays otherwise.
        repair: ``"learned"`` allows an adapter with weights of its own where nothing else fits.
        seed: From which layers that are rebuilt draw their weights, each from a stream of its own name.

    Returns:
        The model and what was done. Its optimizer has to be made afterwards.

    Raises:
        RemovalRefused: It cannot be taken out. The model was not touched.
        ConfigError: The call cannot be.

    Example:
        >>> from torch import nn, rand
        >>> net = nn.Sequential(nn.Linear(4, 9), nn.ReLU(), nn.Linear(9, 9), nn.Linear(9, 2))
        >>> print(remove(net, "layer:2", rand(8, 4)))
        2 removed; 90 fewer parameters (rung 1, identity)
    """
    from torch import nn

    if isinstance(model, Mapping):
        model = cast(Model, dict(model)) if not isinstance(model, dict) else model
    elif not isinstance(model, nn.Module):
        raise ConfigError(
            f"remove() got a {type(model).__name__} as model. It takes a torch.nn.Module, or a dict of several by name."
        )
    from etude.frameworks.removal.apply import apply
    from etude.frameworks.removal.check import check, is_real
    from etude.frameworks.removal.plan import plan
    from etude.frameworks.removal.tracing import forward_of

    layers = _layers(component, with_, repair) if isinstance(component, str) else component
    found = plan(cast(Any, model), layers, example)
    checks = check(cast(Any, model), found, example, seed=seed) if is_real(model) else ()
    apply(forward_of(model) if isinstance(model, dict) else cast(Any, model), found, seed=seed)
    return Removed(model, found.rung, found.changes, found, checks)


_FORM = re.compile(r"(layer|layers|module|filters|units|heads):(.+)", re.DOTALL)
_PART = re.compile(r"(.+)\[(.*)\]", re.DOTALL)


def _layers(component: str, with_: tuple[str, ...], repair: str) -> Layers:
    """Read the plain forms of a component: paths as they are, no patterns."""
    if repair not in ("auto", "learned"):
        raise ConfigError(f"repair={repair!r} is neither 'auto' nor 'learned'.")
    read = _FORM.fullmatch(component)
    if read is None:
        raise ConfigError(
            f"The component {component!r} does not say what is taken out. Write 'layer:NAME', 'layers:[NAME,NAME]', "
            "'module:NAME', 'filters:NAME[0:16]', 'units:NAME[0,3]' or 'heads:NAME[0]'."
        )
    kind, rest = read[1], read[2].strip()
    targets: tuple[Whole | Part, ...]
    if kind in ("filters", "units", "heads"):
        part = _PART.fullmatch(rest)
        if part is None:
            raise ConfigError(f"The component {component!r} does not say which {kind}. Write '{kind}:{rest}[0:2]'.")
        targets = (msgspec.convert({"type": "part", "path": part[1], "of": kind, "indices": _indices(part[2])}, Part),)
    elif rest.startswith("[") and rest.endswith("]"):
        targets = tuple(Whole(name.strip()) for name in rest[1:-1].split(",") if name.strip())
    else:
        targets = (Whole(rest),)
    return msgspec.convert({"targets": targets, "repair": repair, "along": tuple(with_)}, Layers)


def _indices(text: str) -> list[int]:
    """Return indices from ``0:16`` or ``0,3``."""
    found: list[int] = []
    for piece in text.split(","):
        first, colon, end = piece.strip().partition(":")
        try:
            found += range(int(first or 0), int(end)) if colon else [int(first)]
        except ValueError:
            raise ConfigError(f"[{text}] does not say which: write [0:16] or [0,3], counted from 0.") from None
    return found
