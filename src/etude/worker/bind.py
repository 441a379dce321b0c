"""Puts a trial together, in one fixed order, and calls the training function.

    stream "data"  -> data(), once; it is looked at, features that the trial does without are taken out of it, and
                      Derived values come from what is left
    stream "init"  -> model(), whole, also with the Derived values of the whole data; what an arm takes away is taken
                      out of it, and what has to be rebuilt draws from streams of its own name; inputs of dropped
                      features are cut off; then the weights that the trial begins with, if they are not random
    stream "train" -> the training function, with both as functions of no argument; a stream for each rank

Each function draws from a stream of its own, whatever order the training function calls them in:
the global generators of ``random``, numpy, torch and Keras are set before a call and put back after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from etude.core.data import Data
from etude.core.errors import ConfigError, ResultError
from etude.core.removal import FINGERPRINTS, Arm, Features
from etude.core.signature import Kind, Signature, variant_of
from etude.data.counted import derive
from etude.data.without import check_left_out, without
from etude.frameworks import torch_adapter
from etude.frameworks.unasked import Unasked
from etude.worker.beginnings import Beginning
from etude.worker.handed import Handed
from etude.worker.importance import Importance
from etude.worker.run import Run
from etude.worker.seeds import kept_generators, seed_generators, seeded
from etude.worker.taking import taken_out, without_inputs
from etude.worker.together import Together

Functions = Mapping[str, Callable[..., Any]]

BY_CLASS: Final = "by_class"
"""Where beside the metrics of a trial it stands what the finished model makes of each class."""


class Bound:
    """A trial, put together.

    Args:
        functions: Role (``train``, ``model``, ``data``) -> function.
        signature: What they take.
        params: The configuration.
        run: The handle that the training function may ask for.
        start: Gives the first model its weights; None if they are random.
        look: Sees what the data function returned, and returns what is used; None if nobody looks.
        arm: What is taken away; None if nothing is.

    Raises:
        ConfigError: There are features to be taken out, and no data function; or a variant's functions are not there.

    Attributes:
        derived: Values that the data function gave to Derived parameters, once it was called.
        data_params: What the data function is called with.
    """

    def __init__(
        self,
        functions: Functions,
        signature: Signature,
        params: Mapping[str, Any],
        run: Run,
        start: Callable[[Any], object] | None = None,
        look: Callable[[Any], Any] | None = None,
        arm: Arm | None = None,
    ) -> None:
        self._functions = functions
        self._signature = signature
        self._params = dict(params)
        self._run = run
        self._start = start
        self._look = look
        self._arm = arm
        self._data: list[Any] = []  # what data() returned, once it did
        self._models = 0
        self._unasked = Unasked(run) if run.auto_report else None
        self._judged = False
        self._beginning = Beginning() if arm is not None else None
        self._built: list[Any] = []  # what model() returned, if it is to be judged
        self._wants_derived = [p.name for p in signature.parameters.values() if p.kind is Kind.DERIVED]
        self.derived: dict[str, Any] = {}
        self._of_whole: dict[str, Any] = {}  # Derived values of the data with all features, where they differ
        self._raised: tuple[BaseException, str] | None = None
        self.data_params = signature.arguments("data", params) if "data" in functions else {}
        variant = arm.variant if arm is not None else ""
        if variant and not any(variant_of(role, variant) in functions for role in functions):
            raise ConfigError(
                f"The functions of the variant {variant!r} are in the call that began its study, and not in the "
                "experiment. Make the call again, or call them by hand."
            )
        if (features := self._features) is not None:
            if "data" not in functions:
                names = ", ".join(map(repr, features.names))
                raise ConfigError(
                    f"{names} cannot be taken out of the data: the experiment has no data function, so that the data "
                    "is the training function's own. Pass Experiment(train, data=...)."
                )
            self.data_params["without"] = " ".join([features.how, *features.names])  # what it derives hangs on it

    @property
    def _features(self) -> Features | None:
        """The features that the trial does without."""
        return self._arm.features if self._arm is not None else None

    @property
    def _repair(self) -> Mapping[str, Any]:
        """How the model still runs, as it was planned; empty if nothing is done to it."""
        return (self._arm.repair or {}) if self._arm is not None else {}

    def train(self) -> Any:
        """Call the training function and return what it returns; the global generators stay where it leaves them."""
        if "partition" in self._functions and (asked := self._call("partition")) is not None:
            assert isinstance(self._run.together, Together), "a call for one rank has no partition"
            ranks = self._run.together.all
            self._judged = asked.judged
            if asked.partition is not None:
                self._run.importance = Importance(asked, ranks, seed=self._run.seed, say=self._run.together.say)
        if self._wants_derived:
            self.data()
        seed_generators(self._run.seed, *self._run.together.stream("train"))
        return self._call("train", model=Handed("model", self.model), data=Handed("data", self.data), run=self._run)

    def by_class(self) -> dict[str, Any]:
        """Return what the finished model makes of each class of the untouched data; nothing if nobody asked."""
        torch = torch_adapter()
        if not self._judged or torch is None or self._run.rank:
            return {}
        from etude.frameworks import torch_classes

        return {BY_CLASS: torch_classes.judged(self._built, self._data[0] if self._data else None)}

    @property
    def fingerprints(self) -> dict[str, Any]:
        """How the training began, of an arm of an ablation: empty for others, and where nobody can tell."""
        return {} if self._beginning is None else {FINGERPRINTS: self._beginning.found}

    def data(self) -> Any:
        """Return the data; it is loaded once."""
        if not self._data:
            found = self._load()
            if isinstance(found, Data):
                self.derived = self._derived(found)
            for name in self._wants_derived:
                if name not in self.derived:
                    raise ResultError(
                        f"{name!r} is Derived, and data() gave no value for it. Return "
                        f"etude.Data(train, valid, {name}=...) from the data function."
                    )
            if torch := torch_adapter():
                found = torch.prepare_data(found, seed=self._run.seed, device=self._run.device)
                found = self._run.together.shard(found)
                found = self._run.tuning.see_data(found)
            if self._beginning is not None:
                self._beginning.data(found)  # of several ranks the share of each
            if torch:
                self._run.importance.see(found)
                for number, generator in enumerate(torch.generators(found)):
                    self._run.keeper.add_source(f"loader {number}", torch.source_of(generator))
                if self._run.probing is not None:
                    self._run.probing.cut(found, over=self._run.end_reported_probe)
            self._data.append(found)
        return self._data[0]

    def _derived(self, found: Data) -> dict[str, Any]:
        """Return the Derived values that data gives, or that can be counted in it."""
        derived = dict(found.derived)
        for name in self._wants_derived:
            if name not in derived:
                with kept_generators():
                    counted = derive(found, name)
                derived |= {name: counted} if counted is not None else {}
        return derived

    def _load(self) -> Any:
        """Call the data function, and return what is used of what it returned.

        It is looked at first: whether weights have seen its rows can be told by whole rows alone.
        """
        taken = self._features
        leaves_out = taken is not None and taken.how == "drop" and "without" in self._signature.given["data"]
        with seeded(self._run.seed, "data"):
            found = self._call("data", without=frozenset(taken.names) if taken and leaves_out else frozenset())
        if self._look is not None:
            found = self._look(found)
        if taken is None:
            return found
        if "cuts" in self._repair:
            counts = isinstance(found, Data) and not leaves_out
            self._of_whole = self._derived(found) if counts else self._repair["derived"]
        with kept_generators():
            if not leaves_out:
                return without(found, taken, seed=self._run.seed)
            check_left_out(found, taken)
        return found

    def model(self) -> Any:
        """Return a new model; the first of a trial has the same initial weights for equal seeds."""
        if self._wants_derived:
            self.data()
        nth, self._models = self._models, self._models + 1
        with seeded(self._run.seed, *("init", nth) if nth else ("init",)):
            built = self._call("model")
        if self._repair:
            built = taken_out(built, self._repair, seed=self._run.seed)
        torch = torch_adapter()
        if self._beginning is not None:
            self._beginning.model(built, but_for=self._repair.get("plan", {}).get("resized", ()))
            if "cuts" in self._repair:
                without_inputs(built, self._repair)
                self._beginning.cut(built)
        if nth == 0 and self._start is not None:
            self._start(built)
        if torch is not None:
            built = torch.place(built, device=self._run.device)
            built = self._run.tuning.see_model(built)
        attached = self._run.together.attach(built)
        if self._unasked is not None:
            self._unasked.see(attached)
        if self._judged:
            self._built.append(attached)
        return attached

    def raised_in(self, error: BaseException) -> str:
        """Return the role of the function that raised ``error``."""
        return self._raised[1] if self._raised is not None and self._raised[0] is error else "train"

    def _call(self, role: str, **given: Any) -> Any:
        building = role == "model"
        if self._arm is not None and (other := variant_of(role, self._arm.variant)) in self._functions:
            role = other
        asked = self._signature.given[role]
        derived = {**self.derived, **self._of_whole} if building else self.derived
        own = {name: value for name, value in {"seed": self._run.seed, **given}.items() if name in asked}
        try:
            return self._functions[role](**self._signature.arguments(role, {**self._params, **derived}), **own)
        except BaseException as error:
            if self.raised_in(error) == "train":  # else it came through from an inner call
                self._raised = error, role
            raise
