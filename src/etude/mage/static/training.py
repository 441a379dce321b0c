"""What a training is besides its numbers: weights, types of numbers, clipping, and how it is called.

Training and evaluation are called where they were, as often, and are what they were.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from etude.mage.sources.definitions import definitions
from etude.mage.sources.walking import dotted, imported, last_part, walk
from etude.mage.static.evaluation import HELD_OUT, JUDGES
from etude.mage.static.leaving import Function, trains
from etude.mage.static.policy import Broken, Change, Named, Rule
from etude.mage.static.sites import Site, altered

WEIGHTED_FIRST: Final = frozenset({"CrossEntropyLoss", "NLLLoss", "BCELoss", "BCEWithLogitsLoss", "MultiMarginLoss"})
"""Losses whose first argument are weights."""
WEIGHTED_THIRD: Final = frozenset(
    {"cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "fit"}
)
"""Functions whose third argument are weights."""
WEIGHTS: Final = re.compile(r"^(?:weight|pos_weight|sample_weight|class_weight|weights|scale_pos_weight|loss_weights)$")
NO_LOSS: Final = re.compile(
    r"^(?:linear|bilinear|conv\w*|embedding\w*|prelu|\w*norm)$|^[A-Z](?!\w*(?:Loss|Sampler|DMatrix))"
)
"""What has parameters that are called weight as well: layers as functions, and classes that are no loss."""
NARROW: Final = re.compile(r"\b(?:float16|bfloat16|float64|half|double|float8\w*|fp16|bf16)\b")
"""Types of numbers that nobody takes without meaning it."""
CASTS: Final = frozenset({"half", "bfloat16", "double"})
TYPED: Final = frozenset({"autocast", "GradScaler", "set_default_dtype", "set_float32_matmul_precision", "set_policy"})
CLIPS: Final = re.compile(r"^clip_(?:grad|by)|^clip_gradients|^clip_grads?$")
MODES: Final = frozenset({"train", "eval"})
"""Switches of modules, which have names of functions that train and judge."""
OWN: Final = frozenset({"train", "eval", "forward", "backward", "step", "fit", "predict", "score"})
"""Methods that nobody sets on an object without putting another one in their place."""
FITS: Final = frozenset({"fit", "fit_generator", "partial_fit", "fit_transform"})


def changed_training(change: Change, named: Named) -> Iterator[Broken | str]:
    """Yield what of a training changes that is no number."""
    if not change.python:
        return
    known = _functions(change.old)
    before, after = (_sites(tree, known) for tree in (change.old, change.new))
    yield from altered(change.path, before, after, named)


def _functions(tree: ast.Module) -> frozenset[str]:
    """Return the names of what a source trains and judges with, by what they do or are called."""
    found = set()
    for one in definitions(tree):
        name = one.name.rpartition(".")[2]
        if isinstance(one.node, Function) and name != "forward" and (trains(one.node) or JUDGES.search(name.lower())):
            found.add(name)
    bound = (name for name in imported(tree) if JUDGES.search(name.lower()))
    return frozenset({*found, *bound})


def _sites(tree: ast.Module, known: frozenset[str]) -> Iterator[Site]:
    names = imported(tree)
    for scope, node in walk(tree):
        owners = tuple(scope.split("."))
        if isinstance(node, ast.Call):
            callee = last_part(dotted(node.func, names))
            owners = (*owners, callee, last_part(dotted(node.func, {})))
            yield from _weights(node, callee, scope, owners)
            yield from _types(node, callee, scope, owners)
            yield from _clipping(node, callee, scope, owners)
            yield from _called(node, callee, scope, owners, known)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr):
            yield from _replaced(node, scope, owners, known)
        elif isinstance(node, Function) and node.name in known:
            for one in node.decorator_list:
                yield _site(Rule.TRAINED_ONCE, f"what wraps {node.name}", scope, one, (*owners, node.name))


def _site(rule: Rule, name: str, where: str, value: ast.AST, owners: tuple[str, ...]) -> Site:
    return Site(rule, name, where, ast.unparse(value), getattr(value, "lineno", 0), (*owners, *_mentioned(value)))


def _mentioned(value: ast.AST) -> set[str]:
    """Return the names in an expression: what a variant is about may come and go in it."""
    return {one.id for one in ast.walk(value) if isinstance(one, ast.Name)}


# --- weights --------------------------------------------------------------------------------------


def _weights(node: ast.Call, callee: str, scope: str, owners: tuple[str, ...]) -> Iterator[Site]:
    where = f"{scope or 'the module'}, {callee}()"
    if not NO_LOSS.search(callee):
        for one in node.keywords:
            if WEIGHTS.search(one.arg or ""):
                yield _site(Rule.WEIGHTS, one.arg or "", where, one.value, owners)
    positions = [0] if callee in WEIGHTED_FIRST else [2] if callee in WEIGHTED_THIRD else []
    for position in positions:
        if len(node.args) > position and not isinstance(node.args[position], ast.Starred):
            yield _site(Rule.WEIGHTS, "weight", where, node.args[position], owners)
    if callee == "backward" and isinstance(node.func, ast.Attribute) and not isinstance(node.func.value, ast.Name):
        yield _site(Rule.WEIGHTS, "what is gone back from", scope, node.func.value, owners)


# --- types ----------------------------------------------------------------------------------------


def _types(node: ast.Call, callee: str, scope: str, owners: tuple[str, ...]) -> Iterator[Site]:
    if callee in TYPED or (callee in CASTS and isinstance(node.func, ast.Attribute) and not node.args):
        yield _site(Rule.PRECISION, callee, scope, node, owners)
        return
    values = [*(node.args if callee in ("to", "type", "astype") else ()), *_keyword(node, "dtype")]
    for one in values:
        if NARROW.search(ast.unparse(one)):
            yield _site(Rule.PRECISION, f"dtype of {callee}", scope, one, owners)


def _keyword(node: ast.Call, name: str) -> Iterator[ast.expr]:
    yield from (one.value for one in node.keywords if one.arg == name)


# --- clipping -------------------------------------------------------------------------------------


def _clipping(node: ast.Call, callee: str, scope: str, owners: tuple[str, ...]) -> Iterator[Site]:
    if CLIPS.search(callee):
        yield _site(Rule.CLIPPING, callee, scope, node, owners)


# --- who trains, and how often --------------------------------------------------------------------


def _called(node: ast.Call, callee: str, scope: str, owners: tuple[str, ...], known: frozenset[str]) -> Iterator[Site]:
    method = isinstance(node.func, ast.Attribute)
    if callee == "setattr" and len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
        if node.args[1].value in OWN:
            yield _site(Rule.TRAINED_ONCE, f"what stands for {node.args[1].value}", scope, node, owners)
        return
    switches = method and callee in MODES and all(isinstance(one, ast.Constant) for one in node.args)
    if switches or not (callee in known or (method and callee in FITS)):
        return
    held_out = [one for one in node.args if HELD_OUT.search(last_part(ast.unparse(one)).lower())]
    said = f"{ast.unparse(node.func)}({', '.join(map(ast.unparse, held_out))})" if held_out else ast.unparse(node.func)
    if not JUDGES.search(callee.lower()):  # calls of what judges are told by the rule about evaluation
        yield Site(Rule.TRAINED_ONCE, f"the call of {callee}", scope, said, node.lineno, owners)


def _replaced(
    node: ast.Assign | ast.AnnAssign | ast.NamedExpr, scope: str, owners: tuple[str, ...], known: frozenset[str]
) -> Iterator[Site]:
    """Yield what is put in the place of a function that trains or judges, or of such a method of an object."""
    if node.value is None:
        return
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        name = target.id if isinstance(target, ast.Name) else target.attr if isinstance(target, ast.Attribute) else ""
        is_own = isinstance(target, ast.Attribute) and name in OWN
        if is_own or (name in known and _is_code(node.value, name)):
            yield _site(Rule.TRAINED_ONCE, f"what stands for {name}", scope, node, (*owners, name))


def _is_code(value: ast.expr, name: str) -> bool:
    """Say whether a function, or something made of the function of that name, is assigned; else it is a value."""
    return isinstance(value, ast.Lambda) or any(
        isinstance(one, ast.Name) and one.id == name and not _is_callee(value, one) for one in ast.walk(value)
    )


def _is_callee(value: ast.expr, name: ast.Name) -> bool:
    return any(isinstance(one, ast.Call) and one.func is name for one in ast.walk(value))
