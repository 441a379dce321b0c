"""The networks of a project as their sources say it: what modules they make, and in what order these follow each other.

Only a straight chain is followed: each module takes what the one before it gives. Where a network branches, adds or
concatenates, its flow is unknown, and nothing is claimed of neighbours.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from etude.mage.networks.roles import Role, role_of
from etude.mage.sources.naming import LISTS, members
from etude.mage.sources.source import Placed, Source, plain_name, sources, within
from etude.mage.tree import Tree

METHODS = ("forward", "call", "__call__")
SELF = ("self", "cls")


@dataclass(frozen=True, eq=False)
class Made:
    """A module that a network makes.

    Attributes:
        name: Its path inside the network, such as ``features.0``.
        type: The name of its class.
        call: How it is made.
        file: Where.
        line: In which line.
        placed: The statement that makes it.
    """

    name: str
    type: str
    call: ast.Call
    file: str
    line: int
    placed: Placed

    @property
    def role(self) -> Role:
        """What it is there for."""
        return role_of(self.type)


@dataclass(frozen=True, eq=False)
class Step:
    """Something that a network does with what flows through it.

    Attributes:
        name: A module's path inside the network, or a function's dotted name.
        role: What it is there for.
        made: The module; None of a function.
        call: The call.
        line: Its line.
    """

    name: str
    role: Role
    made: Made | None
    call: ast.Call
    line: int

    @property
    def kind(self) -> str:
        """The module's class, or the function's dotted name."""
        return self.made.type if self.made is not None else self.name

    @property
    def short(self) -> str:
        """What it is called in a sentence."""
        return self.name if self.made is not None else self.name.rpartition(".")[2]


@dataclass(frozen=True, eq=False)
class Network:
    """A class of modules, or a sequence that is a whole network.

    Attributes:
        name: Its class, or the variable that holds it.
        file: Where it stands.
        lines: First and last line.
        made: What it makes, in the order of the source.
        flow: What it does, in order; None if that is no straight chain.
        is_class: Whether it is a class.
    """

    name: str
    file: str
    lines: tuple[int, int]
    made: tuple[Made, ...]
    flow: tuple[Step, ...] | None
    is_class: bool = True

    def find(self, name: str) -> Made | None:
        """Return a module by its path, or by the end of it if no other one ends so."""
        exact = [one for one in self.made if one.name == name]
        ending = [one for one in self.made if one.name.endswith(f".{name}")]
        return exact[0] if exact else ending[0] if len(ending) == 1 else None

    def within(self, name: str) -> tuple[Made, ...]:
        """Return what is inside a sequence, by the sequence's path."""
        return tuple(one for one in self.made if one.name.startswith(f"{name}."))

    @property
    def layers(self) -> tuple[Made, ...]:
        """Those that have weights, by which people count "the second layer"; of one family if there is one."""
        layers = [one for one in self.made if one.role is Role.LAYER]
        types = {one.type for one in layers}
        families = [kind for kind in types if sum(one.type == kind for one in layers) > 1]
        if len(families) == 1 and len(types) > 1 and not all(one.type in BASIC for one in layers):
            return tuple(one for one in layers if one.type == families[0])
        return tuple(layers)


BASIC = ("Linear", "Conv1d", "Conv2d", "Conv3d", "Dense", "LazyLinear")


def networks(tree: Tree) -> list[Network]:
    """Return the networks that the sources of a tree define, by file and line."""
    return [one for source in sources(tree) if source.module is not None for one in _networks(source)]


def _networks(source: Source) -> Iterator[Network]:
    for placed in source.statements:
        if isinstance(placed.node, ast.ClassDef):
            network = _class(source, placed, placed.node)
            if network is not None:
                yield network
        elif isinstance(placed.node, ast.Assign) and placed.owner is None and _is_sequence(placed.node.value):
            made = tuple(_members(source, placed))
            steps = tuple(Step(one.name, one.role, one, one.call, one.line) for one in made)
            if made:
                name = plain_name(placed.node.targets[0])
                yield Network(name, source.file, placed.lines, made, steps, is_class=False)


def _class(source: Source, placed: Placed, node: ast.ClassDef) -> Network | None:
    methods = {one.name: one for one in node.body if isinstance(one, ast.FunctionDef)}
    bases = {plain_name(base).rpartition(".")[2] for base in node.bases}
    forward = next((methods[name] for name in METHODS if name in methods), None)
    if forward is None and not any(base.endswith(("Module", "Model", "Sequential", "Layer")) for base in bases):
        return None
    inside = [one for one in source.statements if one.scopes and one.scopes[: len(placed.scopes) + 1][-1] is node]
    made = tuple(found for one in inside for found in _made(source, one))
    if not made:
        return None
    flow = _Flow(source, {one.name: one for one in made}).of(forward) if forward is not None else None
    return Network(node.name, source.file, placed.lines, made, flow)


def _made(source: Source, placed: Placed) -> Iterator[Made]:
    node = placed.node
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
        return
    for target in node.targets:
        name = plain_name(target)
        if within(name) == name:
            continue
        kind = plain_name(node.value.func).rpartition(".")[2]
        if _is_sequence(node.value):
            yield from _members(source, placed)
        elif kind[:1].isupper():
            yield Made(within(name), kind, node.value, source.file, placed.first, placed)


def _members(source: Source, placed: Placed) -> Iterator[Made]:
    for name, one in members(placed.node):
        call = one.elts[1] if isinstance(one, ast.Tuple) else one
        if isinstance(call, ast.Call):
            kind = plain_name(call.func).rpartition(".")[2]
            yield Made(name, kind, call, source.file, call.lineno, placed)


def _is_sequence(node: ast.expr) -> bool:
    if not isinstance(node, ast.Call):
        return False
    kind = plain_name(node.func).rpartition(".")[2]
    return kind in LISTS and kind not in ("Compose", "OrderedDict")


class _NotStraight(Exception):  # noqa: N818 - it is no mishap: the answer to a question
    """What flows is not one thing."""


class _Flow:
    """Follows one value through a method."""

    def __init__(self, source: Source, made: dict[str, Made]) -> None:
        self.source = source
        self.made = made
        self.now = ""

    def of(self, method: ast.FunctionDef) -> tuple[Step, ...] | None:
        """Return what the method does with its first argument, step by step; None if that is no straight chain."""
        arguments = [one.arg for one in (*method.args.posonlyargs, *method.args.args)]
        if len(arguments) < 2 or arguments[0] not in SELF:  # noqa: PLR2004 - self, and what flows
            return None
        self.now = arguments[1]
        steps: list[Step] = []
        try:
            for node in method.body:
                steps += self._statement(node)
        except _NotStraight:
            return None
        return tuple(steps)

    def _statement(self, node: ast.stmt) -> list[Step]:
        if isinstance(node, ast.Expr) and not self._touches(node.value):
            return []
        if isinstance(node, ast.Assert | ast.Pass):
            return []
        if isinstance(node, ast.Return) and node.value is not None:
            return self._value(node.value)
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                return self._unpacked(target, value)
            if not self._touches(value):
                if isinstance(target, ast.Name) and target.id == self.now:
                    raise _NotStraight
                return []
            if isinstance(target, ast.Name):
                steps = self._value(value)
                self.now = target.id
                return steps
        raise _NotStraight

    def _unpacked(self, target: ast.Tuple, value: ast.Tuple) -> list[Step]:
        """``x, edge_index = data.x, data.edge_index``: the first one flows on."""
        first, of = target.elts[0], value.elts[0]
        if isinstance(first, ast.Name) and isinstance(of, ast.Attribute) and plain_name(of.value) == self.now:
            self.now = first.id
            return []
        raise _NotStraight

    def _touches(self, node: ast.AST) -> bool:
        return any(isinstance(one, ast.Name) and one.id == self.now for one in ast.walk(node))

    def _value(self, node: ast.expr) -> list[Step]:
        if isinstance(node, ast.Name) and node.id == self.now:
            return []
        if isinstance(node, ast.Attribute) and plain_name(node.value) == self.now:
            return []  # data.x
        if not isinstance(node, ast.Call):
            raise _NotStraight
        name = plain_name(node.func)
        own = within(name)
        if name != own and name.partition(".")[0] in SELF:
            self._rest_is_free(node)
            return [*self._value(self._first(node)), *self._module(own, node)]
        if isinstance(node.func, ast.Attribute) and self._touches(node.func.value):
            self._free([*node.args, *(keyword.value for keyword in node.keywords)])
            return [
                *self._value(node.func.value),
                Step(node.func.attr, role_of(node.func.attr), None, node, node.lineno),
            ]
        self._rest_is_free(node)
        dotted = self.source.dotted(node.func)
        return [*self._value(self._first(node)), Step(dotted, role_of(dotted), None, node, node.lineno)]

    def _first(self, node: ast.Call) -> ast.expr:
        if not node.args:
            raise _NotStraight
        return node.args[0]

    def _rest_is_free(self, node: ast.Call) -> None:
        self._free([*node.args[1:], *(keyword.value for keyword in node.keywords)])

    def _free(self, nodes: Iterable[ast.expr]) -> None:
        """Refuse a second path of what flows; asking its size, as ``x.view(x.size(0), -1)`` does, is none."""
        parts = [part for one in nodes for part in ast.walk(one)]
        touched = sum(isinstance(part, ast.Name) and part.id == self.now for part in parts)
        asked = sum(
            isinstance(part, ast.Attribute)
            and part.attr in ("size", "shape", "device", "dtype")
            and plain_name(part.value) == self.now
            for part in parts
        )
        if touched > asked:
            raise _NotStraight

    def _module(self, name: str, node: ast.Call) -> list[Step]:
        if name in self.made:
            made = self.made[name]
            return [Step(name, made.role, made, node, node.lineno)]
        inside = [one for one in self.made.values() if one.name.startswith(f"{name}.")]
        if not inside:
            raise _NotStraight  # a method of its own, or something that is made elsewhere
        return [Step(one.name, one.role, one, node, node.lineno) for one in inside]
