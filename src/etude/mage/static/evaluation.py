"""What variants are judged by: evaluation and metric code, told by its names and calls, and whether a change edits it.

Edits are for a person. A metric that is no longer computed, but a number that somebody wrote, is never right.
"""

from __future__ import annotations

import ast
import copy
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from etude.mage.sources.definitions import definitions
from etude.mage.sources.walking import dotted, imported, is_literal, last_part, walk
from etude.mage.static.policy import Broken, Change, Named, Rule

METRIC: Final = re.compile(
    r"(?:^|_)(?:accuracy|acc|auc|auroc|f1|f1_score|precision_score|recall_score|rmse|mae|mse|bleu|rouge|perplexity|"
    r"top1|top5|metrics?|test_loss|val_loss|valid_loss|eval_loss|r2|ams|ndcg|mrr|iou|dice|wer)(?:$|_)"
)
"""Names of numbers that a program is judged by."""
JUDGES: Final = re.compile(
    r"(?:^|_)(?:evaluate|evaluation|evaluator|validate|validation|accuracy|auc|metrics?|f1|rmse|mae|bleu|rouge|score_fn)"
    r"(?:$|_)|^(?:test|eval|score|val)(?:_(?:step|epoch|model|loop|one_epoch|fn))?$|_(?:score|error|auc|curve|report)$"
    r"|^(?:validation|test)_(?:step|epoch_end)$|^on_(?:validation|test)\w*$|^compute_metrics$|^inference$"
)
"""Names of functions that judge."""
HELD_OUT: Final = re.compile(r"(?:^|_)(?:test|tests|testing|val|valid|validation|eval|holdout)(?:$|_)")
"""Names of data that programs are judged on."""
TELLERS: Final = frozenset({"print", "log", "info", "report", "log_metric", "log_metrics", "add_scalar", "summary"})
"""Functions that tell a number to whoever reads along."""
JUDGING_FILES: Final = re.compile(r"(?:^|[/_])(?:evaluate|evaluation|eval|metrics?|scoring|validate)(?:[/_]|\.py$)")
OPENERS: Final = frozenset({0, -1, 1, 100})
"""Numbers that a metric may begin with: to be compared, counted up, or counted down."""


@dataclass(frozen=True)
class _Site:
    """A place where a metric or a judgement stands."""

    kind: str
    name: str
    scope: str
    value: str
    line: int
    literal: bool = False


def find_edits(change: Change, named: Named) -> Iterator[Broken]:
    """Yield what of evaluation and metric code changes."""
    if not change.python:
        return
    before, after = (_grouped(_without_columns(tree) if named.columns else tree) for tree in (change.old, change.new))
    told = False
    for key in dict.fromkeys([*before, *after]):
        kind, name, scope = key
        if name in named or any(part in named for part in scope.split(".")):
            continue
        old, new = before.get(key, []), after.get(key, [])
        if hard := _hard_coded(kind, old, new):
            told = True
            yield Broken(
                Rule.METRIC,
                f"{change.path}, line {hard.line}: `{name}` is the number {hard.value} that somebody wrote, and no "
                "longer computed. Metrics come from the evaluation.",
                expected=", ".join(f"`{site.value}`" for site in old if not site.literal) or "a computed value",
                found=f"`{hard.value}`",
            )
        elif _edited(kind, old, new, change.old):
            told = True
            was, now = _difference(old, new), _difference(new, old)
            place = f"{change.path}, line {new[0].line}" if new else change.path
            yield Broken(
                Rule.EVALUATION,
                f"{place}: what variants are judged by changes: {kind} `{name}`{f' in {scope}' if scope else ''}. "
                f"It was {was} and is {now}. The variant does not name it.",
                expected=was,
                found=now,
            )
    if not told and judging_file(change.path) and ast.dump(change.old) != ast.dump(change.new):
        yield Broken(
            Rule.EVALUATION,
            f"{change.path} is about what variants are judged by, and changes. The variant does not name it.",
            expected="as in the base",
            found="changed",
        )


class _Columns(ast.NodeTransformer):
    """Takes choices of columns out of expressions, so that the same data without some columns are the same."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """Leave out lists of columns, and names of them; a single column, or a range of rows, is another thing."""
        self.generic_visit(node)
        index = node.slice
        rows = index.elts[0] if isinstance(index, ast.Tuple) and index.elts else None
        if rows is not None and ast.unparse(rows) == ":":
            inner = node.value
            return inner.value if isinstance(inner, ast.Attribute) and inner.attr in ("loc", "iloc") else inner
        return node if rows is not None or isinstance(index, ast.Constant | ast.Slice) else node.value

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Leave out what drops columns."""
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("drop", "filter", "reindex", "delete"):
            held = node.func.value
            return node.args[0] if node.func.attr == "delete" and node.args else held
        return node


def _without_columns(tree: ast.Module) -> ast.Module:
    changed: ast.Module = _Columns().visit(copy.deepcopy(tree))
    return ast.fix_missing_locations(changed)


def judging_file(path: str) -> bool:
    """Say whether a file is about evaluation, by its name."""
    return JUDGING_FILES.search(path) is not None


def _grouped(tree: ast.Module) -> dict[tuple[str, str, str], list[_Site]]:
    found = defaultdict(list)
    for site in _sites(tree):
        found[site.kind, site.name, site.scope].append(site)
    return dict(found)


def _sites(tree: ast.Module) -> Iterator[_Site]:
    for one in definitions(tree):
        if JUDGES.search(one.node.name.lower()) and one.kind == "function":
            yield _Site("definition of", one.name, "", _body_of(one.node), one.first)
            for node in ast.walk(one.node):
                if isinstance(node, ast.Return) and node.value is not None:
                    yield _returned(one.name, node)
    names = imported(tree)
    for scope, node in walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from _imports(node, scope)
        elif isinstance(node, ast.Call):
            yield from _called(node, scope, names)
        elif isinstance(node, ast.Dict):
            yield from _entries(node, scope)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            yield from _assigned(node, scope)


def _imports(node: ast.ImportFrom, scope: str) -> Iterator[_Site]:
    for alias in node.names:
        name = alias.asname or alias.name
        if JUDGES.search(name.lower()):
            yield _Site("import of", name, scope, f"from {node.module}: {alias.name}", node.lineno)


def _assigned(node: ast.Assign | ast.AnnAssign, scope: str) -> Iterator[_Site]:
    if node.value is None:
        return
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        name = _target(target)
        if METRIC.search(name.lower()):
            yield _valued("entry" if isinstance(target, ast.Subscript) else "variable", name, scope, node.value)
        for one in target.elts if isinstance(target, ast.Tuple | ast.List) else [target]:
            held = _target(one)
            said = ast.unparse(node.value)
            if HELD_OUT.search(held.lower()) and said not in (held, ast.unparse(target).strip("()")):
                yield _Site("data in", held, scope, said, node.lineno)


def _entries(node: ast.Dict, scope: str) -> Iterator[_Site]:
    for key, value in zip(node.keys, node.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, str) and METRIC.search(key.value.lower()):
            yield _valued("entry", key.value, scope, value)


def _called(node: ast.Call, scope: str, names: dict[str, str]) -> Iterator[_Site]:
    callee = last_part(dotted(node.func, names))
    written = last_part(dotted(node.func, {}))
    if any(JUDGES.search(name.lower()) for name in (callee, written)) and written != "eval_str":
        yield _Site("call of", written, scope, ast.unparse(node), node.lineno)
    texts = [one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    if written in TELLERS and any(METRIC.search(word) for text in texts for word in re.split(r"\W+", text.lower())):
        yield _Site("what is told by", written, scope, ast.unparse(node), node.lineno)
    for one in node.keywords:
        if one.arg is not None and METRIC.search(one.arg.lower()):
            yield _valued("argument", one.arg, scope, one.value)


def _returned(name: str, node: ast.Return) -> _Site:
    assert node.value is not None
    return _Site("result of", name, "", ast.unparse(node.value), node.lineno, is_literal(node.value))


def _valued(kind: str, name: str, scope: str, value: ast.expr) -> _Site:
    return _Site(kind, name, scope, ast.unparse(value), value.lineno, is_literal(value))


def _target(target: ast.AST) -> str:
    if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
        return str(target.slice.value)
    return target.id if isinstance(target, ast.Name) else target.attr if isinstance(target, ast.Attribute) else ""


def _body_of(node: ast.AST) -> str:
    """Return a definition's text without comments and docstring: what it does."""
    text = ast.unparse(node)
    docstring = (
        ast.get_docstring(node, clean=False) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else None
    )
    if docstring is None:
        return text
    bare = ast.parse(text).body[0]
    assert isinstance(bare, ast.FunctionDef | ast.AsyncFunctionDef)
    bare.body = bare.body[1:] or [ast.Pass()]
    return ast.unparse(bare)


def _hard_coded(kind: str, old: list[_Site], new: list[_Site]) -> _Site | None:
    """Return the place at which a number was written where one was computed, or beside it."""
    known = Counter(site.value for site in old if site.literal)
    fresh = [site for site in new if site.literal and known[site.value] == 0]
    if not fresh or kind in ("definition of", "call of", "import of"):
        return None
    computed = sum(not site.literal for site in old)
    if computed > sum(not site.literal for site in new) or kind in ("entry", "argument"):
        return fresh[0]
    return next((site for site in fresh if not _opens(site.value)), None) if kind == "variable" else None


def _opens(value: str) -> bool:
    try:
        return float(value) in OPENERS
    except ValueError:
        return False


def _edited(kind: str, old: list[_Site], new: list[_Site], base: ast.Module) -> bool:
    if Counter(site.value for site in old) == Counter(site.value for site in new):
        return False
    if kind == "result of":
        return False  # its definition is told
    if kind == "variable":
        # Names such as `acc` are taken for other things, too. What is computed with is told where it is called.
        return any("lambda" in site.value for site in new) and not any("lambda" in site.value for site in old)
    if not old and kind in ("definition of", "argument", "call of", "what is told by"):
        # New code may judge, too, unless it takes the place of what the base calls by that name.
        return kind == "definition of" and new[0].name in _mentioned(base)
    return bool(old) or kind == "entry"


def _mentioned(base: ast.Module) -> set[str]:
    names = {node.id for node in ast.walk(base) if isinstance(node, ast.Name)}
    return names | set(imported(base))


def _difference(one: list[_Site], other: list[_Site]) -> str:
    left = Counter(site.value for site in one) - Counter(site.value for site in other)
    if not left:
        return "nothing"
    text = "; ".join(left.elements())
    return f"`{text}`" if len(text) <= 160 else f"`{text[:159]}…`"  # noqa: PLR2004
