"""What can go of a project, and by what it is known to be gone: modules, columns, settings.

Each kind has a claim that a watched program can be held against. What has none is not written: the plan says so, and
what a person could name instead.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from etude.mage.facts import Facts
from etude.mage.near import listed
from etude.mage.networks.models import Made, Network, networks
from etude.mage.networks.removal import Count, prefixes_of, remove
from etude.mage.sources.columns import columns_seen, texts_in
from etude.mage.sources.entry import words_of
from etude.mage.sources.literals import UNKNOWN
from etude.mage.sources.settings import Setting, off, settings_of
from etude.mage.sources.source import plain_name, read_source, within
from etude.mage.tree import Tree
from etude.mage.variants import Thing, What
from etude.mage.witnesses import ColumnsGone, ModuleGone, SettingValue, Witness


@dataclass(frozen=True)
class Project:
    """All that is known of a project.

    Attributes:
        tree: Its files.
        columns: The columns of its data; empty if nobody knows them.
        facts: What was seen of it untouched; None if it was not run.
        counter: Counts parameters; None for reasoning over the facts.
        given: The words of the command that runs it.
        networks: Its networks.
        settings: Its settings.
    """

    tree: Tree
    columns: tuple[str, ...] = ()
    facts: Facts | None = None
    counter: Count | None = None
    given: tuple[str, ...] = ()
    networks: tuple[Network, ...] = ()
    settings: tuple[Setting, ...] = ()

    @property
    def all_columns(self) -> tuple[str, ...]:
        """The columns that are known, by whatever way."""
        return tuple(dict.fromkeys([*self.columns, *columns_seen(self.facts)]))


def look_at(
    tree: Tree,
    *,
    entry: str = "",
    columns: Sequence[str] = (),
    facts: Facts | None = None,
    counter: Count | None = None,
) -> Project:
    """Return what is known of a project; arguments are those of ``planning.plan``."""
    given = tuple(words_of(entry))
    return Project(tree, tuple(columns), facts, counter, given, tuple(networks(tree)), tuple(settings_of(tree)))


@dataclass(frozen=True)
class Component:
    """Something that can go.

    Attributes:
        things: What it is.
        witnesses: By what it is known to be gone.
        meaning: How that is meant.
        unclear: The ways to read it.
        question: These in a sentence; or why nothing can be claimed, and the mend.
        wrong: Why it cannot be.
        settings: What is set to what.
        modules: The modules, and the network that they are in.
        files: What may be changed.
    """

    things: tuple[Thing, ...]
    witnesses: tuple[Witness, ...] = ()
    meaning: str = ""
    unclear: tuple[str, ...] = ()
    question: str = ""
    wrong: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    modules: tuple[Network, tuple[str, ...]] | None = None
    files: tuple[str, ...] = ()


def modules_gone(
    project: Project,
    network: Network,
    modules: Sequence[Made],
    along: Sequence[str] = (),
    outputs: Mapping[str, int] | None = None,
    *,
    container: str = "",
) -> Component:
    """Return that modules of a network go, and others get another number of outputs.

    Args:
        project: The project.
        network: The network.
        modules: Those that go.
        along: What goes along, as the user says.
        outputs: Modules that stay -> their new number of outputs.
        container: The sequence that holds them all, and goes as one; empty if none does.
    """
    things = tuple(_module_thing(project, network, one) for one in modules)
    if container:
        things = (_module_thing(project, network, replace(modules[0], name=container)),)
    found = remove(
        network,
        modules,
        prefixes=prefixes_of(network, project.networks, project.facts),
        along=along,
        outputs=outputs,
        facts=project.facts,
        counter=project.counter,
    )
    return Component(
        things,
        _as_one(found.witnesses, container) if container else found.witnesses,
        found.meaning,
        found.unclear,
        found.question,
        found.wrong,
        modules=(network, tuple(one.name for one in modules)),
        files=(network.file,),
    )


def _as_one(witnesses: Sequence[Witness], container: str) -> tuple[Witness, ...]:
    """Return claims in which those about what a container holds are one, about the container wherever it is."""
    inside: dict[str, list[ModuleGone]] = {}
    others: list[Witness] = []
    for one in witnesses:
        before, name, after = one.path.rpartition(f"{container}.") if isinstance(one, ModuleGone) else ("", "", "")
        if isinstance(one, ModuleGone) and name and (not before or before.endswith(".")) and "." not in after:
            inside.setdefault(f"{before}{container}", []).append(one)
        else:
            others.append(one)
    wholes = (
        ModuleGone(
            path=path,
            resized={row: shape for one in every for row, shape in one.resized.items()},
            others_stay=all(one.others_stay for one in every),
            along=tuple(name for one in every for name in one.along),
            idle=tuple(name for one in every for name in one.idle),
        )
        for path, every in inside.items()
    )
    return (*wholes, *others)


def _module_thing(project: Project, network: Network, made: Made) -> Thing:
    source = read_source(project.tree, made.file)
    used = [
        (source.file, node.lineno)
        for node in source.nodes
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Load)
        and within(plain_name(node)) == made.name
        and network.lines[0] <= node.lineno <= network.lines[1]
    ]
    evidence = source.lines[made.line - 1].strip()
    return Thing(
        name=made.name,
        what=What.MODULE,
        declared=(made.file, made.line),
        used=tuple(dict.fromkeys(used)),
        evidence=evidence,
    )


def columns_gone(project: Project, names: Sequence[str], declared: tuple[str, int], evidence: str = "") -> Component:
    """Return that columns go."""
    lists = [one for one in texts_in(project.tree) if set(names) & set(one.names)]
    used = tuple(dict.fromkeys((one.source.file, one.node.lineno) for one in lists))
    things = tuple(
        Thing(name=name, what=What.COLUMNS, declared=declared, used=used, evidence=evidence) for name in names
    )
    meaning = "All rows and all other columns stay."
    files = tuple(dict.fromkeys([declared[0], *(file for file, _ in used)]))
    return Component(things, (ColumnsGone(columns=tuple(names)),), meaning, files=files)


def setting_off(project: Project, setting: Setting, value: Any = UNKNOWN) -> Component:
    """Return that a setting is switched off, or has another value."""
    thing = Thing(
        name=setting.short,
        what=What.SETTING,
        declared=(setting.file, setting.line),
        evidence=_line(project, setting.file, setting.line),
    )
    to = value
    now = setting.under(project.given)  # a switch that the command turns on is on, whatever its default
    if to is UNKNOWN:
        to = off(now)
    if to is UNKNOWN:
        told = "it is off already" if now in (False, 0, None) else "it is not known what it is when it is off"
        if setting.is_switch and not now and setting.text not in project.given:
            told += f", since the command does not give `{setting.text}`"
        return nothing_known((thing,), f"{told}. Say in a hint what it is to be, as in `set {setting.short} to 1`")
    before = "" if now is UNKNOWN else f" in place of {now!r}"
    return Component(
        (thing,),
        (SettingValue(name=setting.short, value=to),),
        f"`{setting.short}` is {to!r}{before}, and nothing else changes.",
        settings={setting.name: to},
        files=(setting.file,),
    )


def intent_of(names: Sequence[str], things: Sequence[Thing]) -> str:
    """Return what a variant is to be, in a sentence."""
    done = "switched off" if all(thing.what is What.SETTING for thing in things) else "removed"
    return f"{listed(names)} {'is' if len(names) == 1 else 'are'} {done}."


def nothing_known(things: tuple[Thing, ...], why: str) -> Component:
    """Return that nobody could see whether something is gone, so that it is not written."""
    text = f"`{things[0].name}` (line {things[0].declared[1]}): {why}."
    return Component(things, unclear=(why,), question=text, files=(things[0].declared[0],))


def _line(project: Project, file: str, line: int) -> str:
    lines = re.split(r"\r\n|\n|\r", project.tree.text(file).removeprefix("\ufeff"))
    return lines[line - 1].strip() if line <= len(lines) else ""
