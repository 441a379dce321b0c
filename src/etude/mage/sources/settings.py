"""The settings of a program as its sources and configurations say them: where each stands, and its value.

A setting is a flag of ``argparse``, a field of a dataclass, a constant in upper case, or a plain value in a YAML, TOML
or JSON file. A value in Python is one that stands there as such.
"""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final

from etude.mage.sources.literals import UNKNOWN, keyword_of, literal
from etude.mage.sources.source import Placed, Source, plain_name, sources
from etude.mage.tree import Tree

UPPER: Final = re.compile(r"_*[A-Z][A-Z0-9_]*")
YAML_LINE: Final = re.compile(r"^(\s*)(?:- )?([\w.-]+):[ \t]+([^\s#'\"\[{&*|>!%@`][^#\n\r]*?)[ \t]*(#.*)?$")
TOML_LINE: Final = re.compile(r"^(\s*)([\w.-]+)[ \t]*=[ \t]*([^\s#'\"\[{][^#\n\r]*?)[ \t]*(#.*)?$")
JSON_LINE: Final = re.compile(r'^(\s*)"([\w.-]+)"[ \t]*:[ \t]*(true|false|null|-?\d[\d.eE+-]*)[ \t]*(,?)[ \t]*$')
TABLE: Final = re.compile(r"^\s*\[\[?([^\]]+)\]\]?")

SWITCHES: Final = {
    **dict.fromkeys(("true", "True", "yes", "on"), True),
    **dict.fromkeys(("false", "False", "no", "off"), False),
}
"""How YAML spells them, and people write them."""

FLAG: Final = "flag"
FIELD: Final = "field"
CONSTANT: Final = "constant"
ENTRY: Final = "entry"


@dataclass(frozen=True, eq=False)
class Setting:
    """A setting.

    Attributes:
        name: What it is called: ``use_clip`` of ``--use-clip``, ``Config.dropout``, ``USE_CLIP``, ``train.lr``.
        value: Its value; ``UNKNOWN`` if that does not stand there as such.
        file: Where it stands.
        line: In which line.
        kind: What it is: a flag, a field, a constant, or an entry of a configuration.
        node: The value's place in a source; None of an entry, or where the value is left out.
        placed: The statement.
        text: Of an entry: the value as it is written; of a flag: the flag.
        is_switch: Whether it is on or off.
        gives: Of a switch: what it is where the command gives its flag.
    """

    name: str
    value: Any
    file: str
    line: int
    kind: str
    node: ast.expr | None = None
    placed: Placed | None = None
    text: str = ""
    is_switch: bool = False
    gives: bool = True

    def under(self, given: Collection[str]) -> Any:
        """Return its value when a program is run with some words."""
        if self.is_switch and self.text in given:
            return self.gives
        return False if self.is_switch and self.text.replace("--", "--no-", 1) in given else self.value

    @property
    def short(self) -> str:
        """The last part of its name."""
        return self.name.rpartition(".")[2]


def settings_of(tree: Tree) -> list[Setting]:
    """Return all settings of a tree, by file and line."""
    found = [setting for source in sources(tree) for setting in _in_python(source)]
    for file in tree:
        if file.endswith((".yaml", ".yml", ".toml", ".json")) and not file.endswith("pyproject.toml"):
            try:
                found += _in_text(file, tree.text(file))
            except UnicodeDecodeError:
                continue
    return found


def setting_at(source: Source, placed: Placed) -> Setting | None:
    """Return the setting that a statement makes; None if it makes none."""
    return next((one for one in _in_python(source) if one.placed is placed), None)


def off(value: Any) -> Any:
    """Return what a setting has when it is off: False for a switch, 0 for a number; else ``UNKNOWN``."""
    if value is True:
        return False
    if isinstance(value, bool) or not isinstance(value, int | float) or value == 0:
        return UNKNOWN
    return type(value)(0)


def _in_python(source: Source) -> Iterator[Setting]:
    for placed in source.statements:
        node = placed.node
        owner = placed.owner
        if (flag := flag_at(source, placed)) is not None:
            yield flag
        target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
        if isinstance(node, ast.AnnAssign):
            target = node.target
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        if not isinstance(target, ast.Name) or value is None:
            continue
        if owner is not None and placed.scopes[-1] is owner and isinstance(node, ast.AnnAssign) and _is_data(owner):
            inner = _default_of_field(value)
            yield Setting(f"{owner.name}.{target.id}", literal(inner), source.file, placed.first, FIELD, inner, placed)
        elif UPPER.fullmatch(target.id) and not placed.scopes:
            yield Setting(target.id, literal(value), source.file, placed.first, CONSTANT, value, placed)


def _is_data(owner: ast.ClassDef) -> bool:
    names = [plain_name(one.func if isinstance(one, ast.Call) else one) for one in owner.decorator_list]
    bases = [plain_name(one) for one in owner.bases]
    return any(name.rpartition(".")[2] in ("dataclass", "define", "frozen", "attrs") for name in names) or any(
        base.rpartition(".")[2] in ("BaseModel", "Struct", "NamedTuple", "BaseSettings") for base in bases
    )


def _default_of_field(value: ast.expr) -> ast.expr:
    if isinstance(value, ast.Call) and plain_name(value.func).rpartition(".")[2] in ("field", "Field"):
        return keyword_of(value, "default") or value
    return value


def flag_at(source: Source, placed: Placed) -> Setting | None:
    """Return the flag that a statement adds to a parser; None for none, or one that has to be given."""
    node = placed.node
    call = node.value if isinstance(node, ast.Expr | ast.Assign) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "add_argument":
        return None
    flags = [one.value for one in call.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    dest = literal(keyword_of(call, "dest"))
    long = next((flag for flag in flags if flag.startswith("--")), flags[0] if flags else "")
    if not long.startswith("-") and dest is UNKNOWN:
        return None
    name = dest if isinstance(dest, str) else long.lstrip("-").replace("-", "_")
    default = keyword_of(call, "default")
    action = literal(keyword_of(call, "action"))
    value: Any = literal(default) if default is not None else UNKNOWN
    if default is None and action in ("store_true", "store_false"):
        value = action == "store_false"
    optional = plain_name(keyword_of(call, "action") or call).rpartition(".")[2] == "BooleanOptionalAction"
    if default is None and optional:
        value = None
    return Setting(
        name,
        value,
        source.file,
        placed.first,
        FLAG,
        default,
        placed,
        text=long,
        is_switch=optional or action in ("store_true", "store_false"),
        gives=action != "store_false",
    )


def _in_text(file: str, text: str) -> Iterator[Setting]:
    pattern = TOML_LINE if file.endswith(".toml") else JSON_LINE if file.endswith(".json") else YAML_LINE
    stack: list[tuple[int, str]] = []
    table = ""
    for number, line in enumerate(re.split(r"\r\n|\n|\r", text), start=1):
        if pattern is TOML_LINE:
            if head := TABLE.match(line):
                table = head[1].strip()
                continue
            prefix = f"{table}." if table else ""
        else:
            prefix = _opened(stack, line, is_json=pattern is JSON_LINE)
        if found := pattern.match(line):
            value = _scalar(found[3].strip(), file)
            if value is not UNKNOWN:
                yield Setting(f"{prefix}{found[2]}", value, file, number, ENTRY, text=found[3].strip())


def _opened(stack: list[tuple[int, str]], line: str, *, is_json: bool) -> str:
    """Keep track of which mappings are open at a line, and return their path."""
    if not line.strip() or line.lstrip().startswith(("#", "//")):
        return "".join(f"{name}." for _, name in stack)
    depth = len(line) - len(line.lstrip())
    while stack and stack[-1][0] >= depth:
        stack.pop()
    prefix = "".join(f"{name}." for _, name in stack)
    pattern = r'^\s*"([\w.-]+)"\s*:\s*\{\s*$' if is_json else r"^\s*(?:- )?([\w.-]+):\s*(?:#.*)?$"
    if opened := re.match(pattern, line):
        stack.append((depth, opened[1]))
    return prefix


def _scalar(text: str, file: str) -> Any:
    if file.endswith(".json"):
        return json.loads(text)
    if file.endswith(".toml"):
        try:
            return tomllib.loads(f"x = {text}")["x"]
        except tomllib.TOMLDecodeError:
            return UNKNOWN
    if text in SWITCHES:
        return SWITCHES[text]
    for pattern, kind in ((r"[-+]?\d+", int), (r"[-+]?(\d+\.\d*|\.?\d+)([eE][-+]?\d+)?", float)):
        if re.fullmatch(pattern, text):
            return kind(text)
    return text if re.fullmatch(r"[A-Za-z][\w.-]*", text) else UNKNOWN
