"""How it is known that something is gone: claims about a running program, fixed before any code is written.

Names of modules and parameters are those of the untouched program. ``judge`` holds each claim against the facts of
both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from etude.mage.values import Tagged


class ModuleGone(Tagged, frozen=True):
    """No parameter is under the path, and nothing is called there.

    Attributes:
        path: The module, such as ``conv2``.
        resized: Parameters of others whose shapes change, and to what; all others stay as they are. None for any of
            them where only the program can tell.
        others_stay: Whether all other parameters keep their shapes.
        along: What is called behind it and goes along: paths of modules without parameters, names of functions; one for
            each time that it is called there.
        idle: What is called behind it, stays by the plan, and does nothing more there: that it goes is for somebody to
            look at.
    """

    path: str
    resized: Mapping[str, tuple[int, ...] | None] = {}
    others_stay: bool = True
    along: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()


class ModuleUnused(Tagged, frozen=True):
    """The module is still there and is never called; its parameters get no gradient."""

    path: str


class ModuleReplaced(Tagged, frozen=True):
    """What is at the path is something else.

    Attributes:
        path: The module.
        shapes: Its parameters, relative to the path, and their shapes.
        type: The name of its class; empty for any other one than before.
        resized: As of ``ModuleGone``.
    """

    path: str
    shapes: Mapping[str, tuple[int, ...]] = {}
    type: str = ""
    resized: Mapping[str, tuple[int, ...] | None] = {}


class Resized(Tagged, frozen=True):
    """Parameters have other shapes, and no parameter comes or goes.

    Attributes:
        shapes: Parameter -> its new shape; a size of None may be any.
        others_stay: Whether all other parameters keep their shapes.
    """

    shapes: Mapping[str, tuple[int | None, ...]]
    others_stay: bool = True


class ColumnsGone(Tagged, frozen=True):
    """What reaches ``fit``, or the first batch, lacks exactly these columns."""

    columns: tuple[str, ...]


class CallGone(Tagged, frozen=True):
    """A function or an operator is not called any more, and others still are.

    Attributes:
        name: The function, such as ``torch.nn.utils.clip_grad_norm_``, ``train.py:smooth``, or an operator.
        still: Those that are called as often as before.
    """

    name: str
    still: tuple[str, ...] = ()


class CallChanged(Tagged, frozen=True):
    """A function or an operator is called another number of times.

    Attributes:
        name: The function.
        times: How often; None for fewer times than before.
    """

    name: str
    times: int | None = None


class GroupValue(Tagged, frozen=True):
    """A value of an optimizer's groups is another, such as ``weight_decay`` 0."""

    name: str
    value: float


class ModuleValue(Tagged, frozen=True):
    """A plain attribute of modules is another, such as ``p`` of a dropout.

    Attributes:
        path: The module.
        name: The attribute.
        value: What it is.
    """

    path: str
    name: str
    value: Any


class SettingValue(Tagged, frozen=True):
    """A setting of the program has another value when it runs: a flag, a field of its configuration, a global."""

    name: str
    value: Any


class Untouched(Tagged, frozen=True):
    """The program does exactly what it does now: a change that others run with arguments, run without any."""


class Holds(Tagged, frozen=True):
    """An expression over the facts is true, such as ``len(variant.optimizers) == 1``.

    Attributes:
        expression: Python, with the names ``base`` and ``variant``; it may look at facts, compare and count, no more.
    """

    expression: str


Witness = (
    ModuleGone
    | ModuleUnused
    | ModuleReplaced
    | Resized
    | ColumnsGone
    | CallGone
    | CallChanged
    | GroupValue
    | ModuleValue
    | SettingValue
    | Untouched
    | Holds
)
"""A claim of one kind or another."""
