"""What could be taken away from an experiment: its model and its data are built once in this process, and looked at."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from etude.ablate.listing import Feature, Layer, Listing, Setting
from etude.check import check
from etude.core.errors import ConfigError, RemovalRefused
from etude.core.signature import Definition, Kind
from etude.data.features import Named, features_of
from etude.frameworks import torch_adapter
from etude.rebuilt import build, data_of
from etude.removing import layers_of
from etude.worker.seeds import kept_generators


class Looked(NamedTuple):
    """An experiment that was looked at.

    Attributes:
        listing: Everything that could be taken away.
        model: Its model, whole; None if it has none that layers can be taken out of.
        example: What the model is called with; None if there is no such model.
    """

    listing: Listing
    model: Any = None
    example: Any = None


def look_at(experiment: Definition, params: Mapping[str, Any], *, seed: int) -> Looked:
    """Return what could be taken away from an experiment.

    The model function is called here, and the data function; one batch is drawn. Where a batch does not say what the
    model is called with, the training function trains one batch.

    Args:
        experiment: Whose functions are looked at.
        params: The configuration.
        seed: The training seed.

    Raises:
        Exception: Whatever the functions raise.
    """
    settings = tuple(_settings(experiment, params))
    data = data_of(experiment, params, seed) if "data" in experiment.functions else None
    features = tuple(map(_as_feature, features_of(data))) if data is not None else ()
    if "model" not in experiment.functions:
        return Looked(Listing((), features, settings))
    model = build(experiment, params, seed)
    torch = torch_adapter()
    if torch is None or not (modules := torch.modules(model)):
        return Looked(Listing((), features, settings))
    from etude.frameworks.removal.replay import whole

    one = whole(modules)
    example, layers = _layers(experiment, params, seed, modules, one, data)
    return Looked(Listing(layers, features, settings), one, example)


def _as_feature(named: Named) -> Feature:
    return Feature(named.name, named.kind, named.modality, named.role)


def _layers(
    experiment: Definition, params: Mapping[str, Any], seed: int, modules: Mapping[str, Any], whole: Any, data: Any
) -> tuple[Any, tuple[Layer, ...]]:
    """Return what a model is called with, and the layers that it has then."""
    from etude.frameworks.removal import example as examples

    with kept_generators():
        guess = examples.guessed(data, modules) if data is not None else None
    if guess is not None:
        with contextlib.suppress(RemovalRefused):
            return guess, layers_of(whole, guess, roles=True)
    example = _called_with(experiment, params, seed)
    if example is None:
        raise ConfigError(
            "Nobody can tell what the model is called with: the training function did not call it in its first batch. "
            "Let the model function return what the training function calls."
        )
    return example, layers_of(whole, example, roles=True)


def _called_with(experiment: Definition, params: Mapping[str, Any], seed: int) -> Any:
    """Return what the training function calls the model with, in its first batch."""
    from etude.frameworks.removal.example import Called

    called = Called()
    check(_Watched(experiment, called.watch), params, seed=seed)
    return called.example


class _Watched:
    """An experiment whose models are watched."""

    def __init__(self, experiment: Definition, watch: Callable[[Mapping[str, Any]], None]) -> None:
        plain = experiment.functions["model"]

        @functools.wraps(plain)
        def model(*args: Any, **kwargs: Any) -> Any:
            built = plain(*args, **kwargs)
            torch = torch_adapter()
            watch(torch.modules(built) if torch is not None else {})
            return built

        self.functions: Mapping[str, Callable[..., Any]] = {**experiment.functions, "model": model}
        self.signature, self.metrics = experiment.signature, experiment.metrics


def _settings(experiment: Definition, params: Mapping[str, Any]) -> list[Setting]:
    values = {**experiment.signature.defaults(), **params}
    kinds = {Kind.STATELESS: "stateless", Kind.DERIVED: "derived"}
    return [
        Setting(one.name, values.get(one.name), kinds.get(one.kind, "stateful"))  # type: ignore[arg-type]
        for one in experiment.signature.parameters.values()
    ]
