"""Whether a repaired Keras model is what was meant: checks that do not share the plan's reasoning.

The old graph stays whole until the new one is in place, so both can be run. Layers that survive are the same objects in
both; what the checks do to variables is taken back.

- **re-execution**: the old graph, run call by call with what the component gives overridden, must give the same results
  and gradients as the new one; where layers were cut, the old graph with zeros in the lost columns must;
- **parameters**: what went is gone, and all else has its name, its shape and its values, bit for bit;
- **another number of examples** gives results of the right shapes;
- **examples stay apart**: changing one does not move the results of another where it did not before;
- **inputs**: each result still changes with the inputs that it changed with before, and not a thousandth as much;
- **a training step**, in training mode: all that had a gradient has one, and none that was not zero is zero now, but
  for what is said to have no effect any more;
- an **adapter** does not do what the component did.

NaN equals nothing, so an example that gives NaN in the untouched model is refused.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, NoReturn

import keras
import numpy as np

from etude.core.errors import RefusalCode, RemovalRefused
from etude.core.rungs import Rung
from etude.frameworks.keras_removal.comparing import Arrays, close, has_nan, shapes
from etude.frameworks.keras_removal.edits import KerasPlan, Resize
from etude.frameworks.keras_removal.graph import Graph, at
from etude.frameworks.keras_removal.override import Override, array, called, zeroed
from etude.frameworks.keras_removal.plan import in_place
from etude.frameworks.keras_removal.running import Runs, as_inputs
from etude.frameworks.keras_removal.swap import Swap
from etude.frameworks.keras_removal.widths import is_seed

CLOSE: Final = 1e-4
"""Results are equal if they differ by no more than this share of the largest."""

COLLAPSED: Final = 1e-3
"""Results that move less than this share of what they moved before do not depend on an input any more."""

NOISE: Final = 1e-6
"""Results that move less than this share of their norm may be rounded otherwise, and nothing more."""


def tried(model: Any, planned: KerasPlan, example: Any, *, seed: int = 0) -> tuple[str, ...]:
    """Carry a plan out on a model, check it, and take everything back.

    Args:
        model: The model; afterwards it is as it was.
        planned: What is done to it.
        example: What it is called with.
        seed: Of the trial.

    Returns:
        The names of the checks that were made.

    Raises:
        RemovalRefused: A check failed, or the untouched model gives NaN for the example.
    """
    trial = _Trial(model, planned, as_inputs(model, example))
    kept = [(variable, array(variable)) for variable in model.variables]
    try:
        return trial.run(seed)
    except RemovalRefused:
        raise
    except Exception as broken:
        why = f"raises {type(broken).__name__}: {str(broken).strip()[:300]}"
        if not trial.has_run:
            raise RemovalRefused(RefusalCode.UNTRACEABLE, trial.what, f"the model {why}") from None
        trial.fail(f"the repaired model {why}")
    finally:
        for variable, value in kept:
            variable.assign(value)


class _Before(NamedTuple):
    """What the untouched model does.

    Attributes:
        results: What it gives.
        moved: Which results of other examples move with the last one.
        more: The shapes of what it gives for one example more.
        needs: By result and input, how much the one moves with the other, as a share of its norm.
        gradients: Of what learns.
    """

    results: Arrays
    moved: dict[str, bool]
    more: dict[str, Any]
    needs: dict[tuple[str, str], float]
    gradients: dict[int, Any]


class _Want(NamedTuple):
    """What the old graph does with the component's results overridden.

    Attributes:
        results: What it gives.
        gradients: Of what learns.
        how: Name of the check.
    """

    results: Arrays
    gradients: dict[int, Any]
    how: str


class _Trial:
    """A plan that is carried out on a model for a while.

    Attributes:
        what: What is taken out.
        has_run: Whether the untouched model runs with the example.
    """

    def __init__(self, model: Any, planned: KerasPlan, example: Any) -> None:
        self._model, self._plan, self._runs = model, planned, Runs(model, example)
        self.what = ", ".join(target.path for target in planned.layers.targets)
        self.has_run = False

    def run(self, seed: int) -> tuple[str, ...]:
        """Carry the plan out, and return the names of the checks that were made."""
        had = {id(variable): (variable.path, array(variable)) for variable in self._model.variables}
        learns = {id(v): v.path for v in self._model.trainable_variables}
        before = _Before(*self._runs.seen(), self._runs.needs(), self._runs.gradients(training=True)[0])
        self.has_run = True
        self._refuse_nan(before, learns)
        want = self._overridden() if self._is_exact() else None
        if want is not None and self._plan.rung is Rung.ADAPTER and self._changes_nothing():
            why = "what would take its place does what it does, so that nothing would be taken away."
            self.fail(why, RefusalCode.DOES_NOT_FIT)
        with in_place(self._model, self._plan, seed=seed) as done:
            self._checked(before, had, learns, want, done)
        exact = (want.how,) if want is not None else ()
        return ("parameters", *exact, "another batch", "examples apart", "inputs", "training step")

    def _checked(
        self,
        before: _Before,
        had: dict[int, tuple[str, Any]],
        learns: dict[int, str],
        want: _Want | None,
        done: list[Swap],
    ) -> None:
        """Look at the repaired model, while it is in place."""
        self._parameters(had, done)
        now, moves, more = self._runs.seen()
        if want is not None:
            self._compare(want, now)
        if shapes(now) != shapes(before.results):
            self.fail("its results have other shapes.")
        if more != before.more:
            self.fail(f"with {self._runs.n + 1} examples its results have other shapes.")
        if any(does and not before.moved[name] for name, does in moves.items()):
            self.fail("examples depend on each other.")
        self._depends(before.needs, self._runs.needs())
        self._trains(before.gradients, learns)

    def _depends(self, had: dict[tuple[str, str], float], now: dict[tuple[str, str], float]) -> None:
        """Refuse if a result hardly depends on an input any more."""
        for (name, given), was in sorted(had.items()):
            has = now.get((name, given), 0.0)
            which, its = (f" {one}" if one else "" for one in (name, given))
            if was <= NOISE:
                continue
            if not has:
                self.fail(f"its result{which} does not depend on the input{its} any more.", RefusalCode.NO_PATH)
            if has < COLLAPSED * was:
                why = f"its result{which} hardly depends on the input{its} any more: another one moves it by {has:.1e} "
                self.fail(f"{why}of its norm, and by {was:.1e} before.", RefusalCode.NO_PATH)

    # --- re-execution -----------------------------------------------------------------------------

    def _is_exact(self) -> bool:
        """Whether the old graph can give the same: nothing is drawn anew, and what is cut is known."""
        if len(self._plan.steps) > 1 or self._plan.rung is Rung.LEARNED:
            return False
        return all(
            one.outputs is None and one.inputs is not None and None not in one.inputs
            for one in self._plan.steps[0].edits
            if isinstance(one, Resize)
        )

    def _overridden(self) -> _Want:
        """Return results and gradients of the old graph with the component's results overridden."""
        step = self._plan.steps[0]
        inner = at(self._model, step.model)[-1]
        graph = Graph(inner)
        resizes = [one for one in step.edits if isinstance(one, Resize)]
        with zeroed(graph, resizes), called(graph, Override(graph, step)):
            found, results = self._runs.gradients(training=False)
            results = results or self._runs.results()
        return _Want(results, found, "masked re-execution" if resizes else "re-execution")

    def _changes_nothing(self) -> bool:
        """Whether adapters give what the component gives, as the mean of all pixels in the place of a pooling does."""
        step = self._plan.steps[0]
        graph = Graph(at(self._model, step.model)[-1])
        alike: list[bool] = []

        def seen(before: Any, now: Any) -> None:
            if before is None:
                alike.append(False)
                return
            one, two = (np.array(keras.ops.convert_to_numpy(value)) for value in (before, now))
            alike.append(close(one, two, share=1e-5))

        with called(graph, Override(graph, step, seen)):
            self._runs.results()
        return all(alike)

    def _compare(self, want: _Want, have: Arrays) -> None:
        for name, value in want.results.items():
            if have[name].shape != value.shape or not close(value, have[name], share=CLOSE):
                self.fail(f"its result {name} is not that of the model with the component's results overridden.")
        grads, _ = self._runs.gradients(training=False)
        largest = max((float(np.abs(g).max()) for g in grads.values() if g.size), default=0.0)
        for variable in self._model.trainable_variables:
            one, two = want.gradients.get(id(variable)), grads.get(id(variable))
            if one is not None and two is not None and not close(one, two, share=CLOSE * 10, floor=CLOSE * largest):
                self.fail(f"the gradient of {variable.path} is not that of the model with its results overridden.")

    # --- the rest ---------------------------------------------------------------------------------

    def _parameters(self, had: dict[int, tuple[str, Any]], done: list[Swap]) -> None:
        now = {id(variable): variable for variable in self._model.variables}
        for one, (path, value) in had.items():
            if one in now and not np.array_equal(array(now[one]), value):
                self.fail(f"{path} has other values.")
        seeds = {id(variable) for variable in self._model.variables if is_seed(variable)}
        adapters = {id(v) for swap in done for layer in swap.added for v in layer.variables}
        again = {id(v) for swap in done for layer in swap.again for v in layer.variables}
        if new := [v.path for one, v in now.items() if one not in had and one not in seeds | adapters | again]:
            self.fail(f"{new[0]} is new.")
        left = sum(int(np.prod(v.shape)) for v in self._model.weights)
        if left != self._plan.after:
            self.fail(f"{left:,} parameters are left, and {self._plan.after:,} should be.")

    def _trains(self, had: dict[int, Any], paths: dict[int, str]) -> None:
        """Refuse if what learned does not: it has no gradient, or nothing but zeros."""
        now, _ = self._runs.gradients(training=True)
        least = 1e-6 * max((float(np.abs(g).max(initial=0.0)) for g in had.values()), default=0.0)
        for variable in self._model.trainable_variables:
            was, has = had.get(id(variable)), now.get(id(variable))
            if was is None or paths[id(variable)] in self._plan.idle:
                continue
            if has is None and keras.config.backend() != "jax":  # there, none and zero are the same
                self.fail(f"{paths[id(variable)]} has no gradient any more.", RefusalCode.NO_PATH)
            if float(np.abs(was).max(initial=0.0)) > least and (has is None or not has.any()):
                self.fail(f"the gradient of {paths[id(variable)]} is zero now.", RefusalCode.NO_PATH)

    def _refuse_nan(self, before: _Before, paths: dict[int, str]) -> None:
        """Refuse an example of which nothing can be said, since NaN equals nothing."""
        found = [f"its result {name}".rstrip() for name, value in before.results.items() if has_nan(value)]
        found += [f"the gradient of {paths[one]}" for one, value in before.gradients.items() if has_nan(value)]
        if found:
            why = (
                f"with this example the untouched model gives NaN: {found[0]}. Give an example with which it does not."
            )
            raise RemovalRefused(RefusalCode.UNTRACEABLE, self.what, why)

    def fail(self, why: str, code: RefusalCode = RefusalCode.FAILED_CHECK) -> NoReturn:
        """Refuse."""
        raise RemovalRefused(code, self.what, why)
