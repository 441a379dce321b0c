"""Components of plain arguments: what ``etude.components`` has, for names that are awkward to spell and for options."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from etude.ablate.components import (
    BetweenComponent,
    CustomComponent,
    DataComponent,
    How,
    LayerComponent,
    Natural,
    PartComponent,
    Repair,
    SettingComponent,
    names_along,
)
from etude.ablate.spelling import spelled_indices
from etude.core.errors import ConfigError

Names = str | Iterable[str]


def feature(
    *names: str, matching: str | None = None, how: How = "drop", value: float | str | None = None
) -> DataComponent:
    """Return features as one component.

    Args:
        names: Their names; ``*`` and ``?`` stand for other characters, unless a feature has that very name.
        matching: A regular expression that is searched for in the names, instead.
        how: ``"drop"`` takes them out. ``"permute"`` shuffles their values over the examples, and ``"constant"`` puts
            ``value`` in their place: shapes stay, and it is another question that is answered.
        value: The constant.

    Raises:
        ConfigError: Neither names nor a pattern, or both, or options that do not fit together.

    Example:
        >>> print(feature("age", "fare"))
        features:[age,fare]
    """
    return DataComponent("feature", names, matching, how, value)


def channel(*numbers: int | str, how: How = "drop", value: float | str | None = None) -> DataComponent:
    """Return channels of images as one component.

    Args:
        numbers: Which, from 0; or their names, where the data say them.
        how: What is done to them, as for ``feature``.
        value: The constant, for ``how="constant"``.

    Raises:
        ConfigError: There is none, or options do not fit together.

    Example:
        >>> print(channel(0, how="constant", value=0.5))
        channel:0 how=constant value=0.5
    """
    return DataComponent("channel", tuple(map(str, numbers)), None, how, value)


def modality(*names: str, how: How = "drop", value: float | str | None = None) -> DataComponent:
    """Return all features of a modality as one component.

    Args:
        names: The modalities, by the names that ``Data(modalities=...)`` gives them.
        how: What is done to their features, as for ``feature``.
        value: The constant, for ``how="constant"``.

    Raises:
        ConfigError: There is none, or options do not fit together.
    """
    return DataComponent("modality", names, None, how, value)


def layer(*names: str, matching: str | None = None, with_: Names = (), repair: Repair = "auto") -> LayerComponent:
    """Return layers or blocks as one component.

    Args:
        names: Their paths, such as ``"encoder.block3"``, or the ends of these, such as ``"block3"``, where no other
            layer has them. ``*`` and ``?`` stand for other characters, but no dots.
        matching: A regular expression that is searched for in the paths, instead.
        with_: What else goes along: names as above, which are first looked for beside the layer.
        repair: ``"learned"`` allows a small adapter with parameters where nothing without any makes shapes fit.

    Raises:
        ConfigError: Neither names nor a pattern, or both.

    Example:
        >>> print(layer("conv2", with_="relu2", repair="learned"))
        layer:conv2 with=relu2 repair=learned
    """
    return LayerComponent("layer", names, matching, with_=names_along(with_), repair=repair)


def of_type(*types: str, matching: str | None = None, with_: Names = (), repair: Repair = "auto") -> LayerComponent:
    """Return all layers of a class as one component.

    Args:
        types: Names of classes, such as ``"Dropout"``; ``*`` and ``?`` stand for other characters.
        matching: A regular expression that is searched for in the names of classes, instead.
        with_: What else goes along, as for ``layer``.
        repair: As for ``layer``.

    Raises:
        ConfigError: Neither names nor a pattern, or both.
    """
    return LayerComponent("type", types, matching, with_=names_along(with_), repair=repair)


def between(first: str, last: str, *, with_: Names = (), repair: Repair = "auto") -> BetweenComponent:
    """Return what is called after one layer, which stays, up to and including another.

    Args:
        first: The layer before, by its path or the end of it.
        last: The last one that goes, likewise.
        with_: What else goes along, as for ``layer``.
        repair: As for ``layer``.

    Source: ``add_module`` of Sheikholeslami et al. 2021, "AutoAblation: Automated Parallel Ablation Studies for Deep
    Learning", EuroMLSys.
    """
    return BetweenComponent(first, last, with_=names_along(with_), repair=repair)


def filters(layer: str, indices: Any, *, with_: Names = (), repair: Repair = "auto") -> PartComponent:
    """Return some filters of a layer.

    Args:
        layer: The layer, by its path or the end of it.
        indices: Which, from 0: whole numbers, a slice, a range, or a text such as ``"0:16"``.
        with_: What else goes along, as for ``layer``.
        repair: As for ``layer``.

    Example:
        >>> print(filters("conv2", range(16)))
        filters:conv2[0:16]
    """
    return PartComponent("filters", layer, spelled_indices(indices), with_=names_along(with_), repair=repair)


def units(layer: str, indices: Any, *, with_: Names = (), repair: Repair = "auto") -> PartComponent:
    """Return some units of a dense layer.

    Args:
        layer: The layer, by its path or the end of it.
        indices: Which, from 0: whole numbers, a slice, a range, or a text such as ``"0:4"``.
        with_: What else goes along, as for ``layer``.
        repair: As for ``layer``.
    """
    return PartComponent("units", layer, spelled_indices(indices), with_=names_along(with_), repair=repair)


def heads(layer: str, indices: Any, *, with_: Names = (), repair: Repair = "auto") -> PartComponent:
    """Return some heads of an attention layer.

    Args:
        layer: The layer, by its path or the end of it.
        indices: Which, from 0: whole numbers, a slice, a range, or a text such as ``"0:4"``.
        with_: What else goes along, as for ``layer``.
        repair: As for ``layer``.
    """
    return PartComponent("heads", layer, spelled_indices(indices), with_=names_along(with_), repair=repair)


def setting(name: str, off: Any = Natural.OFF) -> SettingComponent:
    """Return a hyperparameter that is switched off.

    Args:
        name: The parameter.
        off: Its value when it is off. Left out, that is 0 for a number and False for a switch; others need one.

    Raises:
        ConfigError: It is no name of a parameter, or ``off`` is NaN.

    Example:
        >>> print(setting("optimizer", off="sgd"))
        optimizer=sgd
    """
    return SettingComponent(name, off)


def custom(
    name: str,
    *,
    model: Callable[..., Any] | None = None,
    data: Callable[..., Any] | None = None,
    train: Callable[..., Any] | None = None,
    paired: bool | None = None,
    says: str = "",
) -> CustomComponent:
    """Return a variant that the user wrote: functions that take the place of the experiment's.

    Args:
        name: What the arm is called.
        model: A model function, if it is another.
        data: A data function, if it is another.
        train: A training function, if it is another.
        paired: Whether its runs and the base's with equal seeds are pairs. That is seen by how models and data begin;
            where nothing of these is seen, as where a function runs a command, it can be said here.
        says: What else a plan and a report say of it, in a sentence.

    Raises:
        ConfigError: There is no name, no function, or something that is none.
    """
    return CustomComponent(name, model, data, train, paired, says)


def differences(start: Mapping[str, Any], end: Mapping[str, Any]) -> list[SettingComponent]:
    """Return what leads from one configuration to another, a component for each value in which they differ.

    With ``at=start`` and the policy ``"path"`` an ablation tells which of these changes matter.

    Args:
        start: The configuration to begin with, parameters by name.
        end: The one to arrive at.

    Raises:
        ConfigError: They have not the same parameters, or are equal.

    Example:
        >>> [str(one) for one in differences({"lr": 0.1, "width": 64}, {"lr": 0.01, "width": 64})]
        ['lr=0.01']
    """
    if alone := sorted(start.keys() ^ end.keys()):
        raise ConfigError(
            f"{', '.join(map(repr, alone))} stands in one of the two configurations alone, so that there is no value "
            "to go from, or to. Give both the same parameters."
        )
    changed = [name for name in start if repr(start[name]) != repr(end[name])]
    if not changed:
        raise ConfigError("The two configurations are equal, so nothing leads from one to the other. Pass two others.")
    return [SettingComponent(name, end[name]) for name in changed]
