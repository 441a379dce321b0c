"""A plain call of an experiment: its functions, here and now, as the ordinary Python that they are."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from etude.core.clock import WallClock
from etude.core.signature import Definition, reports_by_itself
from etude.core.system import Conductor, Order, Phase, Taken
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
    run = _run(experiment, params, seed=seed)
    with kept_generators():
        if system is None:
            return Bound(experiment.functions, experiment.signature, params, run).train(), run
        return _tuned(experiment, params, run, system), run


def _run(experiment: Definition, params: Mapping[str, Any], *, seed: int) -> Run:
    return Run(
        metrics=experiment.metrics.names,
        params={**experiment.signature.defaults(), **params},
        seed=seed,
        device=default_device(),
        auto_report=reports_by_itself(experiment),
    )


def _tuned(experiment: Definition, params: Mapping[str, Any], run: Run, system: System) -> Any:
    """Return what the training function returns, on a machine that is tuned meanwhile."""
    from etude.system.conductor import SystemConductor
    from etude.system.remembered import Remembered

    system.told_of_energy(gpus_of(None, run.device))
    past = Remembered(system.file) if system.history is not False else None
    conductor = SystemConductor(system, past)
    here = Here(conductor, notes=conductor.notes)
    returned = conducted(experiment, params, run, system, here)
    if past is not None and system.setting is None:
        past.keep(conductor, named(experiment), at_s=WallClock().now_s())
    for note in filter(None, [past.trouble if past is not None else "", *here.told()]):
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
    return " ".join(_named(function) for function in experiment.functions.values())


def _named(function: Any) -> str:
    """Return where a function comes from, and its name; ``train`` of one script is none of another's."""
    of = function if hasattr(function, "__qualname__") else type(function)  # a partial call, or an object
    module = sys.modules.get(of.__module__)
    place = getattr(module, "__file__", None) or "" if of.__module__ == "__main__" else of.__module__
    return f"{place}:{of.__qualname__}"


def measured(experiment: Definition, params: Mapping[str, Any], system: System, campaign: Conductor) -> None:
    """Train once, with the settings of a campaign."""
    run = _run(experiment, params, seed=0)
    with kept_generators():
        conducted(experiment, params, run, system, Here(campaign))


class Here:
    """Advice from this process.

    Args:
        conductor: Who decides.
        notes: What users should be told of it, more as it goes on; each is said once, when it has come.
    """

    def __init__(self, conductor: Conductor, *, notes: Sequence[str] = ()) -> None:
        self._conductor, self._notes = conductor, notes
        self._said = 0
        self._has_tried = False
        self._order: Order | None = None
        self._last: Order | None = None

    def first(self) -> Order:
        """Return the setting of the first epoch."""
        return self._conductor.begin(0, "")

    def measured(self, taken: Taken) -> None:
        """Decide on the next epoch."""
        self._has_tried = self._has_tried or taken.phase in (Phase.PROBE, Phase.REUSE)
        self._order = self._last = self._conductor.next(0, "", taken)
        for note in self._notes[self._said :]:
            _say(note)
        self._said = len(self._notes)

    def ordered(self, wait_s: float) -> Order | None:
        """Return the newest order, once."""
        order, self._order = self._order, None
        return order

    def told(self) -> list[str]:
        """Return what became of it, for people."""
        if self._last is None:
            return []
        if best := ", ".join(f"{name}={value!r}" for name, value in self._last.best.items()):
            return [f"The machine was tuned: {best}."]
        if self._has_tried:
            return ["The machine was tuned: nothing that was tried is better than how it was."]
        return ["The machine was left as it was: nothing was tried."]


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
