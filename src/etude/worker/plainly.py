"""A plain call of an experiment: its functions, here and now, as the ordinary Python that they are."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from etude.core.clock import WallClock
from etude.core.signature import Definition
from etude.core.system import Conductor, Order, Taken
from etude.worker.bind import Bound
from etude.worker.machine import gpus_of
from etude.worker.processes import available_cores
from etude.worker.run import Run, default_device
from etude.worker.seeds import kept_generators
from etude.worker.tuning import Guarded

if TYPE_CHECKING:
    from etude.system.asked import System


def call_plainly(
    experiment: Definition, params: Mapping[str, Any], *, seed: int, system: System | None = None
) -> tuple[Any, Run]:
    """Return what the training function returns, and the run that it had.

    Args:
        experiment: Whose functions are called.
        params: A configuration that its signature accepts; what is left out has its default.
        seed: The training seed.
        system: How the machine is tuned meanwhile; None if it is left alone.
    """
    defaults = experiment.signature.defaults()
    run = Run(metrics=experiment.metrics.names, params={**defaults, **params}, seed=seed, device=default_device())
    with kept_generators():
        if system is None:
            return Bound(experiment.functions, experiment.signature, params, run).train(), run
        return _tuned(experiment, params, run, system), run


def _tuned(experiment: Definition, params: Mapping[str, Any], run: Run, system: System) -> Any:
    """Return what the training function returns, on a machine that is tuned meanwhile."""
    from etude.system.conductor import SystemConductor
    from etude.system.remembered import Remembered

    system.told_of_energy(gpus_of(None, run.device))
    past = Remembered(system.file) if system.history is not False else None
    conductor = SystemConductor(system, past)
    here = Here(conductor)
    returned = conducted(experiment, params, run, system, here)
    if past is not None and system.setting is None:
        past.keep(conductor, named(experiment), at_s=WallClock().now_s())
        conductor.notes.append(past.trouble)
    for note in filter(None, [*conductor.notes, *here.told()]):
        _say(note)
    return returned


def conducted(experiment: Definition, params: Mapping[str, Any], run: Run, system: System, here: Here) -> Any:
    """Return what the training function returns, with the settings that somebody orders in this process."""
    from etude.worker.tuned import Tuning

    gpus = gpus_of(None, run.device)
    make = partial(Tuning, system.watched(), here.first(), advice=here, cores=available_cores(), gpus=gpus, say=_say)
    run.tuning = Guarded(make, _say)
    try:
        returned = Bound(experiment.functions, experiment.signature, params, run).train()
        run.tuning.rest()
    finally:
        run.tuning.end()
    return returned


def named(experiment: Definition) -> str:
    """Return what tells an experiment from others, for the digest of its work."""
    return " ".join(function.__qualname__ for function in experiment.functions.values())


def measured(experiment: Definition, params: Mapping[str, Any], system: System, campaign: Conductor) -> None:
    """Train once, with the settings of a campaign."""
    defaults = experiment.signature.defaults()
    run = Run(metrics=experiment.metrics.names, params={**defaults, **params}, seed=0, device=default_device())
    with kept_generators():
        conducted(experiment, params, run, system, Here(campaign))


class Here:
    """Advice from this process.

    Args:
        conductor: Who decides.
    """

    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor
        self._order: Order | None = None
        self._last: Order | None = None

    def first(self) -> Order:
        """Return the setting of the first epoch."""
        return self._conductor.begin(0, "")

    def measured(self, taken: Taken) -> None:
        """Decide on the next epoch."""
        self._order = self._last = self._conductor.next(0, "", taken)

    def ordered(self, wait_s: float) -> Order | None:
        """Return the newest order, once."""
        order, self._order = self._order, None
        return order

    def told(self) -> list[str]:
        """Return what became of it, for people."""
        if self._last is None:
            return []
        best = ", ".join(f"{name}={value!r}" for name, value in self._last.best.items())
        return [f"The machine was tuned: {best or 'nothing that was tried is better than how it was'}."]


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
