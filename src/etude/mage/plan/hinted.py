"""Makes variants of the items of a hint: finds what is named, in columns, networks, settings and functions.

A hint is taken as a whole. If one of its items names what is not there, nothing of it is planned: pairs of five
features are not what somebody wanted who wrote down six.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from msgspec import structs

from etude.mage.annotations import Annotation, Remark
from etude.mage.near import listed
from etude.mage.networks.removal import prefixes_of, remove
from etude.mage.networks.roles import Role
from etude.mage.plan.hints import Item, Wish, items_of
from etude.mage.plan.named import Names, UnknownName
from etude.mage.plan.pairs import name_of, pairs, safe
from etude.mage.plan.things import Component, Project, intent_of, modules_gone, setting_off
from etude.mage.sources.options import ITEM
from etude.mage.sources.source import sources
from etude.mage.variants import Thing, Variant, What
from etude.mage.witnesses import GroupValue, ModuleValue, Witness

GROUP_VALUES = ("lr", "weight_decay", "momentum", "betas", "eps", "dampening", "nesterov")


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
        self.names = Names(project, annotation)

    def take(self) -> list[Variant]:
        """Return all variants; none if one of the items names what is not there."""
        variants: list[Variant] = []
        for item in map(self._with_words, self.items):
            try:
                variants += self._item(item, variants)
            except UnknownName as why:
                self.refused = True
                self._say(item.line, f"{why} Nothing was planned.")
        self._say_doubled()
        if self.refused:
            return []
        if self.names.unchecked:
            told = listed(dict.fromkeys(self.names.unchecked))
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
        classes = {one.name for one in self.project.networks}
        if item.places or len(item.names) > 1:  # "the second layer of Net" says where
            item = structs.replace(item, names=tuple(name for name in item.names if name not in classes))
        if item.names or item.places or not item.maybe:
            return item
        known = [word for word in item.maybe if self.names.is_known(word)]
        bare = len(item.maybe) == 1 and item.kind is Wish.REMOVE
        names = tuple(known or (item.maybe if bare else ()))
        return structs.replace(item, names=names)

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
                f"Hint item {item.number} could not be read: `{item.text}`. Nothing was planned of it. Say what is to "
                "be removed, by its name in quotes; or let a model plan it.",
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
            there = "is 1 thing" if singles else "are no things"
            raise UnknownName(f"Hint item {item.number} asks for pairs, and there {there} above it to pair.")
        found = pairs(singles, join=self._join)
        return [structs.replace(one, quote=item.text) for one in found]

    def _join(self, one: Variant, other: Variant) -> Variant | None:
        """Return what it means that modules of one network go together: their neighbours depend on both."""
        names = [thing.name for thing in (*one.things, *other.things)]
        if any(thing.what is not What.MODULE for thing in (*one.things, *other.things)):
            return None
        found = [self.names.module(name) for name in names]
        networks = {id(network) for network, _ in filter(None, found)}
        if None in found or len(networks) != 1:
            return None
        network = found[0][0]  # type: ignore[index]
        component = modules_gone(self.project, network, [made for _, made in filter(None, found)], self._along(names))
        item = Item(text=one.quote, line=0)
        return self._variant(item, component, names)

    def _removed(self, item: Item, names: Sequence[str], places: Sequence[int]) -> Variant:
        network, modules = self.names.modules(item, names, places)
        if network is not None:
            outputs = {self.names.layer(item, network, target).name: n for target, n in item.sizes}
            found = [one.name for one in modules]
            component = modules_gone(self.project, network, modules, self._along(found), outputs)
            return self._variant(item, component, found)
        if item.sizes:
            raise UnknownName(f"Hint item {item.number} gives a size, and what it removes is no layer of a network.")
        if (columns := self.names.columns(item, names)) is not None:
            return self._variant(item, columns, names)
        return self._variant(item, _merged([self.names.other(item, name) for name in names]), names)

    def _along(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(along for name in names for along in self.choices.get(name, ())))

    def _variant(self, item: Item, component: Component, names: Sequence[str]) -> Variant:
        if component.wrong:
            raise UnknownName(f"Hint item {item.number}: {component.wrong}")
        if component.question:
            self._say(item.line or self.annotation.lines[0], component.question)
        intent = intent_of(names, component.things)
        name = name_of(names)
        if item.sizes:
            network = component.modules[0] if component.modules is not None else None
            given = [
                (self.names.layer(item, network, target).name if network else target, n) for target, n in item.sizes
            ]
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

    # --- other values -----------------------------------------------------------------------------

    def _resize(self, item: Item) -> Variant:
        network = self.names.network(item)
        named = [self.names.module(target) for target, _ in item.sizes if not target.lstrip("-").isdigit()]
        network = named[0][0] if named and named[0] is not None else network
        if network is None:
            raise UnknownName(
                f"Hint item {item.number} gives a size, and it is not known of which network. Name its class."
            )
        given = {self.names.layer(item, network, target).name: n for target, n in item.sizes}
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
        module = self.names.module(name)
        witnesses: tuple[Witness, ...]
        settings: dict[str, object] = {}
        if found := self.names.settings(name):
            self.names.only_one(item, name, [f"{one.file}, line {one.line}" for one in found])
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
            raise UnknownName(self.names.not_there(item, "setting", name, known, "the program"))
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
    if plain in ("None", "none", "null"):
        return None
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
