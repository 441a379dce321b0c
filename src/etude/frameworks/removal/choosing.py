"""The stand-in for a module: a rule for each output of each of its calls, in evaluation and in training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from etude.core.errors import RefusalCode, RemovalRefused
from etude.frameworks.removal.edits import CallRule, Fit, StandIn
from etude.frameworks.removal.merging import for_both, merged
from etude.frameworks.removal.names import under
from etude.frameworks.removal.nested import Path, leaves, template
from etude.frameworks.removal.order import Chooser
from etude.frameworks.removal.reach import Reach
from etude.frameworks.removal.rules import Choice, NoRule
from etude.frameworks.removal.standin import signature
from etude.frameworks.removal.trace import Call
from etude.frameworks.removal.tracing import Mode


@dataclass(frozen=True)
class Leaving:
    """A module that is taken out, as its runs show it.

    Attributes:
        path: Of the module, as it is called.
        what: As it is named to people.
        modes: The runs.
        calls: Its calls in each.
        reach: What depends on it in each.
        learned: Whether an adapter may be learned where nothing else fits.
    """

    path: str
    what: str
    modes: Sequence[Mode]
    calls: Sequence[list[Call]]
    reach: Sequence[Reach]
    learned: bool

    def stand_in(
        self, *, level: int, starved: int = 0, learned: bool = False, dropped: frozenset[Path] = frozenset()
    ) -> tuple[StandIn, list[list[Choice]]]:
        """Choose a rule for each output of each call; return the stand-in that follows them.

        Args:
            level: Where another width may come out; see ``rules.LAST_LEVEL``.
            starved: What must go on having an effect, as bits.
            learned: Whether adapters are learned.
            dropped: Results whose branches go with all that is left in them.

        Raises:
            RemovalRefused: Nothing can stand in.
        """
        found: list[dict[Any, CallRule]] = []
        choices: list[list[Choice]] = []
        layers: list[tuple[str, int, int]] = []
        for mode, of_mode, reach in zip(self.modes, self.calls, self.reach, strict=True):
            own = frozenset(n for name, n in mode.trace.parameters.items() if under(name, self.path))
            chosen: list[Choice] = []
            rules: dict[Any, CallRule] = {}
            chooser = Chooser(
                mode.flow,
                mode.joins,
                mode.meaning,
                of_mode,
                own,
                level=level,
                learned=learned,
                starved=starved,
                besides=reach.controls,
                dropped=dropped,
            )
            for call in of_mode:
                rule, its = self._call_rule(call, chooser)
                chosen += its
                layers += _layers(its, mode, call)
                if (same := merged(rules.setdefault(rule.shapes, rule), rule)) is None:
                    raise RemovalRefused(
                        RefusalCode.DOES_NOT_FIT,
                        self.what,
                        "it is called in two ways that would need different stand-ins and look alike.",
                    )
                rules[rule.shapes] = same
            choices.append(chosen)
            found.append(rules)
        return StandIn(self.path, for_both(*found), tuple(dict.fromkeys(layers))), choices

    def starved(self, choices: list[list[Choice]]) -> int:
        """Return what would have no effect any more though it should, as bits of the run that says so first."""
        lost = (reach.starved(chosen) for reach, chosen in zip(self.reach, choices, strict=True))
        return next((bits for bits in lost if bits), 0)

    def doubled(self, choices: list[list[Choice]]) -> str:
        """Return the operation of which one side would repeat the other one; empty if there is none."""
        found = (reach.doubled(chosen) for reach, chosen in zip(self.reach, choices, strict=True))
        return next((name for name in found if name), "")

    def droppable(self) -> list[frozenset[Path]]:
        """Return results whose branches may go: one, beginning with the last, or all of them."""
        paths = dict.fromkeys(path for of_mode in self.calls for call in of_mode for path in call.outputs)
        return list(dict.fromkeys([*(frozenset([path]) for path in reversed(paths)), frozenset(paths)]))

    def idle(self, choices: list[list[Choice]]) -> set[str]:
        """Return the names of parameters that stay and have no effect any more; refuse where more than that happens."""
        found: set[str] = set()
        for reach, chosen in zip(self.reach, choices, strict=True):
            reach.refuse(chosen, self.what)
            found |= {value.name for value in reach.lost(chosen)}
        return found

    def unread(self, choices: list[list[Choice]]) -> list[str]:
        """Return paths of activations, poolings and the like without parameters that have no effect any more."""
        found = [path for reach, chosen in zip(self.reach, choices, strict=True) for path in reach.unread(chosen)]
        return list(dict.fromkeys(found))

    def _call_rule(self, call: Call, chooser: Chooser) -> tuple[CallRule, list[Choice]]:
        chosen: list[Choice] = []
        where: dict[Path, int] = {}
        try:
            for path in call.outputs:
                try:
                    choice = chooser.choose(call, path)
                except NoRule as none:
                    if none.code != "NO_PATH" or not self.learned:
                        raise
                    choice = replace(chooser, learned=True).choose(call, path)
                where[path] = len(chosen)
                chosen.append(choice)
            passed = {id(leaf): path for path, leaf in leaves(call.given) if not isinstance(leaf, int | str | float)}
            form = template(call.result, where.__getitem__, lambda value: passed.get(id(value)))
        except NoRule as none:
            raise RemovalRefused(RefusalCode[none.code], self.what, str(none)) from None
        except TypeError as strange:
            why = f"{strange}, for which nothing can stand in."
            raise RemovalRefused(RefusalCode.UNTRACEABLE, self.what, why) from None
        return CallRule(signature(call.given), tuple(choice.rule for choice in chosen), form), chosen


def _layers(chosen: list[Choice], mode: Mode, call: Call) -> list[tuple[str, int, int]]:
    """Return the dense layers that learned adapters need: name, inputs, outputs."""
    found = []
    for choice, n in zip(chosen, call.outputs.values(), strict=True):
        if isinstance(choice.rule, Fit) and choice.rule.learned:
            source = choice.rule.sources[0]
            shape = mode.trace.values[choice.reads[0]].shape
            n_in = 1 if source.axes.width == len(shape) else shape[source.axes.width]
            found.append((choice.rule.learned, n_in, mode.trace.values[n].shape[choice.rule.axes.width]))
    return found
