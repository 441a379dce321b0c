"""How the rest still runs without what an arm takes away: planned and tried in this process, before anything starts."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from etude.ablate.arms import removal
from etude.ablate.matching import check_arm
from etude.core.data import Data
from etude.core.errors import ConfigError, EtudeError, RemovalRefused, ResultError
from etude.core.removal import Arm, Features, Layers, drawn_anew, taken_out
from etude.core.rungs import Rung
from etude.core.signature import Definition, Kind, variant_of
from etude.core.text import count
from etude.data.counted import derive
from etude.data.features import kept_without
from etude.data.prints import prints_of
from etude.frameworks.cutting import CannotCutError, Kept
from etude.frameworks.removers import Remover, is_keras, parameters_of, remover_of, replay, weights_alike, whole_of
from etude.results.rebuilt import build, data_of
from etude.verbs.listed import Looked, called_with
from etude.verbs.trying import Trying

KEEP_INPUTS: Final = "Pass how='permute', or how='constant' and value=, which keep what the model is called with."
NARROW: Final = "The model is built for fewer inputs, so it begins with other weights than the base: no pairs."


@dataclass(frozen=True)
class PlannedArm:
    """An arm, as it was planned.

    Attributes:
        arm: What is taken away, with how the rest still runs.
        changes: What is done to the model, in words; empty if nothing is.
        rung: How deep the repair cuts, by name; empty if there is none.
        rebuilt: Names of the weights that are drawn anew.
        loses: Whether weights that the model function had loaded are among these.
        parameters: How many the model has then; None if nobody knows.
        says: What should be said of it.
        refused: Why it cannot be; empty if it can.
        paired: Whether it is said that its runs are pairs with the base's; None if nobody says.
    """

    arm: Arm
    changes: tuple[str, ...] = ()
    rung: str = ""
    rebuilt: tuple[str, ...] = ()
    loses: bool = False
    parameters: int | None = None
    says: tuple[str, ...] = ()
    refused: str = ""
    paired: bool | None = None

    @property
    def taken(self) -> tuple[str, ...]:
        """What is taken away, in words: features, what is done to the model, settings, functions of its own."""
        says = {one.partition(": ")[0]: one.removesuffix(".") for one in self.says}
        features = [taken_out(self.arm.features)] if self.arm.features is not None else []
        settings = [says.get(name, f"{name}={value!r}") for name, value in self.arm.settings.items()]
        own = ["its own functions"] if self.arm.variant else []
        return (*features, *self.changes, *settings, *own)

    @property
    def notes(self) -> tuple[str, ...]:
        """What else the plan says of it: what a pattern matched, what is odd."""
        says = [one.removesuffix(".") for one in self.says]
        return tuple(one.removeprefix(f"{self.arm.name}: ") for one in says if one not in self.taken)

    def __str__(self) -> str:
        if self.refused:
            return f"{self.arm.name}: {'; '.join([*self.notes, self.refused])}"
        anew = [drawn_anew(self.rebuilt, loses=self.loses)] if self.rebuilt else []
        taken = [one.removeprefix(f"{self.arm.name}: ") for one in self.taken]
        told = [*taken, *anew, *self.notes] or ["nothing is taken away"]
        facts = [count(self.parameters, "parameter")] if self.parameters is not None else []
        facts += [self.rung] if self.rung else []
        size = f" [{', '.join(facts)}]" if facts else ""
        return f"{self.arm.name}: {'; '.join(told)}{size}"


@dataclass(frozen=True)
class _Whole:
    """A model from which something is taken, and who takes it."""

    model: Any
    remover: Remover


class Repairs:
    """Plans how the rest still runs; what takes away the same is planned once.

    Args:
        experiment: Whose functions are run, with those of its variants.
        looked: What was seen of it.
        params: The configuration of the base.
        seed: The training seed under which things are tried.
    """

    def __init__(self, experiment: Definition, looked: Looked, params: Mapping[str, Any], seed: int) -> None:
        self._experiment, self._looked, self._params, self._seed = experiment, looked, dict(params), seed
        self._trying = Trying(experiment, params, seed)
        self._known: dict[object, PlannedArm] = {}
        self._dead: dict[str, bool] = {}
        self._left_out: set[str] = set()
        self._wholes: dict[object, _Whole] = {}
        self._loaded: dict[object, frozenset[str]] = {}
        self._examples: dict[object, Any] = {}

    @property
    def parameters(self) -> int | None:
        """How many the whole model has; None if nobody knows."""
        model = self._looked.model
        return None if model is None else parameters_of(model)

    def of(self, arm: Arm) -> PlannedArm:
        """Return an arm with how the rest still runs, or why it cannot be."""
        if arm.layers is None and arm.features is None and not arm.settings and not arm.variant:
            return PlannedArm(arm, parameters=self.parameters)
        key = removal(arm)
        if key not in self._known:
            try:
                check_arm(arm, self._looked.listing)
                self._trying.check(arm)
                own = arm.layers is None and arm.features is None
                self._known[key] = PlannedArm(arm) if own else self._planned(arm)
            except (RemovalRefused, ConfigError, ResultError) as refused:
                self._known[key] = PlannedArm(arm, refused=str(refused))
        found = self._known[key]
        return dataclasses.replace(found, arm=msgspec.structs.replace(arm, repair=found.arm.repair))

    def _planned(self, arm: Arm) -> PlannedArm:
        if _drops(arm) and self._looked.listing.by_hand:
            self._check_left_out(arm)
        model = self._looked.model
        cuts_inputs = _drops(arm) and model is not None
        if arm.features is not None and (not cuts_inputs or is_keras(model)):  # else training is tried with them
            rest = data_of(self._experiment, self._params | arm.settings, self._seed, _without_repair(arm))
            if cuts_inputs:
                return self._without_features_of_keras(arm, rest)
        if model is None or (arm.layers is None and not cuts_inputs):
            return PlannedArm(arm, parameters=self.parameters)
        whole, changes, rung = self._whole(arm), [], ""
        rebuilt: tuple[str, ...] = ()
        says: tuple[str, ...] = ()
        repair: dict[str, Any] = {"of": whole.remover.of}
        parameters = None
        if arm.layers is not None:
            plan, _ = whole.remover.checked(arm.layers, seed=self._seed)
            says = self._dead_in(arm.layers, plan, whole)
            repair["plan"], rung = msgspec.to_builtins(plan), f"rung {int(plan.rung)}, {plan.rung.name.lower()}"
            changes += plan.changes[:-1] if _drops(arm) else plan.changes  # the last tells of the size, not yet known
            parameters, rebuilt = plan.after, tuple(plan.rebuilt)
        if cuts_inputs:
            model = copy.deepcopy(whole.model)
            if "plan" in repair:
                replay(model, repair, seed=self._seed)
            cuts = self._without_features(arm, model)
            repair |= {"cuts": msgspec.to_builtins(cuts), "derived": self._derived()}
            changes += cuts.changes
            says += () if cuts.changes else ("the model is called with the same as in the base, and does not read it",)
            parameters = parameters_of(model)
        loses = bool(rebuilt) and not self._loaded_in(arm, whole.model).isdisjoint(rebuilt)
        arm = msgspec.structs.replace(arm, repair=repair)
        return PlannedArm(arm, tuple(changes), rung, rebuilt, loses, parameters, says)

    def _check_left_out(self, arm: Arm) -> None:
        """Refuse features that only the data function knows by name, and of which it leaves out nothing.

        Raises:
            ConfigError: It gives the same without one of them.
        """
        assert arm.features is not None
        named = {one.address for one in self._looked.listing.features}
        unknown = [one for one in arm.features.names if one not in named and one not in self._left_out]
        whole = prints_of(self._looked.data) if unknown else None
        for name in unknown:
            alone = Arm(arm.name, features=Features((name,)), variant=arm.variant)
            rest = prints_of(data_of(self._experiment, self._params | arm.settings, self._seed, alone))
            if rest and rest == whole:
                raise ConfigError(
                    f"{name!r} is no feature that data() knows: with without={{{name!r}}} it returned the same rows as "
                    "with all features. Pass a name that it knows, or return etude.Data with named features."
                )
            self._left_out.add(name)

    def _dead_in(self, layers: Layers, plan: Any, whole: _Whole) -> tuple[str, ...]:
        """Return what is to be said of layers whose results nobody uses, and of those without which all is the same."""
        if self._looked.example is None:
            return ()
        unused = [target.path for target in layers.targets if self._is_unused(target.path, whole.model)]
        if unused:
            return tuple(f"{path!r} is called, and nothing uses what it gives: a dead component" for path in unused)
        paths = ", ".join(repr(path) for path in [*(target.path for target in layers.targets), *layers.along])
        if plan.rung is Rung.LEARNED and plan.after >= plan.before:
            return (
                f"what is learned in the place of {paths} has as many parameters, so that nothing is missed: leave "
                "repair='learned' out, or take more away with it",
            )
        if not whole.remover.changes_nothing(plan, seed=self._seed):
            return ()
        return (
            f"the model gives and learns the same without {paths}: a dead component, whose removal changes nothing",
        )

    def _is_unused(self, path: str, model: Any) -> bool:
        """Whether nothing uses what a layer of a PyTorch model gives; the graph of a Keras model has no such layers."""
        if is_keras(model):
            return False
        from etude.frameworks.torch_idle import reaches

        if path not in self._dead:
            self._dead[path] = not reaches(model, self._looked.example, path)
        return self._dead[path]

    def _loaded_in(self, arm: Arm, model: Any) -> frozenset[str]:
        """Return which weights of a whole model have the same values under another seed, as if they had been loaded.

        The model is built once more for that, once for all arms that are cut from it; only names are kept.
        """
        key = self._key(arm)
        if key not in self._loaded:
            own = Arm("", variant=arm.variant)
            other = build(self._experiment, self._params | arm.settings, self._seed + 1, own)
            self._loaded[key] = weights_alike(model, other)
        return self._loaded[key]

    def _without_features_of_keras(self, arm: Arm, rest: Any) -> PlannedArm:
        """Return an arm whose Keras model loses inputs, or is built for fewer by its function where nobody can tell."""
        from etude.frameworks.keras_removal.inputs import without_inputs
        from etude.frameworks.keras_removal.models import models

        assert arm.features is not None
        whole, changes, rung = self._whole(arm), [], ""
        rebuilt: tuple[str, ...] = ()
        says: tuple[str, ...] = ()
        repair: dict[str, Any] = {"of": "keras"}
        if arm.layers is not None:
            plan, _ = whole.remover.checked(arm.layers, seed=self._seed)
            repair["plan"], rung = msgspec.to_builtins(plan), f"rung {int(plan.rung)}, {plan.rung.name.lower()}"
            changes, rebuilt = list(plan.changes[:-1]), tuple(plan.rebuilt)  # the last tells of the size, not yet known
            says = self._dead_in(arm.layers, plan, whole)
        kept = [Kept(*one) for one in kept_without(self._looked.data, arm.features.names)]
        try:
            model = build(self._experiment, self._params | arm.settings, self._seed, Arm("", variant=arm.variant))
            if "plan" in repair:
                replay(model, repair, seed=self._seed)
            cuts = without_inputs(models(model)[0], self._looked.data, rest, kept)
        except (CannotCutError, RemovalRefused) as error:
            if arm.layers is not None:
                why = str(error).removesuffix(".")
                raise ConfigError(f"Features and layers cannot be dropped in one arm: {why}. {KEEP_INPUTS}") from error
            return PlannedArm(arm, says=(f"{NARROW} Why: {str(error).removesuffix('.')}.",))
        repair |= {"cuts": msgspec.to_builtins(cuts), "derived": self._derived()}
        says += () if cuts.edits else ("the model is called with the same as in the base, and does not read it",)
        arm = msgspec.structs.replace(arm, repair=repair)
        loses = bool(rebuilt) and not self._loaded_in(arm, whole.model).isdisjoint(rebuilt)
        return PlannedArm(arm, (*changes, *cuts.changes), rung, rebuilt, loses, parameters_of(model), says)

    def _whole(self, arm: Arm) -> _Whole:
        """Return the model that an arm's component is taken from: with its settings, or by its variant."""
        key = self._key(arm)
        if key not in self._wholes:
            looked, model = self._looked, self._looked.model
            runs = looked.runs
            if key != self._key(Arm("base")):
                built = build(self._experiment, self._params | arm.settings, self._seed, Arm("", variant=arm.variant))
                model, runs = whole_of(built), None
            self._wholes[key] = _Whole(model, remover_of(model, looked.example, runs))
        return self._wholes[key]

    def _key(self, arm: Arm) -> object:
        """Return what of an arm makes another model of the whole."""
        known = self._experiment.signature.parameters
        own = {name: v for name, v in arm.settings.items() if name not in known or "model" in known[name].roles}
        has_own = variant_of("model", arm.variant) in self._experiment.functions
        return repr(sorted(own.items())), arm.variant if has_own else ""

    def _without_features(self, arm: Arm, model: Any) -> Any:
        """Return what goes with dropped features, and do it to a model.

        Raises:
            ConfigError: Nobody can tell, or the training function does not run without them.
        """
        from etude.frameworks.torch_readers import cut, cuts_for

        assert arm.features is not None
        kept = [Kept(*one) for one in kept_without(self._looked.data, arm.features.names)]
        try:
            beside, rest = self._called_with(arm, without=False), self._called_with(arm, without=True)
            cuts = cuts_for(model, beside, rest, kept, same=not self._leaves_out(arm))
        except CannotCutError as error:
            names = ", ".join(map(repr, arm.features.names))
            raise ConfigError(
                f"{names} cannot be dropped from what the model reads, with all other first weights as they are: "
                f"{error}. {'' if self._looked.listing.by_hand else KEEP_INPUTS}".rstrip()
            ) from error
        cut(model, cuts)
        return cuts

    def _called_with(self, arm: Arm, *, without: bool) -> Any:
        """Return what the training function calls the model with, with an arm's features or without."""
        key = (removal(Arm("", settings=arm.settings, variant=arm.variant)), arm.features if without else None)
        if key not in self._examples:
            features = arm.features if without else None
            one = Arm(arm.name, features=features, variant=arm.variant)
            try:
                found = called_with(self._experiment, self._params | arm.settings, self._seed, one)
            except EtudeError:
                raise
            except Exception as error:
                raise CannotCutError(
                    f"the training function ends with {type(error).__name__}: {error}, before it calls the model"
                ) from error
            if found is None:
                raise CannotCutError("the training function does not call the model in its first batch")
            self._examples[key] = found
        return self._examples[key]

    def _leaves_out(self, arm: Arm) -> bool:
        """Whether the data function leaves features out itself."""
        given = self._experiment.signature.given
        return "without" in given.get(variant_of("data", arm.variant), given["data"])

    def _derived(self) -> dict[str, Any]:
        """Return the Derived values of the whole data that are plain, for data functions that leave out themselves."""
        data = self._looked.data
        if not isinstance(data, Data):
            return {}
        wanted = [one.name for one in self._experiment.signature.parameters.values() if one.kind is Kind.DERIVED]
        values = {name: data.derived.get(name, derive(data, name)) for name in wanted}
        return {name: value for name, value in values.items() if isinstance(value, int | float | str | list | tuple)}


def _without_repair(arm: Arm) -> Arm:
    return Arm(arm.name, features=arm.features, variant=arm.variant)


def _drops(arm: Arm) -> bool:
    return arm.features is not None and arm.features.how == "drop"
