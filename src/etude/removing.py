"""``etude.remove``: take a component out of a model, alone and at once, without a study."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from etude.ablate.components import BetweenComponent, LayerComponent, PartComponent, names_along, read_component
from etude.ablate.listing import Layer, Listing
from etude.ablate.matching_layers import match_layers
from etude.core.errors import WHOLE_MODEL, ConfigError, RefusalCode, RemovalRefused
from etude.core.numbers import seed_of
from etude.core.removal import Layers
from etude.core.rungs import Rung
from etude.frameworks import torch_adapter
from etude.frameworks.removers import give_sizes, is_keras, remover_of

if TYPE_CHECKING:
    from etude.frameworks.keras_removal.edits import KerasPlan
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
    plan: Plan | KerasPlan
    checks: tuple[str, ...]

    def __str__(self) -> str:
        return f"{'; '.join(self.changes)} (rung {int(self.rung)}, {self.rung.name.lower()})"


def remove(
    model: Model,
    component: str | Layers,
    example: Any,
    *,
    with_: str | Iterable[str] = (),
    repair: str = "auto",
    seed: int = 0,
) -> Removed[Model]:
    """Take a component out of a model, in place, and repair what is left so that it still runs.

    It is planned without computing anything, tried and checked on a copy, and only then done to the model. A repair
    that does not pass the checks is refused; see docs/removal.md for the ladder of repairs and for the checks.

    Args:
        model: A PyTorch module, several by name, or a Keras model.
        component: For instance ``"layer:conv2"``, ``"layers:[conv2,pool]"`` or ``"module:encoder.block3"``, with
            dotted paths as ``named_modules()`` has them; ``"filters:conv2[0:16]"`` and ``"units:fc1[0,3]"`` for parts.
        example: Inputs of the model: a tensor, a tuple of arguments, or a dict of them by name. Best with two examples
            or more. Lazy layers take their sizes from it, also if the component is refused then.
        with_: A path, or several, of further modules that are taken along, such as the activation behind a layer. What
            follows a removed layer stays otherwise.
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
    if isinstance(model, Mapping):
        model = cast(Model, dict(model)) if not isinstance(model, dict) else model
    _check_is_model(model)
    if not isinstance(component, str | Layers):
        raise ConfigError(
            f"remove() got {component!r} as component. Write a text such as 'layer:conv2'; several layers are one "
            "text, 'layers:[conv2,pool]'."
        )
    seed = seed_of(seed)
    give_sizes(model, example)
    layers = _layers(component, with_, repair, model, example) if isinstance(component, str) else component
    try:
        remover = remover_of(model, example)
        found, checks = remover.checked(layers, seed=seed)
    except RemovalRefused as refused:
        raise (_naming(component, refused) if refused.what == WHOLE_MODEL else refused) from refused.__cause__
    remover.apply(found, seed=seed)
    return Removed(model, found.rung, found.changes, found, checks)


def _naming(component: str | Layers, refused: RemovalRefused) -> RemovalRefused:
    """Return a refusal of whatever is taken out as one of what was asked for, unless it speaks of the model as "it"."""
    is_named = refused.code is RefusalCode.UNTRACEABLE and not refused.why.startswith("it ")
    if not is_named or not isinstance(component, str):
        return refused
    return RemovalRefused(refused.code, component, refused.why)


def _check_is_model(model: Any) -> None:
    if is_keras(model):
        return
    if isinstance(model, dict) or (torch_adapter() is not None and _is_module(model)):
        return
    raise ConfigError(
        f"remove() got a {type(model).__name__} as model. It takes a torch.nn.Module, a dict of several by name, or a "
        "model of Keras 3."
    )


def _is_module(model: Any) -> bool:
    from torch import nn

    return isinstance(model, nn.Module)


def layers_of(model: Any, example: Any = None, *, roles: bool = False, runs: Any = None) -> tuple[Layer, ...]:
    """Return the layers of a model, as components are matched against them.

    Args:
        model: A PyTorch module or a Keras model; it is not touched, but that a sequential one of Keras is built.
        example: Inputs of the model; left out, nobody knows when its layers are called.
        roles: Whether layers that take nothing but integers, and the last one, are marked: an ablation leaves them.
        runs: Its runs with the example, if it was run.

    Raises:
        RemovalRefused: The model does not run with the example.
    """
    seen_layers: Any
    if is_keras(model):
        from etude.frameworks.keras_removal.layers import layers_of as of_keras
        from etude.frameworks.keras_removal.models import models, with_graph

        seen_layers = of_keras(with_graph(models(model)[0], example))
    else:
        from etude.frameworks.removal import layers
        from etude.frameworks.removal.tracing import forward_of

        whole = forward_of(model) if isinstance(model, dict) else model
        unknown = example is runs is None
        seen_layers = layers.in_tree(whole) if unknown else layers.layers_of(whole, example, runs)
    return tuple(
        Layer(
            path=seen.path,
            type=seen.type,
            parameters=seen.parameters,
            depth=seen.depth,
            heads=seen.heads,
            units=seen.units,
            filters=seen.filters,
            called=seen.called,
            reads_data=seen.reads_data,
            role="" if not roles else "input" if seen.takes_integers else "output" if seen.gives_output else "",
        )
        for seen in seen_layers
    )


def inputs_of(model: Any, example: Any) -> tuple[str, ...]:
    """Return what the inputs of a Keras model are called; none of PyTorch's, which have no names."""
    if not is_keras(model):
        return ()
    from etude.frameworks.keras_removal.layers import inputs_of as of_keras
    from etude.frameworks.keras_removal.models import models, with_graph

    return of_keras(with_graph(models(model)[0], example))


def _layers(component: str, with_: str | Iterable[str], repair: str, model: Any, example: Any) -> Layers:
    """Return what a component stands for in a model."""
    asked = read_component(component)
    if not isinstance(asked, LayerComponent | BetweenComponent | PartComponent):
        raise ConfigError(
            f"The component {component!r} is no part of a model. Write 'layer:NAME', 'layers:[NAME,NAME]', "
            "'between:NAME..NAME', 'type:Dropout', 'filters:NAME[0:16]', 'units:NAME[0,3]' or 'heads:NAME[0]'."
        )
    if repair not in ("auto", "learned"):
        raise ConfigError(f"repair={repair!r} is neither 'auto' nor 'learned'.")
    options: Any = {
        "with_": (*asked.with_, *names_along(with_)),
        "repair": repair if repair != "auto" else asked.repair,
    }
    counts_heads = isinstance(asked, PartComponent) and asked.of == "heads"
    is_run = counts_heads or isinstance(asked, BetweenComponent)  # else nothing has to be run for it
    listing = Listing(layers_of(model, example if is_run else None), inputs=inputs_of(model, example))
    found, _, _ = match_layers(replace(asked, **options), listing)
    return found
