"""How a component is taken out of a model, so that the rest still runs: the public side of the ladder."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from etude.core.errors import RefusalCode, RemovalRefused
from etude.core.removal import Layers, Part, Whole
from etude.frameworks.removal.apply import is_gone
from etude.frameworks.removal.check import DoesNotRun, check, is_real
from etude.frameworks.removal.edits import Plan
from etude.frameworks.removal.fake import NeedsValues
from etude.frameworks.removal.ladder import Ladder
from etude.frameworks.removal.names import under
from etude.frameworks.removal.nested import tensors
from etude.frameworks.removal.numbering import Numbering
from etude.frameworks.removal.repeats import Repeats
from etude.frameworks.removal.tracing import Runs, arguments, forward_of
from etude.frameworks.removal.unfit import refuse_unfit
from etude.frameworks.repair_words import part_of, with_mend


def plan(model: nn.Module | dict[str, nn.Module], layers: Layers, example: Any) -> Plan:
    """Say how a component is taken out of a model; the model is not touched, and nothing is computed if that goes.

    Args:
        model: The model, or several by name.
        layers: What is taken out.
        example: A tensor, a tuple of arguments, or a dict of them by name; of several models one for each, by name.

    Raises:
        RemovalRefused: It cannot be taken out.
    """
    return Planner(model, example).plan(layers)


@contextmanager
def _quiet() -> Iterator[None]:
    """Let torch not log each shape that does not fit: that is how fitting ones are found."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


class Planner:
    """Makes plans for one model, which is run and written down once.

    Args:
        model: As for ``plan``.
        example: Likewise.
        runs: Its runs with the example, if it was run.
    """

    def __init__(self, model: nn.Module | dict[str, nn.Module], example: Any, runs: Runs | None = None) -> None:
        args, kwargs = arguments(example)
        whole = forward_of(model) if isinstance(model, dict) else model
        refuse_unfit(whole, (args, kwargs))
        given = [t for _, t in tensors((args, kwargs)) if t.ndim]
        if given and not any(t.shape[0] for t in given):
            why = "the example has no rows, so that nothing can be seen or compared. Pass two examples or more."
            raise RemovalRefused(RefusalCode.UNTRACEABLE, "the model", why)
        self._whole, self._args, self._kwargs, self._example = whole, args, kwargs, example
        self._begin(runs)

    def _begin(self, runs: Runs | None = None, *, without_fakes: str = "") -> None:
        with _quiet():
            self._runs = runs or Runs(self._whole, self._args, self._kwargs, without_fakes=without_fakes)
        self._model = self._runs.copy.model
        self._repeats, self._numbering = Repeats(self._runs), Numbering(self._runs)

    def plan(self, layers: Layers) -> Plan:
        """Say how a component is taken out.

        Raises:
            RemovalRefused: It cannot be; it names the smallest enclosing block that can.
        """
        try:
            return self._plan(layers)
        except RemovalRefused as refused:
            if refused.code in (RefusalCode.NOT_FOUND, RefusalCode.EVERYTHING, RefusalCode.DEAD):
                raise
            why, instead, part = with_mend(refused, layers), self._enclosing(layers), part_of(refused, layers)
            raise RemovalRefused(refused.code, refused.what, why, instead=instead, part=part) from refused.__cause__

    def checked(self, layers: Layers, *, seed: int = 0) -> tuple[Plan, tuple[str, ...]]:
        """Plan, and check the plan on a copy of the model; return both, with the names of the checks that were made.

        What was planned on fake tensors and does not run is planned again on real ones: they let some shapes pass. A
        model that is itself on fake tensors is not checked.

        Raises:
            RemovalRefused: It cannot be, or a check failed.
        """
        found = self.plan(layers)
        if not is_real(self._whole):
            return found, ()
        try:
            return found, check(self._whole, found, self._example, seed=seed)
        except DoesNotRun as deceived:
            if not found.fake:
                raise
            self._begin(without_fakes=deceived.why)
        found = self.plan(layers)
        return found, check(self._whole, found, self._example, seed=seed)

    def _enclosing(self, layers: Layers) -> str:
        """Return the smallest block round a component that can be taken out; empty if there is none."""
        path = layers.targets[0].path.rpartition(".")[0]
        while path:
            try:
                self._plan(Layers((Whole(path),), layers.repair))
            except RemovalRefused:
                path = path.rpartition(".")[0]
            else:
                return path
        return ""

    def _plan(self, layers: Layers) -> Plan:
        what = ", ".join(target.path for target in layers.targets)
        try:
            with _quiet():
                return self._planned(layers)
        except RemovalRefused:
            raise
        except NeedsValues as without:
            self._begin(without_fakes=str(without).strip()[:300])
            return self._plan(layers)
        except Exception as broken:  # a model may raise anything, and a refusal has a code
            why = f"{type(broken).__name__}: {str(broken).strip()[:300]}."
            raise RemovalRefused(RefusalCode.UNTRACEABLE, what, why) from broken

    def _planned(self, layers: Layers) -> Plan:
        targets = [*layers.targets, *(Whole(path) for path in layers.along)]
        for target in targets:
            self._exists(target.path)
        wholes = [t.path for t in targets if isinstance(t, Whole)]
        wholes = [p for p in wholes if not any(p.startswith(f"{other}.") for other in wholes)]
        names = [name for name, _ in self._model.named_parameters()]
        if names and all(any(under(name, path) for path in wholes) for name in names):
            raise RemovalRefused(RefusalCode.EVERYTHING, ", ".join(wholes), "nothing that learns would be left.")
        first = {call.path: call.n for call in reversed(self._runs.modes[-1].trace.calls)}
        wholes.sort(key=lambda p: -first.get(p, -1))  # the last ones first: then they use nothing of the others
        work = Ladder(self._runs, layers, self._repeats, self._numbering, wholes)
        for part in targets:
            if isinstance(part, Part):
                work.cut(part)
        for path in dict.fromkeys(wholes):
            work.take_out(path)
        return work.plan()

    def _exists(self, path: str) -> None:
        if not path:
            raise RemovalRefused(RefusalCode.EVERYTHING, "the model", "it is the whole model.")
        try:
            module = self._model.get_submodule(path)
        except AttributeError:
            raise RemovalRefused(RefusalCode.NOT_FOUND, path, "the model has no such submodule.") from None
        if is_gone(module):
            raise RemovalRefused(RefusalCode.NOT_FOUND, path, "it is already removed.")
