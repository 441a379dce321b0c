"""What a marked statement is about: a module, a column, a setting, a call, a term of a sum."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Final

from etude.mage.annotations import Annotation
from etude.mage.networks.models import METHODS, Made, Network
from etude.mage.networks.roles import Role
from etude.mage.plan.things import Component, Project, columns_gone, modules_gone, nothing_known, setting_off
from etude.mage.sources.functions import calls_in, function_of, times_called
from etude.mage.sources.literals import UNKNOWN
from etude.mage.sources.naming import members
from etude.mage.sources.settings import CONSTANT, off, setting_at
from etude.mage.sources.source import Placed, Source, plain_name, read_source, within
from etude.mage.variants import Thing, What
from etude.mage.witnesses import CallChanged, CallGone

AUGMENTS: Final = re.compile(
    r"(?i)augment|random(crop|flip|horizontal|vertical|resized|rotation|erasing|affine|perspective|apply|choice)|jitter"
    r"|mix_?up|cut_?(mix|out)|colorjitter|gaussianblur|add_?noise|(^|_)flip|autoaugment|randaugment"
)
LOSSES: Final = re.compile(r"(?i)loss|penalty|regular|(^|_)reg($|_)|objective|(^|_)kl($|_)")
OPERATORS: Final = ("pow", "abs", "exp", "log", "sqrt", "cos", "sin", "norm")


def component_of(project: Project, annotation: Annotation, along: Sequence[str]) -> Component:
    """Return what a mark at a statement is about.

    Args:
        project: The project.
        annotation: The mark.
        along: What goes along: its ``with=``, or what was chosen since.
    """
    source = read_source(project.tree, annotation.file)
    placed = next((one for one in source.statements if one.lines == annotation.statement), None)
    name = annotation.names[0]
    if placed is None:
        thing = Thing(name=name, what=What.OTHER, declared=(annotation.file, annotation.lines[0]))
        return nothing_known((thing,), "its file does not parse. Mend the file")
    for found in _readings(project, source, placed, annotation, along):
        return found
    thing = _thing(name, What.OTHER, source, placed)
    return nothing_known(
        (thing,),
        "nothing is known by which one could see that it is gone. Mark the call, the module "
        "or the setting that does it, or write the variant by hand",
    )


def _readings(
    project: Project, source: Source, placed: Placed, annotation: Annotation, along: Sequence[str]
) -> Iterator[Component]:
    """Yield what the statement may be, the likeliest first."""
    names = annotation.names
    network, modules = _modules(project, source, placed, annotation)
    if network is not None and modules:
        every = annotation.every_name
        container = next((name for name in every if network.find(name) is None and network.within(name)), "")
        yield modules_gone(project, network, modules, along, container=container)
    listed = list(_listed_columns(project, source, placed, names))
    listed = listed or list(_listed_columns(project, source, placed, annotation.marked))
    setting = setting_at(source, placed)
    if setting is not None and {setting.short, setting.name} & set(annotation.every_name):
        yield from listed
        yield setting_off(project, setting)
    yield from listed
    node = placed.node
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        function = f"{source.file}:{placed.scope}{'.' if placed.scope else ''}{node.name}"
        yield _gone(_thing(names[0], _kind(node.name), source, placed), function)
    elif isinstance(node, ast.AugAssign) or _adds(node):
        yield from _term(project, source, placed, names[0])
    elif isinstance(node, ast.If):
        yield from _switch(project, source, placed, names)
    elif (
        isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and not isinstance(node.value, ast.Call)
    ):
        yield from _local_switch(project, source, placed, names[0])
    yield from _calls(project, source, placed, names)


def _modules(
    project: Project, source: Source, placed: Placed, annotation: Annotation
) -> tuple[Network | None, tuple[Made, ...]]:
    """Return the modules that a marked statement makes or uses, and their network.

    What the mark calls them only tells which of them are meant, if it is one of their names.
    """
    node = placed.node
    inside = [
        one
        for one in project.networks
        if one.file == source.file and one.lines[0] <= placed.first and placed.last <= one.lines[1]
    ]
    if isinstance(node, ast.ClassDef):
        for other in project.networks:
            if made := tuple(one for one in other.made if one.type == node.name):
                return other, made
        return None, ()
    for network in inside:
        made = _called(network, annotation.marked)
        made = tuple(one for one in _called(network, annotation.names) if one in made) or made
        if made := made or _called(network, annotation.names):
            return network, made
        if placed.scopes and placed.scopes[-1].name in METHODS:
            used = [network.find(within(plain_name(call.func))) for call in calls_in(node)]
            made = tuple(dict.fromkeys(one for one in used if one is not None and one.role is Role.LAYER))
            return network, made
    return None, ()


def _called(network: Network, names: Sequence[str]) -> tuple[Made, ...]:
    """Return the modules of a network by their names, or those in sequences of these names."""
    made = tuple(one for name in names if (one := network.find(name)) is not None)
    return made or tuple(one for name in names for one in network.within(name))


def _listed_columns(project: Project, source: Source, placed: Placed, names: Sequence[str]) -> Iterator[Component]:
    held = {name for name, one in members(placed.node) if isinstance(one, ast.Constant)} if placed.is_simple else set()
    known = set(project.all_columns)
    node = placed.node
    if held and set(names) <= held and (not known or set(names) <= known):
        yield columns_gone(project, names, (source.file, placed.first), source.lines[placed.first - 1].strip())
    elif isinstance(node, ast.Assign) and isinstance(node.value, ast.List | ast.Tuple | ast.Set) and held:
        group = tuple(name for name, one in members(node) if isinstance(one, ast.Constant))
        all_columns = len(group) == len(node.value.elts) and (not known or set(group) <= known)
        if all_columns:
            yield columns_gone(project, group, (source.file, placed.first), source.lines[placed.first - 1].strip())
    elif isinstance(node, ast.Assign) and set(names) <= {
        str(target.slice.value) if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant) else ""
        for target in node.targets
    }:
        yield columns_gone(project, names, (source.file, placed.first), source.lines[placed.first - 1].strip())


def _local_switch(project: Project, source: Source, placed: Placed, name: str) -> Iterator[Component]:
    """Yield what a plain variable switches: nobody sees it from outside, but what is called under it."""
    tests = [one for one in source.statements if isinstance(one.node, ast.If) and _tests(one.node, name)]
    for one in tests:
        for component in _under(project, source, one, name):
            yield component
            return


def _tests(node: ast.If, name: str) -> bool:
    return within(plain_name(node.test)) == name or plain_name(node.test).rpartition(".")[2] == name


def _switch(project: Project, source: Source, placed: Placed, names: Sequence[str]) -> Iterator[Component]:
    for name in names:
        last = name.rpartition(".")[2]
        for setting in project.settings:
            same = setting.name == name or (setting.short == last and setting.kind != CONSTANT)
            if same and off(setting.value) is not UNKNOWN:
                yield setting_off(project, setting)
                return
    yield from _under(project, source, placed, names[0])


def _under(project: Project, source: Source, placed: Placed, name: str) -> Iterator[Component]:
    assert isinstance(placed.node, ast.If)
    body = ast.Module(placed.node.body, [])
    called = dict.fromkeys(function_of(call, source, project.tree, placed) for call in calls_in(body))
    functions = [function for function in called if function]
    if functions:
        thing = _thing(name, _kind(name), source, placed)
        claims = tuple(_claim(project, source, placed, call) for call in calls_in(body))
        known = tuple(dict.fromkeys(claim for claim in claims if claim is not None))
        yield Component((thing,), known, f"What is done under `{name}` is not done.", files=(source.file,))


def _calls(project: Project, source: Source, placed: Placed, names: Sequence[str]) -> Iterator[Component]:
    """Yield that what a statement calls is not called any more."""
    node = placed.node
    if isinstance(node, ast.With | ast.AsyncWith):
        parts: list[ast.AST] = [item.context_expr for item in node.items]
    elif placed.is_simple:
        named = [one for name, one in members(node) if name in names]
        value = getattr(node, "value", None)
        parts = [*named] or ([value] if value is not None else [])
    else:
        return
    for part in parts:
        outer = part if isinstance(part, ast.Call) else None
        for call in ([outer] if outer is not None else []) or calls_in(part):
            claim = _claim(project, source, placed, call)
            if claim is not None:
                thing = _thing(names[0], _kind(f"{names[0]} {claim.name}"), source, placed)
                less = "called less often" if isinstance(claim, CallChanged) else "not called"
                meaning = f"`{claim.name}` is {less}."
                yield Component((thing,), (claim,), meaning, files=(source.file,))
                return


def _claim(project: Project, source: Source, placed: Placed, call: ast.Call) -> CallGone | CallChanged | None:
    """Return the claim that a call is gone; that there are fewer, where the function is called elsewhere, too."""
    name = function_of(call, source, project.tree, placed)
    last = name.rpartition(".")[2]
    if not name or last == "add_argument":  # without its argument a program has less to read, and does the same
        return None
    if ("scheduler" in name or last.endswith("LR")) and last[:1].isupper():
        name = f"{name}.step"  # making one changes nothing; stepping does
        return CallGone(name=name)
    several = times_called(call, source, project.tree, name) > 1
    return CallChanged(name=name) if several else CallGone(name=name)


def _gone(thing: Thing, function: str) -> Component:
    return Component((thing,), (CallGone(name=function),), f"`{function}` is not called.", files=(thing.declared[0],))


def _adds(node: ast.stmt) -> bool:
    """Say whether it is ``loss = loss + ...``."""
    if not isinstance(node, ast.Assign) or len(node.targets) != 1 or not isinstance(node.value, ast.BinOp):
        return False
    name = plain_name(node.targets[0])
    return bool(name) and any(plain_name(one) == name for one in ast.walk(node.value) if isinstance(one, ast.expr))


def _term(project: Project, source: Source, placed: Placed, name: str) -> Iterator[Component]:
    """Yield that a term is not added any more: what it calls, or what its variables were made by."""
    node = placed.node
    assert isinstance(node, ast.Assign | ast.AugAssign)
    target = plain_name(node.targets[0] if isinstance(node, ast.Assign) else node.target)
    thing = _thing(name, What.LOSS_TERM if LOSSES.search(target) else What.OTHER, source, placed)
    parts: list[ast.AST] = [node.value]
    used = {one.id for one in ast.walk(node.value) if isinstance(one, ast.Name)} - {target}
    for other in source.statements:
        made = other.node
        if isinstance(made, ast.Assign) and other.scopes == placed.scopes and plain_name(made.targets[0]) in used:
            parts.append(made.value)
    for part in parts:
        for call in calls_in(part):
            claim = _claim(project, source, placed, call)
            if claim is None and isinstance(call.func, ast.Attribute) and call.func.attr in OPERATORS:
                claim = CallChanged(name=call.func.attr)
            if claim is not None:
                meaning = f"This term is not added to `{target}`; all other terms stay."
                yield Component((thing,), (claim,), meaning, files=(source.file,))
                return


def _thing(name: str, what: What, source: Source, placed: Placed) -> Thing:
    evidence = source.lines[placed.node.lineno - 1].strip()
    return Thing(name=name, what=what, declared=(source.file, placed.first), evidence=evidence)


def _kind(name: str) -> What:
    if AUGMENTS.search(name) or "transforms" in name:
        return What.AUGMENTATION
    return What.LOSS_TERM if LOSSES.search(name) else What.TRICK
