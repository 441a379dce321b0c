"""Makes variants of the items of a hint: finds what is named, in columns, networks, settings and functions.

A hint is taken as a whole. If one of its items names what is not there, nothing of it is planned: pairs of five
features are not what somebody wanted who wrote down six.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from msgspec import structs

from etude.mage.annotations import Annotation, Remark
from etude.mage.hints import Item, Wish, items_of
from etude.mage.models import Made, Network
from etude.mage.near import listed, nearest
from etude.mage.options import ITEM
from etude.mage.pairs import name_of, pairs, safe
from etude.mage.removal import prefixes_of, remove
from etude.mage.roles import Role
from etude.mage.settings import Setting
from etude.mage.sources import sources
from etude.mage.things import Component, Project, columns_gone, modules_gone, setting_off
from etude.mage.variants import Thing, Variant, What
from etude.mage.witnesses import CallGone, GroupValue, ModuleValue, Witness

COLUMN_WORDS = ("feature", "column", "input variable")
LAYER_WORDS = ("layer", "module", "block")
GROUP_VALUES = ("lr", "weight_decay", "momentum", "betas", "eps", "dampening", "nesterov")


class _Unknown(Exception):  # noqa: N818 - it is no mishap: the answer to a question
    """An item names something that is not there."""


def variants_of_hint(
    project: Project, annotation: Annotation, choices: Mapping[str, str]
) -> tuple[list[Variant], list[Remark]]:
    """Return the variants that a hint asks for, and what its author should know.

    Args:
        project: The project.
        annotation: The hint.
        choices: Component -> what goes along with it, as was chosen.
    """
    variants, remarks, _ = variants_of_items(project, annotation, items_of(annotation), choices)
    return variants, remarks


def variants_of_items(
    project: Project, annotation: Annotation, items: Sequence[Item], choices: Mapping[str, str]
) -> tuple[list[Variant], list[Remark], bool]:
    """Return the variants of some items of a hint, what its author should know, and whether something is not there."""
    hint = _Hint(project, annotation, items, {name: tuple(ITEM.findall(text)) for name, text in choices.items()})
    variants = hint.take()
    return variants, hint.remarks, hint.refused


class _Hint:
    """One hint on its way to variants."""

    def __init__(
        self, project: Project, annotation: Annotation, items: Sequence[Item], choices: Mapping[str, tuple[str, ...]]
    ) -> None:
        self.project = project
        self.annotation = annotation
        self.choices = choices
        self.items = items
        self.remarks: list[Remark] = []
        self.refused = False
        self.unchecked: list[str] = []

    def take(self) -> list[Variant]:
        """Return all variants; none if one of the items names what is not there."""
        variants: list[Variant] = []
        for item in map(self._with_words, self.items):
            try:
                variants += self._item(item, variants)
            except _Unknown as why:
                self.refused = True
                self._say(item.line, f"{why} Nothing was planned.")
        self._say_doubled()
        if self.refused:
            return []
        if self.unchecked:
            told = listed(dict.fromkeys(self.unchecked))
            self._say(
                self.annotation.lines[0],
                f"{told}: the columns of the data are not known, so these names could not be checked. Run the baseline "
                "first, or name the columns.",
            )
        return variants

    def _say(self, line: int, text: str) -> None:
        self.remarks.append(Remark(file=self.annotation.file, line=line, text=text))

    def _say_doubled(self) -> None:
        seen: dict[str, Item] = {}
        for item in self.items:
            for n, name in enumerate(item.names):
                if name in item.names[:n]:
                    self._say(item.line, f"Hint item {item.number} names `{name}` twice. It counts once.")
                elif item.kind is Wish.REMOVE and len(item.names) == 1 and not item.sizes:
                    other = seen.setdefault(name, item)
                    if other is not item:
                        text = f"Hint items {other.number} and {item.number} both name `{name}`. It counts once."
                        self._say(item.line, text)

    def _with_words(self, item: Item) -> Item:
        """Return an item whose plain words are names where something is called so."""
        if item.names or item.places or not item.maybe:
            return item
        known = [word for word in item.maybe if self._is_known(word)]
        bare = len(item.maybe) == 1 and item.kind is Wish.REMOVE
        names = tuple(known or (item.maybe if bare else ()))
        return structs.replace(item, names=names)

    def _is_known(self, word: str) -> bool:
        return (
            word in self.project.all_columns
            or self._module(word) is not None
            or bool(self._settings(word))
            or bool(self._functions(word))
        )

    # --- one item ---------------------------------------------------------------------------------

    def _item(self, item: Item, before: Sequence[Variant]) -> list[Variant]:
        if item.kind is Wish.PAIRS:
            return self._pairs(item, before)
        if item.kind is Wish.SET:
            return [self._set(item, name, text) for name, text in item.values]
        if item.kind is Wish.RESIZE:
            return [self._resize(item)]
        if item.kind is Wish.OTHER or not (item.names or item.places):
            self._say(
                item.line,
                f"Hint item {item.number} could not be read: `{item.text}`. Nothing was planned of it. Say what is to be "
                "removed, by its name in quotes; or let a model plan it.",
            )
            return []
        groups: list[tuple[list[str], list[int]]]
        if item.each:
            groups = [([name], []) for name in dict.fromkeys(item.names)] + [([], [place]) for place in item.places]
        else:
            groups = [(list(dict.fromkeys(item.names)), list(item.places))]
        found = [self._removed(item, names, places) for names, places in groups]
        earlier = {
            tuple(sorted(thing.name for thing in one.things)) for one in before if not item.sizes and _plain(one)
        }
        found = [one for one in found if tuple(sorted(thing.name for thing in one.things)) not in earlier]
        return found + (pairs(found, join=self._join) if item.pairs else [])

    def _pairs(self, item: Item, before: Sequence[Variant]) -> list[Variant]:
        if item.names or item.places:
            names = dict.fromkeys(item.names)
            singles = [self._removed(item, [name], []) for name in names]
            singles += [self._removed(item, [], [place]) for place in dict.fromkeys(item.places)]
        else:
            singles = [one for one in before if _plain(one) and len(one.things) == 1]
        if len(singles) < 2:  # noqa: PLR2004 - a pair
            raise _Unknown(
                f"Hint item {item.number} asks for pairs, and there {'is 1 thing' if singles else 'are no things'} above it "
                "to pair."
            )
        found = pairs(singles, join=self._join)
        return [structs.replace(one, quote=item.text) for one in found]

    def _join(self, one: Variant, other: Variant) -> Variant | None:
        """Return what it means that modules of one network go together: their neighbours depend on both."""
        names = [thing.name for thing in (*one.things, *other.things)]
        if any(thing.what is not What.MODULE for thing in (*one.things, *other.things)):
            return None
        found = [self._module(name) for name in names]
        networks = {id(network) for network, _ in filter(None, found)}
        if None in found or len(networks) != 1:
            return None
        network = found[0][0]  # type: ignore[index]
        component = modules_gone(self.project, network, [made for _, made in filter(None, found)], self._along(names))
        item = Item(text=one.quote, line=0)
        return self._variant(item, component, names)

    def _removed(self, item: Item, names: Sequence[str], places: Sequence[int]) -> Variant:
        network, modules = self._modules(item, names, places)
        if network is not None:
            outputs = {self._layer(item, network, target).name: n for target, n in item.sizes}
            found = [one.name for one in modules]
            component = modules_gone(self.project, network, modules, self._along(found), outputs)
            return self._variant(item, component, found)
        if item.sizes:
            raise _Unknown(f"Hint item {item.number} gives a size, and what it removes is no layer of a network.")
        if (columns := self._columns(item, names)) is not None:
            return self._variant(item, columns, names)
        return self._variant(item, _merged([self._other(item, name) for name in names]), names)

    def _along(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(along for name in names for along in self.choices.get(name, ())))

    def _variant(self, item: Item, component: Component, names: Sequence[str]) -> Variant:
        if component.wrong:
            raise _Unknown(f"Hint item {item.number}: {component.wrong}")
        if component.question:
            self._say(item.line or self.annotation.lines[0], component.question)
        told = listed(names)
        intent = f"{told} {'is' if len(names) == 1 else 'are'} removed."
        name = name_of(names)
        if item.sizes:
            network = component.modules[0] if component.modules is not None else None
            given = [(self._layer(item, network, target).name if network else target, n) for target, n in item.sizes]
            intent = f"{intent[:-1]}, and {_sizes(given)}."
            name += "".join(f"-{safe(layer)}-{n}" for layer, n in given)
        return Variant(
            name=name,
            intent=intent,
            things=component.things,
            meaning=component.meaning,
            files=component.files,
            witnesses=component.witnesses,
            quote=item.text,
            unclear=component.unclear,
            settings=component.settings,
        )

    # --- what is named ----------------------------------------------------------------------------

    def _network(self, item: Item | None = None) -> Network | None:
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

    def _module(self, name: str) -> tuple[Network, Made] | None:
        first = self._network()
        for network in ([first] if first is not None else []) + list(self.project.networks):
            if (made := network.find(name)) is not None:
                return network, made
        return None

    def _layer(self, item: Item, network: Network, target: str) -> Made:
        if target.lstrip("-").isdigit():
            return self._place(item, network, int(target))
        made = network.find(target)
        if made is None:
            raise _Unknown(
                self._not_there(item, "layer", target, [one.name for one in network.made], f"`{network.name}`")
            )
        return made

    def _place(self, item: Item, network: Network, place: int) -> Made:
        layers = network.layers
        if place == -1 and layers:
            return layers[-1]
        if not 1 <= place <= len(layers):
            raise _Unknown(
                f"Hint item {item.number} names layer {place}; `{network.name}` has {len(layers)} "
                f"({listed(one.name for one in layers)})."
            )
        return layers[place - 1]

    def _modules(self, item: Item, names: Sequence[str], places: Sequence[int]) -> tuple[Network | None, list[Made]]:
        """Return the modules that are named, and their network; none if the names are no modules."""
        found = [self._module(name) for name in names]
        says_layers = any(word in f"{item.about} {item.text}".lower() for word in LAYER_WORDS)
        says_columns = any(word in f"{item.about} {item.text}".lower() for word in COLUMN_WORDS)
        if names and None in found:
            known = [one.name for network in self.project.networks for one in network.made]
            missing = names[found.index(None)]
            if known and not says_columns and (says_layers or any(one is not None for one in found)):
                if (
                    not self._settings(missing)
                    and not self._functions(missing)
                    and missing not in self.project.all_columns
                ):
                    network = self._network(item)
                    known = [one.name for one in network.made] if network is not None else known
                    has = f"`{network.name}`" if network is not None else "the program"
                    raise _Unknown(self._not_there(item, "layer", missing, known, has))
            return None, []
        networks = {id(network): network for network, _ in filter(None, found)}
        if places:
            network = next(iter(networks.values()), None) or self._network(item)
            if network is None:
                told = listed(dict.fromkeys(one.name for one in self.project.networks)) or "none was found"
                raise _Unknown(
                    f"Hint item {item.number} counts layers, and it is not known of which network ({told}). Name it in the "
                    "hint, or put the hint above its class."
                )
            modules = [self._place(item, network, place) for place in places]
            return network, list(dict.fromkeys([*(made for _, made in filter(None, found)), *modules]))
        if len(networks) == 1 and not (says_columns and set(names) <= set(self.project.all_columns)):
            return next(iter(networks.values())), [made for _, made in filter(None, found)]
        return None, []

    def _columns(self, item: Item, names: Sequence[str]) -> Component | None:
        known = self.project.all_columns
        words = f"{item.about} {item.text}".lower()
        says_columns = any(word in words for word in COLUMN_WORDS)
        missing = [name for name in names if name not in known]
        if known and missing and (says_columns or len(missing) < len(names) or not self._is_known(missing[0])):
            if says_columns or any(name in known for name in names) or self._like_columns(missing[0]):
                raise _Unknown(self._not_there(item, "column", missing[0], known, "the data"))
        if missing and (known or not says_columns):
            return None
        self.unchecked += missing
        return columns_gone(self.project, names, (self.annotation.file, item.line), item.text)

    def _like_columns(self, name: str) -> bool:
        return bool(nearest(name, self.project.all_columns)) and not self._is_known(name)

    def _settings(self, name: str) -> list[Setting]:
        plain = name.lstrip("-").replace("-", "_")
        return [one for one in self.project.settings if plain in (one.name, one.short)]

    def _functions(self, name: str) -> list[str]:
        """Return the functions of the project, and those of libraries that it calls, that have a name."""
        found: dict[str, None] = {}
        for source in sources(self.project.tree):
            for placed in source.statements:
                node = placed.node
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
                    found[f"{source.file}:{placed.scope}{'.' if placed.scope else ''}{node.name}"] = None
            for call in ast.walk(source.module) if source.module is not None else ():
                if isinstance(call, ast.Call):
                    dotted = source.dotted(call.func)
                    if dotted.rpartition(".")[2] == name and dotted.partition(".")[0] in {
                        one.partition(".")[0] for one in source.imports.values()
                    }:
                        found[dotted] = None
        return list(found)

    def _other(self, item: Item, name: str) -> Component:
        if settings := self._settings(name):
            self._only_one(item, name, [f"{one.file}, line {one.line}" for one in settings])
            return setting_off(self.project, settings[0])
        if functions := self._functions(name):
            self._only_one(item, name, functions)
            thing = Thing(name=name, what=What.TRICK, declared=(self.annotation.file, item.line), evidence=item.text)
            files = tuple(source.file for source in sources(self.project.tree) if name in source.text)
            return Component((thing,), (CallGone(name=functions[0]),), f"`{functions[0]}` is not called.", files=files)
        known = [one.name for network in self.project.networks for one in network.made]
        known += [*self.project.all_columns, *(one.short for one in self.project.settings)]
        raise _Unknown(self._not_there(item, "", name, known, "the program"))

    def _only_one(self, item: Item, name: str, found: Sequence[str]) -> None:
        if len(found) > 1:
            raise _Unknown(
                f"Hint item {item.number} names `{name}`, of which there are {len(found)}: {', '.join(found)}."
            )

    def _not_there(self, item: Item, what: str, name: str, known: Iterable[str], has: str) -> str:
        known = list(dict.fromkeys(known))
        near = nearest(name, known)
        told = listed(near) if near else f"no name like it, but {listed(known)}" if known else "none"
        return f"Hint item {item.number} names {what + ' ' if what else ''}`{name}`; {has} has {told}."

    # --- other values -----------------------------------------------------------------------------

    def _resize(self, item: Item) -> Variant:
        network = self._network(item)
        named = [self._module(target) for target, _ in item.sizes if not target.lstrip("-").isdigit()]
        network = named[0][0] if named and named[0] is not None else network
        if network is None:
            raise _Unknown(
                f"Hint item {item.number} gives a size, and it is not known of which network. Name its class."
            )
        given = {self._layer(item, network, target).name: n for target, n in item.sizes}
        prefixes = prefixes_of(network, self.project.networks, self.project.facts)
        found = remove(network, (), prefixes=prefixes, outputs=given, facts=self.project.facts)
        if found.question:
            self._say(item.line, found.question)
        things = tuple(
            Thing(name=name, what=What.MODULE, declared=(made.file, made.line))
            for name in given
            if (made := network.find(name)) is not None
        )
        return Variant(
            name=name_of([f"{name}-{n}" for name, n in given.items()], "with"),
            intent=f"{_sizes(given.items())[0].upper()}{_sizes(given.items())[1:]}.",
            things=things,
            meaning=found.meaning,
            files=(network.file,),
            witnesses=found.witnesses,
            quote=item.text,
            unclear=found.unclear,
        )

    def _set(self, item: Item, name: str, text: str) -> Variant:
        value = _value(text)
        module = self._module(name)
        witnesses: tuple[Witness, ...]
        settings: dict[str, object] = {}
        if found := self._settings(name):
            self._only_one(item, name, [f"{one.file}, line {one.line}" for one in found])
            component = setting_off(self.project, found[0], value)
            things, witnesses, files = component.things, component.witnesses, component.files
            settings = dict(component.settings)
        elif module is not None and module[1].role is Role.DROPOUT and isinstance(value, int | float):
            network, made = module
            prefixes = prefixes_of(network, self.project.networks, self.project.facts)
            witnesses = tuple(
                ModuleValue(path=f"{prefix}{made.name}", name="p", value=float(value)) for prefix in prefixes
            )
            things = (Thing(name=made.name, what=What.MODULE, declared=(made.file, made.line)),)
            files = (network.file,)
        elif name in GROUP_VALUES and isinstance(value, int | float):
            witnesses = (GroupValue(name=name, value=float(value)),)
            things = (Thing(name=name, what=What.SETTING, declared=(self.annotation.file, item.line)),)
            files = tuple(source.file for source in sources(self.project.tree) if "optim" in source.text.lower())
        else:
            known = [one.short for one in self.project.settings]
            raise _Unknown(self._not_there(item, "setting", name, known, "the program"))
        return Variant(
            name=name_of([name, str(value)], "with"),
            intent=f"`{name}` is {value!r}.",
            things=things,
            meaning="Nothing else changes.",
            files=files,
            witnesses=witnesses,
            quote=item.text,
            settings=settings,
        )


def _sizes(given: Iterable[tuple[str, int]]) -> str:
    return " and ".join(f"`{name}` gives {n} numbers" for name, n in given)


def _value(text: str) -> Any:
    plain = text.strip("'\"`")
    if plain.lower() in ("true", "false", "on", "off"):
        return plain.lower() in ("true", "on")
    for kind in (int, float):
        try:
            return kind(plain)
        except ValueError:
            continue
    return plain


def _plain(variant: Variant) -> bool:
    """Say whether a variant only removes."""
    return variant.name.startswith("without-") and " and `" not in variant.intent.partition(" removed")[2]


def _merged(components: Sequence[Component]) -> Component:
    if len(components) == 1:
        return components[0]
    return replace(
        components[0],
        things=tuple(thing for one in components for thing in one.things),
        witnesses=tuple(claim for one in components for claim in one.witnesses),
        meaning=" ".join(one.meaning for one in components if one.meaning),
        unclear=tuple(why for one in components for why in one.unclear),
        question=" ".join(one.question for one in components if one.question),
        settings={name: value for one in components for name, value in one.settings.items()},
        files=tuple(dict.fromkeys(file for one in components for file in one.files)),
    )
