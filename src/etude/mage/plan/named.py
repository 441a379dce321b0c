"""Finds what a hint names: modules, by their names or by counting, columns, settings, and functions."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from etude.mage.annotations import Annotation
from etude.mage.near import listed, nearest
from etude.mage.networks.models import Made, Network
from etude.mage.plan.hints import Item
from etude.mage.plan.things import Component, Project, columns_gone, setting_off
from etude.mage.sources.settings import Setting
from etude.mage.sources.source import sources
from etude.mage.variants import Thing, What
from etude.mage.witnesses import CallGone

COLUMN_WORDS = ("feature", "column", "input variable")
LAYER_WORDS = ("layer", "module", "block")


class UnknownName(Exception):  # noqa: N818 - it is no mishap: the answer to a question
    """An item names something that is not there."""


class Names:
    """What names in a hint mean.

    Args:
        project: The project.
        annotation: The hint.
    """

    def __init__(self, project: Project, annotation: Annotation) -> None:
        self.project = project
        self.annotation = annotation
        self.unchecked: list[str] = []
        """Columns that were taken as they are, since nobody knows those of the data."""

    def is_known(self, word: str) -> bool:
        """Say whether something of the project is called so."""
        return (
            word in self.project.all_columns
            or self.module(word) is not None
            or bool(self.settings(word))
            or bool(self.functions(word))
        )

    def network(self, item: Item | None = None) -> Network | None:
        """Return the network that the hint is about: the one that its text names, that follows it, or the only one."""
        networks = self.project.networks
        text = f"{item.about} {item.text}" if item is not None else self.annotation.text
        named = [one for one in networks if one.name in text.replace(":", " ").replace(",", " ").split()]
        below = [one for one in networks if one.name in self.annotation.names and one.file == self.annotation.file]
        around = [
            one
            for one in networks
            if one.file == self.annotation.file and one.lines[0] <= self.annotation.lines[0] <= one.lines[1]
        ]
        for found in (named, below, around, networks):
            if len(found) == 1:
                return found[0]
        return None

    def module(self, name: str) -> tuple[Network, Made] | None:
        """Return the module with a name, and its network, the hint's own first; None if there is none."""
        first = self.network()
        for network in ([first] if first is not None else []) + list(self.project.networks):
            if (made := network.find(name)) is not None:
                return network, made
        return None

    def layer(self, item: Item, network: Network, target: str) -> Made:
        """Return the layer that a name or a number means."""
        if target.lstrip("-").isdigit():
            return self.place(item, network, int(target))
        made = network.find(target)
        if made is None:
            raise UnknownName(
                self.not_there(item, "layer", target, [one.name for one in network.made], f"`{network.name}`")
            )
        return made

    def place(self, item: Item, network: Network, place: int) -> Made:
        """Return a layer by its place from 1; -1 is the last one."""
        layers = network.layers
        if place == -1 and layers:
            return layers[-1]
        if not 1 <= place <= len(layers):
            raise UnknownName(
                f"Hint item {item.number} names layer {place}; `{network.name}` has {len(layers)} "
                f"({listed(one.name for one in layers)})."
            )
        return layers[place - 1]

    def modules(self, item: Item, names: Sequence[str], places: Sequence[int]) -> tuple[Network | None, list[Made]]:
        """Return the modules that are named, and their network; none if the names are no modules."""
        found = [self.module(name) for name in names]
        says_layers = any(word in f"{item.about} {item.text}".lower() for word in LAYER_WORDS)
        says_columns = any(word in f"{item.about} {item.text}".lower() for word in COLUMN_WORDS)
        if names and None in found:
            missing = names[found.index(None)]
            meant = not says_columns and (says_layers or any(one is not None for one in found))
            if self.project.networks and meant and not self.is_known(missing):
                network = self.network(item)
                among = (network,) if network is not None else self.project.networks
                has = f"`{network.name}`" if network is not None else "the program"
                raise UnknownName(
                    self.not_there(item, "layer", missing, [m.name for one in among for m in one.made], has)
                )
            return None, []
        networks = {id(network): network for network, _ in filter(None, found)}
        if places:
            network = next(iter(networks.values()), None) or self.network(item)
            if network is None:
                told = listed(dict.fromkeys(one.name for one in self.project.networks)) or "none was found"
                raise UnknownName(
                    f"Hint item {item.number} counts layers, and it is not known of which network ({told}). Name it in "
                    "the hint, or put the hint above its class."
                )
            modules = [self.place(item, network, place) for place in places]
            return network, list(dict.fromkeys([*(made for _, made in filter(None, found)), *modules]))
        if len(networks) == 1 and not (says_columns and set(names) <= set(self.project.all_columns)):
            return next(iter(networks.values())), [made for _, made in filter(None, found)]
        return None, []

    def columns(self, item: Item, names: Sequence[str]) -> Component | None:
        """Return that columns go; None if the names are no columns."""
        known = self.project.all_columns
        words = f"{item.about} {item.text}".lower()
        says_columns = any(word in words for word in COLUMN_WORDS)
        missing = [name for name in names if name not in known]
        if known and missing and (says_columns or len(missing) < len(names) or self.like_columns(missing[0])):
            raise UnknownName(self.not_there(item, "column", missing[0], known, "the data"))
        if missing and (known or not says_columns):
            return None
        self.unchecked += missing
        return columns_gone(self.project, names, (self.annotation.file, item.line), item.text)

    def like_columns(self, name: str) -> bool:
        """Say whether a name is nothing that is known, and nearly a column."""
        return bool(nearest(name, self.project.all_columns)) and not self.is_known(name)

    def settings(self, name: str) -> list[Setting]:
        """Return the settings with a name."""
        plain = name.lstrip("-").replace("-", "_")
        return [one for one in self.project.settings if plain in (one.name, one.short)]

    def functions(self, name: str) -> list[str]:
        """Return the functions of the project, and those of libraries that it calls, that have a name."""
        found: dict[str, None] = {}
        for source in sources(self.project.tree):
            for placed in source.statements:
                node = placed.node
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
                    found[f"{source.file}:{placed.scope}{'.' if placed.scope else ''}{node.name}"] = None
            for call in source.nodes:
                if isinstance(call, ast.Call):
                    dotted = source.dotted(call.func)
                    if dotted.rpartition(".")[2] == name and dotted.partition(".")[0] in {
                        one.partition(".")[0] for one in source.imports.values()
                    }:
                        found[dotted] = None
        return list(found)

    def other(self, item: Item, name: str) -> Component:
        """Return what it means that a setting or a function goes."""
        if settings := self.settings(name):
            self.only_one(item, name, [f"{one.file}, line {one.line}" for one in settings])
            return setting_off(self.project, settings[0])
        if functions := self.functions(name):
            self.only_one(item, name, functions)
            thing = Thing(name=name, what=What.TRICK, declared=(self.annotation.file, item.line), evidence=item.text)
            files = tuple(source.file for source in sources(self.project.tree) if name in source.text)
            return Component((thing,), (CallGone(name=functions[0]),), f"`{functions[0]}` is not called.", files=files)
        known = [one.name for network in self.project.networks for one in network.made]
        known += [*self.project.all_columns, *(one.short for one in self.project.settings)]
        raise UnknownName(self.not_there(item, "", name, known, "the program"))

    def only_one(self, item: Item, name: str, found: Sequence[str]) -> None:
        """Refuse a name that several things have."""
        if len(found) > 1:
            raise UnknownName(
                f"Hint item {item.number} names `{name}`, of which there are {len(found)}: {', '.join(found)}."
            )

    def not_there(self, item: Item, what: str, name: str, known: Iterable[str], has: str) -> str:
        """Return what is said of a name that nothing has, with the nearest ones."""
        known = list(dict.fromkeys(known))
        near = nearest(name, known)
        told = listed(near) if near else f"no name like it, but {listed(known)}" if known else "none"
        return f"Hint item {item.number} names {what + ' ' if what else ''}`{name}`; {has} has {told}."
