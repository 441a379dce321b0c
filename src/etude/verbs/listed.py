"""What could be taken away from an experiment: its model and its data are built once in this process, and looked at."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from etude.ablate.listing import Feature, Layer, Listing, Setting
from etude.core.errors import ConfigError, RemovalRefused
from etude.core.removal import Arm
from etude.core.signature import Definition, Kind, reports_by_itself
from etude.data.features import Named, features_of, why_nameless
from etude.frameworks import keras_adapter, torch_adapter
from etude.frameworks.removers import is_keras
from etude.removing import inputs_of, layers_of
from etude.results.rebuilt import build, data_of
from etude.verbs.check import check
from etude.worker.seeds import kept_generators


class Looked(NamedTuple):
    """An experiment that was looked at.

    Attributes:
        listing: Everything that could be taken away.
        model: Its model, whole; None if it has none that layers can be taken out of.
        example: What the model is called with; None if there is no such model.
        data: What the data function returned; None if there is none.
        runs: The model's runs that layers were read from, for who plans.
    """

    listing: Listing
    model: Any = None
    example: Any = None
    data: Any = None
    runs: Any = None


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
    keras = keras_adapter()
    with keras.kept_names() if keras is not None else contextlib.nullcontext():
        return _look_at(experiment, params, seed)


def _look_at(experiment: Definition, params: Mapping[str, Any], seed: int) -> Looked:
    settings = tuple(_settings(experiment, params))
    data = data_of(experiment, params, seed) if "data" in experiment.functions else None
    features = tuple(map(_as_feature, features_of(data))) if data is not None else ()
    nameless = why_nameless(data) if data is not None else ""
    by_hand = data is not None and not nameless and "without" in experiment.signature.given["data"]
    by_hand = by_hand and all(one.kind == "channel" for one in features)
    listing = Listing((), features, settings, by_hand=by_hand, nameless=nameless)
    if "model" not in experiment.functions:
        return Looked(listing, data=data)
    model = build(experiment, params, seed)
    if is_keras(model):
        example, layers, inputs = _of_keras(model, data)
        return Looked(replace(listing, layers=layers, inputs=inputs), model, example, data)
    torch = torch_adapter()
    if torch is None or not (modules := torch.modules(model)):
        return Looked(listing, data=data)
    from etude.frameworks.removal.replay import whole

    one = whole(modules)
    if (lazy := torch.lazy_in(one)) is not None:
        raise ConfigError(
            f"{lazy!r} is made when the model is first called, so that nobody can tell its weights before, and arms "
            "would draw them at other times. Call the model once in the model function, with inputs like those of the "
            "data."
        )
    example, runs = _run(experiment, params, seed, modules, one, data)
    return Looked(replace(listing, layers=layers_of(one, runs=runs, roles=True)), one, example, data, runs)


def _as_feature(named: Named) -> Feature:
    return Feature(named.name, named.kind, named.modality, named.role)


def _of_keras(model: Any, data: Any) -> tuple[Any, tuple[Layer, ...], tuple[str, ...]]:
    """Return what a Keras model is called with, its layers and its inputs; none where its graph is not known."""
    from etude.frameworks.keras_removal.models import guessed, models

    with kept_generators():
        example = guessed(models(model)[0], data)
    with contextlib.suppress(RemovalRefused):
        return example, layers_of(model, example, roles=True), inputs_of(model, example)
    return example, (), ()


def _run(
    experiment: Definition, params: Mapping[str, Any], seed: int, modules: Mapping[str, Any], whole: Any, data: Any
) -> tuple[Any, Any]:
    """Return what a model is called with, and its runs with that."""
    from etude.frameworks.removal import example as examples
    from etude.frameworks.removal.tracing import Runs, arguments

    with kept_generators():
        guess = examples.guessed(data, modules) if data is not None else None
    if guess is not None:
        with contextlib.suppress(RemovalRefused):
            return guess, Runs(whole, *arguments(guess))
    example = called_with(experiment, params, seed)
    if example is None:
        raise ConfigError(
            "Nobody can tell what the model is called with: the training function did not call it in its first batch. "
            "Let the model function return what the training function calls."
        )
    return example, Runs(whole, *arguments(example))


def called_with(experiment: Definition, params: Mapping[str, Any], seed: int, arm: Arm | None = None) -> Any:
    """Return what the training function calls the model with, in its first batch; None if it does not call it.

    Raises:
        Exception: Whatever the functions raise, before they have called it.
    """
    from etude.frameworks.removal.example import Called, EnoughError

    called = Called(enough=True)
    try:
        check(_Watched(experiment, called.watch), params, seed=seed, arm=arm)
    except EnoughError:
        pass
    except Exception:
        if called.example is None:  # else it is a model for other inputs, and they are known
            raise
    return called.example


class _Watched:
    """An experiment whose models are watched."""

    def __init__(self, experiment: Definition, watch: Callable[[Mapping[str, Any]], None]) -> None:
        def watched(plain: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(plain)
            def model(*args: Any, **kwargs: Any) -> Any:
                built = plain(*args, **kwargs)
                torch = torch_adapter()
                watch(torch.modules(built) if torch is not None else {})
                return built

            return model

        self.functions: Mapping[str, Callable[..., Any]] = {
            role: watched(plain) if role.partition(":")[0] == "model" else plain
            for role, plain in experiment.functions.items()
        }
        self.signature, self.metrics = experiment.signature, experiment.metrics
        self.auto_report = reports_by_itself(experiment)


def _settings(experiment: Definition, params: Mapping[str, Any]) -> list[Setting]:
    values = {**experiment.signature.defaults(), **params}
    kinds = {Kind.STATELESS: "stateless", Kind.DERIVED: "derived"}
    return [
        Setting(one.name, values.get(one.name), kinds.get(one.kind, "stateful"))  # type: ignore[arg-type]
        for one in experiment.signature.parameters.values()
    ]
