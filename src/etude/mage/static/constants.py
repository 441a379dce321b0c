"""The numbers that a training is made of, and which of them a change alters: seeds, learning rates, epochs, others.

Each is known by its name and by where it stands: an assignment, an argument, a flag's default, a key of a dictionary
or of a configuration file, the range of a loop over epochs. What is compared is the text of the value, so that
``args.lr`` which becomes ``0.1`` is a change as well.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from etude.mage.sources.leaves import leaves_of
from etude.mage.sources.walking import dotted, imported, last_part, walk
from etude.mage.static.leaving import Function, Loop, counter_of, early_returns, trains, ways_out
from etude.mage.static.policy import Broken, Change, Named, Rule
from etude.mage.static.sites import Site, altered

FAMILIES: Final[Mapping[Rule, re.Pattern[str]]] = MappingProxyType(
    {
        Rule.SEEDS: re.compile(r"(?:^|_)(?:seed|seeds|random_state|rng_key)(?:$|_)"),
        Rule.LEARNING_RATE: re.compile(r"(?:^|_)(?:lr|learning_rate|eta)(?:$|_(?:max|min|init|base))|^eta0$"),
        Rule.EPOCHS: re.compile(
            r"(?:^|_)(?:epochs?|max_steps|num_steps|n_steps|total_steps|train_steps|max_iter|iterations|num_iterations|"
            r"n_iter|n_estimators|num_boost_round|num_round|early_stopping_rounds|patience)$"
        ),
        Rule.TRAINING: re.compile(
            r"(?:^|_)(?:batch_size|weight_decay|momentum|betas|shuffle|drop_last|test_size|train_size|val_size|"
            r"val_split|n_splits|stratify|subset|num_samples|accumulate_grad_batches|reg_lambda|reg_alpha)$"
        ),
        Rule.WEIGHTS: re.compile(r"(?:^|_)(?:class_weights?|sample_weights?|pos_weight|loss_weights?)$"),
        Rule.PRECISION: re.compile(r"^(?:precision|mixed_precision|fp16|bf16|amp|use_amp)$"),
        Rule.CLIPPING: re.compile(
            r"(?:^|_)(?:max_norm|max_grad_norm|grad_clip|clip_grad|clip_norm|clip_value|clipnorm|clipvalue|"
            r"gradient_clip_val|gradient_clip_algorithm|gradient_clip)$"
        ),
    }
)
"""Rule -> the names that it is about."""
SEEDERS: Final = frozenset(
    {
        *("seed", "manual_seed", "manual_seed_all", "set_seed", "seed_everything", "seed_all", "set_random_seed"),
        *("default_rng", "RandomState", "PRNGKey", "initial_seed", "fork_rng", "set_rng_state", "setstate"),
        *("use_deterministic_algorithms", "enable_op_determinism"),
    }
)
OPTIMIZERS: Final = frozenset(
    {"SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "LBFGS", "Lion", "Rprop"}
)
TRAINERS: Final = re.compile(r"^(?:train|fit|main|run)(?:_|$)|(?:^|_)(?:train|training|one_epoch|train_step)$")
"""Names of functions that lead to a training."""
READERS: Final = frozenset({"parse_args", "parse_known_args"})
DRAWERS: Final = frozenset({"generator", "worker_init_fn"})
"""Arguments that say where random numbers come from."""


def changed_constants(change: Change, named: Named) -> Iterator[Broken | str]:
    """Yield what is under a rule and has changed, and, as plain texts, other constants that have."""
    before, after = (_of(change, text) for text in (change.before, change.after))
    yield from altered(change.path, before, after, named)


def family_of(name: str) -> Rule | None:
    """Return the rule that a name is under.

    Example:
        >>> family_of("LEARNING_RATE"), family_of("hidden")
        (<Rule.LEARNING_RATE: 'learning rates stay'>, None)
    """
    plain = name.lstrip("-").replace("-", "_").lower()
    return next((rule for rule, pattern in FAMILIES.items() if pattern.search(plain)), None)


def _of(change: Change, text: str) -> Iterator[Site]:
    if change.python:
        yield from _sites(change.old if text is change.before else change.new)
        return
    for key, value in leaves_of(change.path, text):
        yield Site(family_of(key[-1]), key[-1], ".".join(key[:-1]), value, owners=key)


def _sites(tree: ast.Module) -> Iterator[Site]:
    names = imported(tree)
    targets = _targets_of_calls(tree)
    for scope, node in walk(tree):
        owners = (*scope.split("."), *targets.get(id(node), ()))
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr):
            yield from _assigned(node, scope, owners)
        elif isinstance(node, ast.Call):
            yield from _called(node, scope, owners, names)
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str) and family_of(key.value):
                    yield Site(family_of(key.value), key.value, scope, ast.unparse(value), key.lineno, owners)
        elif isinstance(node, Function):
            yield from _defaults(node, scope)
            yield from _returns(node, scope)
        elif isinstance(node, Loop):
            yield from _loop(node, scope, owners)


def _targets_of_calls(tree: ast.Module) -> dict[int, tuple[str, ...]]:
    """Return, for calls, the names that what they give is assigned to: ``scheduler`` of ``scheduler = StepLR(...)``."""
    found: dict[int, tuple[str, ...]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            names = tuple(name for target in node.targets if (name := _name_of(target)))
            found |= {id(one): names for one in ast.walk(node.value) if isinstance(one, ast.Call)}
    return found


def _assigned(
    node: ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr, scope: str, owners: tuple[str, ...]
) -> Iterator[Site]:
    if node.value is None:
        return
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        pairs = [(target, node.value)]
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs = list(zip(target.elts, node.value.elts, strict=False))
        for one, value in pairs:
            name = _name_of(one)
            rule = family_of(name)
            if rule is not None and not isinstance(value, ast.Call | ast.Lambda):  # a call has arguments of its own
                yield Site(rule, name, scope, ast.unparse(value), one.lineno, owners)
            elif name and isinstance(one, ast.Name) and _is_setting(value) and "(" not in scope:
                yield Site(None, name, scope, ast.unparse(value), one.lineno, owners)


def _name_of(target: ast.AST) -> str:
    if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
        return str(target.slice.value)
    return target.id if isinstance(target, ast.Name) else target.attr if isinstance(target, ast.Attribute) else ""


def _is_setting(value: ast.AST) -> bool:
    return isinstance(value, ast.Constant) or (
        isinstance(value, ast.UnaryOp) and isinstance(value.operand, ast.Constant)
    )


def _called(node: ast.Call, scope: str, owners: tuple[str, ...], names: dict[str, str]) -> Iterator[Site]:
    callee = last_part(dotted(node.func, names)) or "a call"
    owners = (*owners, callee)
    where = f"{scope or 'the module'}, {callee}()"
    if callee == "add_argument":
        yield from _flag(node, owners)
        return
    if callee in SEEDERS:
        said = ", ".join(map(ast.unparse, node.args)) or "without a number"
        yield Site(Rule.SEEDS, callee, scope, said, node.lineno, owners)
    if callee in READERS:
        said = ", ".join(map(ast.unparse, node.args)) or "of the command line"
        yield Site(Rule.TRAINING, callee, scope, said, node.lineno, owners)
    if callee in OPTIMIZERS and len(node.args) > 1:
        yield Site(Rule.LEARNING_RATE, "lr", where, ast.unparse(node.args[1]), node.lineno, owners)
    for one in node.keywords:
        rule = Rule.SEEDS if one.arg in DRAWERS else family_of(one.arg or "")
        if one.arg is not None and rule is not None and not (one.arg == "momentum" and "Norm" in callee):
            yield Site(rule, one.arg, where, ast.unparse(one.value), one.value.lineno, owners)


def _flag(node: ast.Call, owners: tuple[str, ...]) -> Iterator[Site]:
    flags = [one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    if flags:
        default = next((ast.unparse(one.value) for one in node.keywords if one.arg == "default"), "without a default")
        name = max(flags, key=len)
        yield Site(family_of(name), name, "", default, node.lineno, owners)


def _returns(node: Function, scope: str) -> Iterator[Site]:
    """Yield what leaves a function early that trains, or calls what does."""
    if trains(node) or TRAINERS.search(node.name.lower()):
        where = f"{scope}.{node.name}" if scope else node.name
        for one in early_returns(node):
            yield Site(Rule.EPOCHS, "a way out before the end", where, ast.unparse(one), one.lineno, (node.name,))


def _defaults(node: Function, scope: str) -> Iterator[Site]:
    where = f"{scope}.{node.name}" if scope else node.name
    owners = tuple(where.split("."))
    args = [*node.args.posonlyargs, *node.args.args]
    pairs = [
        *zip(args[len(args) - len(node.args.defaults) :], node.args.defaults, strict=True),
        *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True),
    ]
    for arg, value in pairs:
        if value is not None and (family_of(arg.arg) or _is_setting(value)):
            yield Site(family_of(arg.arg), arg.arg, f"{where}()", ast.unparse(value), arg.lineno, owners)


def _loop(node: Loop, scope: str, owners: tuple[str, ...]) -> Iterator[Site]:
    """Yield how long a loop over epochs, steps or batches goes on, and what ends it early."""
    counter, is_training = counter_of(node), trains(node)
    if counter or is_training:
        turns = node.test if isinstance(node, ast.While) else node.iter
        what = f"the range of {counter}" if counter else "what is trained with"
        yield Site(Rule.EPOCHS, what, scope, ast.unparse(turns), node.lineno, owners)
        for one in ways_out(node):
            yield Site(Rule.EPOCHS, "a way out of a turn or a loop", scope, ast.unparse(one), one.lineno, owners)
