"""A plain call of an experiment: its functions, here and now, as the ordinary Python that they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from etude.core.signature import Definition
from etude.worker.bind import Bound
from etude.worker.run import Run, default_device
from etude.worker.seeds import kept_generators


def call_plainly(experiment: Definition, params: Mapping[str, Any], *, seed: int) -> tuple[Any, Run]:
    """Return what the training function returns, and the run that it had.

    Args:
        experiment: Whose functions are called.
        params: A configuration that its signature accepts; what is left out has its default.
        seed: The training seed.
    """
    defaults = experiment.signature.defaults()
    run = Run(metrics=experiment.metrics.names, params={**defaults, **params}, seed=seed, device=default_device())
    with kept_generators():
        return Bound(experiment.functions, experiment.signature, params, run).train(), run
