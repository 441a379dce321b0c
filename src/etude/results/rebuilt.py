"""A trial's model, built again in this process: with random weights, or with those that were kept. And its data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from etude.core.errors import ConfigError, StateError
from etude.core.removal import Arm
from etude.core.signature import Definition
from etude.fit.weights import Weights
from etude.frameworks import torch_adapter
from etude.frameworks.loading import Loaded, Parts
from etude.frameworks.model_weights import load_weights
from etude.worker.bind import Bound
from etude.worker.run import Run
from etude.worker.seeds import kept_generators


def build(experiment: Definition, params: Mapping[str, Any], seed: int, arm: Arm | None = None) -> Any:
    """Return the model that a trial begins with, on the CPU; the global generators stay as they are.

    Raises:
        ConfigError: The experiment has no model function.
        Exception: Whatever the functions raise.
    """
    if "model" not in experiment.functions:
        raise ConfigError(
            "The experiment has no model function, so nothing says what the weights belong to. Build the model in one: "
            "etude.Experiment(train, model=model, ...)."
        )
    with kept_generators():
        return _bound(experiment, params, seed, arm).model()


def data_of(experiment: Definition, params: Mapping[str, Any], seed: int, arm: Arm | None = None) -> Any:
    """Return what the data function gives a trial; the global generators stay as they are.

    Raises:
        Exception: Whatever the function raises.
    """
    with kept_generators():
        return _bound(experiment, params, seed, arm).data()


def begun(experiment: Definition, params: Mapping[str, Any], seed: int, arm: Arm, roles: Sequence[str]) -> None:
    """Call functions as a trial does before it trains.

    Args:
        experiment: Whose functions are called.
        params: The configuration.
        seed: The training seed.
        arm: Whose functions they are.
        roles: Which: ``"data"``, ``"model"``.

    Raises:
        Exception: Whatever the functions raise.
    """
    bound = _bound(experiment, params, seed, arm)
    with kept_generators():
        for role in roles:
            getattr(bound, role)()


def _bound(experiment: Definition, params: Mapping[str, Any], seed: int, arm: Arm | None = None) -> Bound:
    signature = experiment.signature
    handle = Run(metrics=experiment.metrics.names, params={**signature.defaults(), **params}, seed=seed)
    return Bound(experiment.functions, signature, params, handle, arm=arm)


def load_into(model: Any, weights: Weights, parts: Parts) -> Loaded:
    """Load weights into a model, and tell which.

    Args:
        model: A module, a model of Keras, or any nesting of them.
        weights: What they are.
        parts: What was read of them.

    Raises:
        StateError: Nothing fits.
    """
    told = load_weights(model, parts, shrink=weights.shrink, perturb=weights.perturb)
    if told is None:
        raise StateError(
            f"model() gave no module of torch and no model of Keras, and weights ({weights.name}) are loaded into "
            "those alone. Return the module, or a tuple or dict of modules."
        )
    return told


def with_weights(
    experiment: Definition, params: Mapping[str, Any], seed: int, weights: Weights, arm: Arm | None = None
) -> Any:
    """Return a trial's model with its weights, ready to predict: on the CPU, and in evaluation mode.

    Raises:
        StateError: The weights are not those of this model.
    """
    model = build(experiment, params, seed, arm)
    told = load_into(model, weights, weights.load())
    if not told.complete:
        raise StateError(
            f"The model is not the one that {weights.name} belongs to: {told}. The experiment may have been "
            "edited since."
        )
    torch = torch_adapter()
    for module in torch.modules(model).values() if torch is not None else ():
        module.eval()
    return model
