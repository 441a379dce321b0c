"""What components stand for in a certain model, its data and its configuration: matching against a listing.

A name that matches nothing is an error with the nearest names, and a pattern says what it matched, before anything
runs. What could not be taken away, or would change nothing, is refused here as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from etude.ablate.arms import removal
from etude.ablate.components import (
    Component,
    CustomComponent,
    DataComponent,
    Natural,
    SettingComponent,
    read_component,
)
from etude.ablate.listing import Feature, Listing, Setting
from etude.ablate.matching_layers import match_layers, nothing_left, used_up
from etude.ablate.naming import chosen, nearest
from etude.core.errors import ConfigError
from etude.core.removal import Arm, Features
from etude.core.text import brief, count, few

NO_TRAINING = frozenset(
    f"{how}{what}"
    for how in ("", "n_", "num_", "max_", "train_")
    for what in ("lr", "learning_rate", "epochs", "batch_size", "steps", "iterations")
)
"""Names of numbers of which 0 is no "off": it ends the training."""

LABELS = frozenset({"label", "labels", "target", "targets", "y", "outcome"})
IDS = frozenset({"id", "ids", "uuid", "index"})


@dataclass(frozen=True)
class Matched:
    """A component, and what it stands for.

    Attributes:
        component: The component.
        arm: The arm that takes it away, called as the component is spelled.
        says: What a plan should say of it, one sentence each: what a pattern matched, from which value to which.
        warns: What is odd about it, and no reason to refuse it.
    """

    component: Component
    arm: Arm
    says: tuple[str, ...] = ()
    warns: tuple[str, ...] = ()


def match_all(components: str | Component | Iterable[str | Component], listing: Listing) -> list[Matched]:
    """Return what components stand for. Those that stand for the same are one, and it says so.

    Args:
        components: One or more, as text or as values.
        listing: Everything that could be taken away.

    Raises:
        ConfigError: There are none, or one of them cannot be taken away.
    """
    asked = [components] if isinstance(components, str | Component) else _several(components)
    if not asked:
        raise ConfigError("There is nothing to take away. Pass components, such as ['layer:conv2', 'dropout'].")
    found: dict[object, Matched] = {}
    for matched in (match(component, listing) for component in asked):
        key = removal(matched.arm)
        first = found.setdefault(key, matched)
        if isinstance(matched.component, CustomComponent) and first.component != matched.component:
            raise ConfigError(
                f"Two custom variants are called {matched.arm.name!r}. Give one of them another name, by which "
                "tables can tell them apart."
            )
        if first.arm.name != matched.arm.name:
            also = f"{matched.arm.name!r} takes away the same, and is no arm of its own."
            found[key] = replace(first, says=(*first.says, also))
    return list(found.values())


def _several(components: Any) -> list[str | Component]:
    """Return what was passed as components, one after the other."""
    if isinstance(components, Mapping) or not isinstance(components, Iterable):
        what = "a dict, and its keys alone are no components" if isinstance(components, Mapping) else "no component"
        raise ConfigError(
            f"components={brief(components)} is {what}. Pass a text such as 'layer:conv2' or 'dropout', a value of "
            "etude.components, or a list of these; experiment.components() lists what there is."
        )
    return list(components)


def match(component: str | Component, listing: Listing) -> Matched:
    """Return what a component stands for.

    Args:
        component: The component, as text or as a value.
        listing: Everything that could be taken away.

    Raises:
        ConfigError: It matches nothing, or several things where one is meant; it would take away everything, the input
            or the output of the model, or a label; or its removal would change nothing.
    """
    component = read_component(component)
    name = str(component)
    match component:
        case DataComponent():
            matched = _match_data(component, name, listing)
        case SettingComponent():
            matched = _match_setting(component, name, listing)
        case CustomComponent():
            matched = Matched(component, Arm(name, variant=component.name), tuple(filter(None, [component.says])))
        case _:
            layers, says, warns = match_layers(component, listing, elsewhere=_elsewhere(component, listing))
            matched = Matched(component, Arm(name, layers=layers), says, warns)
    check_arm(matched.arm, listing)
    return matched


def check_arm(arm: Arm, listing: Listing) -> None:
    """Refuse an arm that leaves too little: no feature, no layer that learns, nothing of a layer. Joined ones need it.

    Raises:
        ConfigError: It does.
    """
    if arm.layers is not None and (part := used_up(arm.layers, listing.layers)) is not None:
        raise ConfigError(
            f"{arm.name!r} takes away all {len(part.indices)} {part.of} of {part.path!r}. "
            f"Take the layer away instead, 'layer:{part.path}', or leave some of them."
        )
    if arm.layers is not None and nothing_left(arm.layers, listing.layers):
        raise ConfigError(
            f"{arm.name!r} takes away every layer that learns, so that there is nothing to train. "
            "Leave some of them out, or take them away one at a time."
        )
    taken = arm.features
    usable = {feature.address for feature in listing.features if not feature.role}
    if taken is not None and taken.how == "drop" and usable and usable <= set(taken.names):
        raise ConfigError(
            f"{arm.name!r} takes away all {count(len(usable), 'feature')}, so that there is nothing to learn from. "
            'Leave some of them out, take them away one at a time, or pass how="permute", which keeps their shapes.'
        )


def _match_data(component: DataComponent, name: str, listing: Listing) -> Matched:
    kind = "channel" if component.kind == "channel" else "feature"
    if component.kind == "modality":
        modalities = {feature.modality for feature in listing.features}
        fields = set(component.names) - modalities  # one without columns that have names is a modality by itself
        there = [one for one in listing.features if one.modality or (one.kind == "feature" and one.name in fields)]
        keys = [one.modality or one.name for one in there]
    else:
        there = [feature for feature in listing.features if feature.kind == kind]
        keys = [feature.name for feature in there]
    if listing.by_hand and component.kind == "feature":
        return _match_by_hand(component, name)
    if not there and listing.nameless:
        raise ConfigError(f"{name!r} cannot be taken away: {listing.nameless}")
    if not there:
        raise ConfigError(
            f"{name!r} cannot be taken away: the data has no {component.kind} with a name. "
            "Return etude.Data with named features from the data function, or let it take "
            "without: frozenset[str] and leave these out itself."
        )
    wanted = chosen(component.names, component.pattern, keys, name, component.kind, _elsewhere(component, listing))
    found = [feature for feature, key in zip(there, keys, strict=True) if key in wanted]
    for feature in found:
        _refuse_role(feature, name, several=len(found) > 1)
    addresses = tuple(sorted(feature.address for feature in found))
    is_pattern = component.pattern is not None or component.kind == "modality" or set(component.names) != wanted
    says = (f"{name!r} is {count(len(found), kind)}: {few(one.address for one in found)}.",) if is_pattern else ()
    warns = tuple(looks for feature in found if (looks := _looks_like_none(feature, listing)))
    return Matched(component, Arm(name, features=Features(addresses, component.how, component.value)), says, warns)


def _match_by_hand(component: DataComponent, name: str) -> Matched:
    """Return what features stand for that only the data function knows: their names as they are."""
    if component.pattern is not None or any("*" in each or "?" in each for each in component.names):
        raise ConfigError(
            f"{name!r} is a pattern, and nothing names the features in what data() returns. Write the names that it "
            "knows, 'feature:NAME', or return etude.Data with named features."
        )
    if component.how != "drop":
        raise ConfigError(
            f"{name!r} cannot be done: nothing names the features in what data() returns, so that it alone can leave "
            "them out. Return etude.Data with named features, or leave how= out."
        )
    return Matched(component, Arm(name, features=Features(tuple(sorted(component.names)))))


def _looks_like_none(feature: Feature, listing: Listing) -> str:
    """Return what is to be said of a feature whose name is that of a label or an id; nothing of others."""
    name = feature.name
    if name.lower() in LABELS and not any(one.role == "label" for one in listing.features):
        return f"{name!r} is called like a label, and counts as a feature: if it is one, etude.Data(target={name!r})"
    if name.lower() in IDS or name.endswith(("_id", "Id")):
        return f"{name!r} is called like an id, and counts as a feature: if it is one, etude.Data(ids={name!r})"
    return ""


def _refuse_role(feature: Feature, name: str, *, several: bool) -> None:
    mend = "Leave it out of the pattern, or name the others." if several else "Take another feature away."
    if feature.role == "label":
        raise ConfigError(
            f"{name!r} cannot be taken away: {feature.address!r} is the label, and without it nothing can be "
            f"learned. {mend}"
        )
    if feature.role == "id":
        raise ConfigError(
            f"{name!r} cannot be taken away: {feature.address!r} tells examples apart and is not learned from, so its "
            f"removal would change nothing, or mix examples up. {mend}"
        )


def _match_setting(component: SettingComponent, name: str, listing: Listing) -> Matched:
    by_name = {setting.name: setting for setting in listing.settings}
    if component.name not in by_name:
        raise ConfigError(
            f"{name!r} matches no hyperparameter. {nearest(component.name, by_name)}"
            f"{_elsewhere(component, listing)}".rstrip()
        )
    setting = by_name[component.name]
    if setting.kind != "stateful":
        why = (
            "it cannot change the numbers, being Stateless"
            if setting.kind == "stateless"
            else "its value comes from the data, as it is Derived"
        )
        raise ConfigError(f"{name!r} cannot be switched off: {why}. Leave it out of the components.")
    off = _off(component, setting)
    if repr(off) == repr(setting.value) or (type(off) is type(setting.value) and off == setting.value):
        raise ConfigError(
            f"{name!r} is off already: its value is {setting.value!r}, so that nothing would change. "
            f"Leave it out, pass at= a configuration in which it is on, or another value: "
            f"etude.setting({component.name!r}, off=...)."
        )
    none = setting.name.rpartition(".")[2] in NO_TRAINING and not isinstance(off, bool) and off == 0
    warns = (f"nothing is trained with {off!r}: write '{setting.name}=...' for another value",) if none else ()
    says = (f"{setting.name}: {setting.value!r} -> {off!r}.",)
    return Matched(component, Arm(name, settings={setting.name: off}), says, warns)


def _off(component: SettingComponent, setting: Setting) -> object:
    """Return the value of a setting that is off."""
    value = setting.value
    if component.off is not Natural.OFF:
        both = isinstance(value, float) and type(component.off) is int  # "lr=0" is meant as 0.0
        return float(component.off) if both else component.off
    if isinstance(value, bool):
        return False
    if isinstance(value, int | float):
        return type(value)(0)
    raise ConfigError(
        f"{component.name!r} has no value of its own that means off: it is {value!r}, neither a number nor a switch. "
        f"Say which value is: etude.setting({component.name!r}, off=...), or {component.name + '=...'!r}."
    )


def _elsewhere(component: Component, listing: Listing) -> str:
    """Return a hint, with a space before it, if what was asked for is there as something else; else nothing."""
    names: Sequence[str] = getattr(component, "names", ()) or (getattr(component, "name", ""),)
    hints = []
    for name in dict.fromkeys(names):
        forms = {
            "layer:": any(name in (one.path, one.path.rpartition(".")[2]) for one in listing.layers),
            "type:": any(name == one.type for one in listing.layers),
            "feature:": any(name == one.name and one.kind == "feature" for one in listing.features),
            "channel:": any(name == one.name and one.kind == "channel" for one in listing.features),
            "modality:": any(name == one.modality for one in listing.features) and name != "",
            "": any(name == one.name for one in listing.settings),
        }
        hints += [repr(prefix + name) for prefix, there in forms.items() if there]
    return f" There is {' and '.join(hints)}." if hints else ""
