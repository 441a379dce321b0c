"""What a change may be, as one table: the rules, and to whom each goes that is broken.

What is never right in an ablation, and what its writer can do without, goes back to the writer (FAILED). What may be
wanted, so that only a person can tell, goes to a person (FOR_A_PERSON), and so does what a writer who is told would
merely learn to hide: a change of what variants are judged by.

| rule | goes to |
|---|---|
| only files of the plan change | a person |
| the change is small (200 lines) | a person |
| nothing is reformatted | the writer |
| marks and hints stay | the writer |
| no invisible or bidirectional characters, no look-alike letters in names | the writer |
| no new imports of network, process or loader modules | the writer |
| no new ``eval``, ``exec``, ``compile``, pickle, shell, environment, ways out | the writer |
| nothing that belongs to a library is set | the writer |
| nothing outside of the folder is named | the writer |
| no file is written that the base does not write | the writer |
| a metric is computed, and is no literal constant | the writer |
| evaluation and metric code stay | a person |
| seeds stay | a person |
| learning rates stay | a person |
| the number of epochs and steps stays | a person |
| batch size, weight decay, shuffling and splits stay | a person |
| what classes, examples and the loss weigh stays | a person |
| the type of numbers stays | a person |
| how gradients are clipped stays | a person |
| training and evaluation are called as in the base | a person |
| nothing takes the place of what goes | a person |
| where a setting is all, nothing else changes | a person |

What the variant itself names, by its things, settings or witnesses, may change. Other constants that change are told
as alarms: a shape that is mended often is one.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import Final

from etude.mage.patch.diffs import FileDiff
from etude.mage.sources.definitions import parsed
from etude.mage.variants import Variant, What
from etude.mage.verdicts import Outcome, Reason
from etude.mage.witnesses import CallChanged, CallGone, ColumnsGone, GroupValue, ModuleValue, SettingValue

MOST_LINES: Final = 200
"""More lines than this are no small change."""


class Rule(StrEnum):
    """What holds for every change."""

    FILES = "only files of the plan change"
    SIZE = "the change is small"
    FORMAT = "nothing is reformatted"
    MARKS = "marks and hints stay"
    INVISIBLE = "no invisible or bidirectional characters"
    IMPORTS = "no new imports of network, process or loader modules"
    CALLS = "no new ways to run code, to leave, or to look around"
    FOREIGN = "nothing that belongs to a library is set"
    OUTSIDE = "nothing outside of the folder is named"
    WRITES = "no file is written that the base does not write"
    METRIC = "a metric is computed"
    EVALUATION = "evaluation and metric code stay"
    SEEDS = "seeds stay"
    LEARNING_RATE = "learning rates stay"
    EPOCHS = "the number of epochs and steps stays"
    TRAINING = "batch size, weight decay, shuffling and splits stay"
    WEIGHTS = "what classes, examples and the loss weigh stays"
    PRECISION = "the type of numbers stays"
    CLIPPING = "how gradients are clipped stays"
    TRAINED_ONCE = "training and evaluation are called as in the base"
    STAND_IN = "nothing takes the place of what goes"
    BESIDE = "where a setting is all, nothing else changes"


GOES_TO: Final[Mapping[Rule, Outcome]] = MappingProxyType(
    {
        Rule.FILES: Outcome.FOR_A_PERSON,
        Rule.SIZE: Outcome.FOR_A_PERSON,
        Rule.FORMAT: Outcome.FAILED,
        Rule.MARKS: Outcome.FAILED,
        Rule.INVISIBLE: Outcome.FAILED,
        Rule.IMPORTS: Outcome.FAILED,
        Rule.CALLS: Outcome.FAILED,
        Rule.FOREIGN: Outcome.FAILED,
        Rule.OUTSIDE: Outcome.FAILED,
        Rule.WRITES: Outcome.FAILED,
        Rule.METRIC: Outcome.FAILED,
        Rule.EVALUATION: Outcome.FOR_A_PERSON,
        Rule.SEEDS: Outcome.FOR_A_PERSON,
        Rule.LEARNING_RATE: Outcome.FOR_A_PERSON,
        Rule.EPOCHS: Outcome.FOR_A_PERSON,
        Rule.TRAINING: Outcome.FOR_A_PERSON,
        Rule.WEIGHTS: Outcome.FOR_A_PERSON,
        Rule.PRECISION: Outcome.FOR_A_PERSON,
        Rule.CLIPPING: Outcome.FOR_A_PERSON,
        Rule.TRAINED_ONCE: Outcome.FOR_A_PERSON,
        Rule.STAND_IN: Outcome.FOR_A_PERSON,
        Rule.BESIDE: Outcome.FOR_A_PERSON,
    }
)
"""Rule -> to whom it goes when it is broken."""


@dataclass(frozen=True)
class Broken:
    """A rule that is broken.

    Attributes:
        rule: The rule.
        text: By what, in words.
        expected: What the base has.
        found: What the change has.
    """

    rule: Rule
    text: str
    expected: str = ""
    found: str = ""

    @property
    def reason(self) -> Reason:
        """It as a reason of a verdict."""
        return Reason(text=self.text, claim=self.rule.value, expected=self.expected, found=self.found)


@dataclass(frozen=True)
class Change:
    """A file before and after, as rules look at it.

    Attributes:
        diff: What changes, by lines.
        before: Its text; empty if it is new.
        after: Its text; empty if it goes.
    """

    diff: FileDiff
    before: str
    after: str

    @property
    def path(self) -> str:
        """The file."""
        return self.diff.path

    @property
    def python(self) -> bool:
        """Whether it is a Python source."""
        return self.path.endswith((".py", ".pyi"))

    @cached_property
    def old(self) -> ast.Module:
        """Its tree before; an empty one where there is none."""
        return self._tree(self.before)

    @cached_property
    def new(self) -> ast.Module:
        """Its tree after."""
        return self._tree(self.after)

    def _tree(self, text: str) -> ast.Module:
        if self.python:
            try:
                return parsed(text, self.path)
            except SyntaxError:
                pass
        return ast.Module(body=[], type_ignores=[])


@dataclass(frozen=True)
class Named:
    """What a variant is about, by name, so that a rule lets it change.

    Attributes:
        names: The names.
        columns: Whether it is about columns: then data reach the evaluation without them.
        settings_only: Whether it is about settings, and nothing else.
    """

    names: frozenset[str]
    columns: bool = False
    settings_only: bool = False

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and bool(name) and _plain(name) in self.names


def named_by(variant: Variant) -> Named:
    """Return the names that a variant's things, settings and witnesses are about."""
    names = [thing.name for thing in variant.things] + list(variant.settings)
    for claim in variant.witnesses:
        if isinstance(claim, CallGone | CallChanged | GroupValue | ModuleValue | SettingValue):
            names.append(claim.name)
        elif isinstance(claim, ColumnsGone):
            names += claim.columns
    columns = any(isinstance(claim, ColumnsGone) for claim in variant.witnesses)
    columns = columns or any(thing.what is What.COLUMNS for thing in variant.things)
    only = bool(variant.witnesses) and all(isinstance(claim, SettingValue) for claim in variant.witnesses)
    return Named(frozenset(map(_plain, names)), columns, only)


def _plain(name: str) -> str:
    return name.replace(":", ".").rpartition(".")[2].lstrip("-").replace("-", "_").lower()
