"""Who takes components out of a model: the remover of the model's framework."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Protocol

from etude.core.errors import ResultError
from etude.core.removal import Layers
from etude.frameworks import torch_adapter


class Remover(Protocol):
    """Takes components out of one model.

    Attributes:
        of: Its framework.
    """

    of: str

    def checked(self, layers: Layers, *, seed: int) -> tuple[Any, tuple[str, ...]]:
        """Plan how a component is taken out, and check that; return the plan and the names of the checks.

        The model is not touched.

        Raises:
            RemovalRefused: It cannot be, or a check failed.
        """
        ...

    def changes_nothing(self, plan: Any, *, seed: int) -> bool:
        """Say whether the model gives and learns the same without what a plan takes out; the model is not touched."""
        ...

    def apply(self, plan: Any, *, seed: int) -> None:
        """Carry a plan out, in place."""
        ...


def is_keras(built: Any) -> bool:
    """Whether a Keras model is what a model function gave, or is in it."""
    return _has_keras() and bool(_keras_models(built))


def _has_keras() -> bool:
    return "keras.src.models.model" in sys.modules


def _keras_models(built: Any) -> list[Any]:
    from etude.frameworks.keras_removal.models import models

    return models(built)


def whole_of(built: Any) -> Any:
    """Return what a model function gave as one model."""
    torch = torch_adapter()
    if is_keras(built) or torch is None:
        return built
    from etude.frameworks.removal.replay import whole

    return whole(torch.modules(built))


def give_sizes(model: Any, example: Any) -> None:
    """Let lazy layers of a PyTorch model take their sizes from an example.

    Raises:
        RemovalRefused: The model does not run with it.
    """
    if is_keras(model):
        return
    from etude.frameworks.removal.tracing import arguments, forward_of
    from etude.frameworks.removal.unfit import materialised

    materialised(forward_of(model) if isinstance(model, dict) else model, *arguments(example))


def parameters_of(model: Any) -> int:
    """Return how many parameters a model has."""
    if is_keras(model):
        return sum(one.count_params() for one in _keras_models(model))
    return sum(one.numel() for one in model.parameters())


def weights_alike(model: Any, other: Any) -> frozenset[str]:
    """Return the names of weights that have the same values in two models of one function, but for constant ones.

    Args:
        model: What the function gave, as one model.
        other: What it gave another time.
    """
    if is_keras(model):
        import keras

        def learns(built: Any) -> list[tuple[str, Any]]:
            return [
                (v.path, keras.ops.convert_to_numpy(v)) for one in _keras_models(built) for v in one.trainable_variables
            ]

        pairs = [(name, a, b) for (name, a), (_, b) in zip(learns(model), learns(other), strict=False)]
    else:
        there = dict(whole_of(other).named_parameters())
        mine = [(name, one) for name, one in model.named_parameters() if name in there]
        pairs = [(name, one.detach().cpu(), there[name].detach().cpu()) for name, one in mine]
    return frozenset(
        name
        for name, a, b in pairs
        if a.shape == b.shape and bool((a == b).all()) and bool((a != a.reshape(-1)[:1]).any())
    )


def remover_of(model: Any, example: Any, runs: Any = None) -> Remover:
    """Return who takes components out of a model.

    Args:
        model: A Keras model, a PyTorch module, or several modules by name.
        example: What it is called with.
        runs: Of a PyTorch module: its runs with the example, if it was run.

    Raises:
        RemovalRefused: It does not run with the example, or its graph is not known.
    """
    if is_keras(model):
        return _OfKeras(model, example)
    return _OfTorch(model, example, runs)


class _OfTorch:
    """For PyTorch."""

    of = "torch"

    def __init__(self, model: Any, example: Any, runs: Any) -> None:
        from etude.frameworks.removal.plan import Planner
        from etude.frameworks.removal.tracing import forward_of

        self._whole = forward_of(model) if isinstance(model, dict) else model
        self._planner = Planner(model, example, runs)
        self._example = example

    def checked(self, layers: Layers, *, seed: int) -> tuple[Any, tuple[str, ...]]:
        return self._planner.checked(layers, seed=seed)

    def changes_nothing(self, plan: Any, *, seed: int) -> bool:
        from etude.frameworks.removal.without_effect import changes_nothing

        return changes_nothing(self._whole, plan, self._example)

    def apply(self, plan: Any, *, seed: int) -> None:
        from etude.frameworks.removal.apply import apply

        apply(self._whole, plan, seed=seed)


class _OfKeras:
    """For Keras."""

    of = "keras"

    def __init__(self, model: Any, example: Any) -> None:
        from etude.frameworks.keras_removal.models import with_graph

        self._example = example
        self._model = with_graph(_keras_models(model)[0], example)

    def checked(self, layers: Layers, *, seed: int) -> tuple[Any, tuple[str, ...]]:
        from etude.frameworks.keras_removal.check import tried
        from etude.frameworks.keras_removal.plan import plan

        found = plan(self._model, layers)
        return found, tried(self._model, found, self._example, seed=seed)

    def changes_nothing(self, plan: Any, *, seed: int) -> bool:
        from etude.frameworks.keras_removal.without_effect import changes_nothing

        return changes_nothing(self._model, plan, self._example, seed=seed)

    def apply(self, plan: Any, *, seed: int) -> None:
        from etude.frameworks.keras_removal.plan import apply

        apply(self._model, plan, seed=seed)


def replay(built: Any, repair: Mapping[str, Any], *, seed: int) -> None:
    """Carry out a plan on what a model function gave, in place.

    Args:
        built: A model, or several in any nesting.
        repair: How: whose it is, ``of``, and the ``plan`` as plain data.
        seed: Of the trial.

    Raises:
        ResultError: It is no model of that framework.
    """
    model = _of_framework(built, repair["of"])
    if repair["of"] == "keras":
        from etude.frameworks.keras_removal.replay import replay as again

        again(model, repair["plan"], seed=seed)
    else:
        from etude.frameworks.removal.replay import replay as again_in_torch

        again_in_torch(model, repair["plan"], seed=seed)


def replay_cuts(built: Any, repair: Mapping[str, Any]) -> None:
    """Cut off what a model function gave what reads features that are dropped, in place.

    Args:
        built: A model, or several in any nesting.
        repair: How: whose it is, ``of``, and the ``cuts`` as plain data.

    Raises:
        ConfigError: Layers have other inputs than were planned for.
        ResultError: It is no model of that framework.
    """
    model = _of_framework(built, repair["of"])
    if repair["of"] == "keras":
        from etude.frameworks.keras_removal.inputs import replay_cuts as again

        again(model, repair["cuts"])
    else:
        from etude.frameworks.removal.replay import without_inputs

        without_inputs(model, repair["cuts"])


def _of_framework(built: Any, of: str) -> Any:
    """Return the model of Keras, or the modules of PyTorch by their place, in what a model function gave.

    Raises:
        ResultError: There is none.
    """
    torch = torch_adapter()
    if of == "keras" and _has_keras() and (found := _keras_models(built)):
        from etude.frameworks.keras_removal.models import with_graph

        return with_graph(found[0])
    if of == "torch" and torch is not None and (modules := torch.modules(built)):
        return modules
    raise ResultError(
        f"model() gave a {type(built).__name__} where the ablation was planned for a model of {of}. It "
        "has to give the same kind of model in every process."
    )
