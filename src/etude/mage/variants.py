"""What is to be tried: one variant of a program for each component that goes, as values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

from etude.mage.annotations import Remark
from etude.mage.values import Value
from etude.mage.witnesses import Untouched, Witness


class What(StrEnum):
    """What kind of thing a component is."""

    MODULE = "module"
    COLUMNS = "columns"
    LOSS_TERM = "loss term"
    AUGMENTATION = "augmentation"
    TRICK = "training trick"
    SETTING = "setting"
    OTHER = "other"


class Route(StrEnum):
    """Who writes a variant."""

    RULE = "rule"
    MODEL = "model"
    SHARED = "shared"
    PERSON = "person"


class Thing(Value, frozen=True):
    """A component, as it stands in the sources.

    Attributes:
        name: What it is called: ``conv2``, ``DER_mass_MMC``, ``clip_grad_norm_``.
        what: Its kind.
        declared: File and line.
        used: Where else, as files and lines.
        evidence: The line that says so.
    """

    name: str
    what: What
    declared: tuple[str, int]
    used: tuple[tuple[str, int], ...] = ()
    evidence: str = ""


class Variant(Value, frozen=True):
    """A variant that is wanted.

    Attributes:
        name: What it is called, such as ``without-conv2``: letters, digits, dots, hyphens and underscores.
        intent: What it is to be, in a sentence.
        things: What goes.
        meaning: How that is meant where it could be meant otherwise: what stays, what goes along.
        files: What may be changed.
        witnesses: By what it is known to be done.
        route: Who writes it.
        quote: The line of the hint that asks for it; empty without one.
        unclear: Ways to read it, if there are several and nobody has chosen; then it is not written.
        settings: For a rule: what is set to what.
        shares: The variant whose change it is, run with ``arguments``; empty if its change is its own.
        arguments: What the program is called with besides.
    """

    name: str
    intent: str
    things: tuple[Thing, ...] = ()
    meaning: str = ""
    files: tuple[str, ...] = ()
    witnesses: tuple[Witness, ...] = ()
    route: Route = Route.MODEL
    quote: str = ""
    unclear: tuple[str, ...] = ()
    settings: Mapping[str, object] = {}
    shares: str = ""
    arguments: tuple[str, ...] = ()

    @property
    def goes(self) -> tuple[str, ...]:
        """Names of definitions that may go with it: the components', and what the lines that make them call."""
        made = (name for thing in self.things for name in re.findall(r"(\w+)\(", thing.evidence))
        return tuple(dict.fromkeys((*(thing.name for thing in self.things), *made)))

    @property
    def serves(self) -> bool:
        """Whether it is no variant by itself, but the change that others share."""
        return any(isinstance(one, Untouched) for one in self.witnesses)


class Plan(Value, frozen=True):
    """All that is wanted of a project.

    Attributes:
        base: The digest of its tree.
        entry: How it is run: ``script.py:experiment``, or a command such as ``python train.py --seed {seed}``.
        variants: The variants.
        remarks: What its author should know; hints that led to no variant among them.
        said: Tells what it was made with (choices, columns, who read which documents) from anything else.
    """

    base: str
    entry: str
    variants: tuple[Variant, ...] = ()
    remarks: tuple[Remark, ...] = ()
    said: str = ""
