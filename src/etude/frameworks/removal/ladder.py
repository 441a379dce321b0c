"""The ladder: one component after the other is taken out of a copy, each on the first rung that fits.

A rung is left for the next one only where shapes do not fit. Where what fits is not what was meant, the answer is a
refusal: repairs that are tried until the checks are green are no repairs.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from torch import nn

from etude.core.errors import RefusalCode, RemovalRefused
from etude.core.removal import Layers, Part
from etude.core.rungs import Rung
from etude.core.text import count
from etude.frameworks.removal.apply import carry_out
from etude.frameworks.removal.assembling import assembled
from etude.frameworks.removal.choices import constants_by_use, makes_choice
from etude.frameworks.removal.choosing import Leaving
from etude.frameworks.removal.climbing import Climb, Step
from etude.frameworks.removal.constants import channels_in_words
from etude.frameworks.removal.edits import Drop, Edit, FewerHeads, Fill, Fit, Freeze, Plan, Resize, StandIn
from etude.frameworks.removal.fitting import Fitting, code_of
from etude.frameworks.removal.heads import Cut
from etude.frameworks.removal.names import canonical, is_small, tied, under
from etude.frameworks.removal.numbering import Numbering
from etude.frameworks.removal.operations import SPLITS
from etude.frameworks.removal.parts import check_groups, part_cuts
from etude.frameworks.removal.reach import Reach
from etude.frameworks.removal.refitting import is_fixed, refitted, said_of
from etude.frameworks.removal.repeats import Repeats
from etude.frameworks.removal.resize import Unresizable
from etude.frameworks.removal.tracing import Mode, Runs
from etude.frameworks.removal.uncalled import Children, Read, uncalled
from etude.frameworks.removal.unparametrized import unparametrized
from etude.frameworks.removal.widths import Widened
from etude.frameworks.removal.words import in_words

NEVER_CALLED: Final = (
    "it is never called with this example. Leave it out, or pass an example with which the model calls it."
)


class Ladder:
    """One plan in the making: step by step, each on a copy without what went before.

    Args:
        runs: Runs of a copy of the model.
        layers: What is taken out.
        repeats: What earlier plans for the same model found.
        numbering: Numbers its blocks.
        wholes: Paths of the modules that go, with those that are taken along.
    """

    def __init__(self, runs: Runs, layers: Layers, repeats: Repeats, numbering: Numbering, wholes: list[str]) -> None:
        self._runs, self._model = runs, runs.copy.model
        self._layers, self._wholes = layers, wholes
        self._learned = layers.repair == "learned"
        self._fitting, self._numbering = Fitting(runs, repeats, wholes), numbering
        self._edits: list[Edit] = []
        self._words: list[str] = []
        self._rungs: list[tuple[str, Rung]] = [("", Rung.IDENTITY)]  # with the path of what stands in, or none
        self._idle: set[str] = set()
        self._unread: dict[str, None] = {}
        self._notes: list[str] = [*runs.notes]

    def plan(self) -> Plan:
        """Return the plan."""
        if len(self._wholes) > 1:
            self._refit()
        numbers, said = self._numbering.anew(self._wholes, self._edits)
        gone = [edit.path for edit in self._edits if isinstance(edit, StandIn | Drop | Freeze)]
        changed = [edit for edit in self._edits if isinstance(edit, StandIn | Freeze)]
        adapted = [edit.path for edit in changed if _changes_channels(edit, self._model)]
        if self._read_each_other(adapted):
            several = ", ".join(adapted)
            why = f"each of {several} would get other channels than it gave, and nobody means what these make together."
            raise RemovalRefused(RefusalCode.DOES_NOT_FIT, ", ".join(self._wholes), f"{why} Take away one of them.")
        words = [word for word in self._words if word not in {f"{path} kept" for path in gone}]
        words += [f"no longer reached: {path}" for path in self._unread if path not in gone] + [said] * bool(said)
        edits = [*self._edits, *numbers]
        return assembled(
            self._runs,
            self._layers,
            self._wholes,
            edits,
            words,
            max(rung for _, rung in self._rungs),
            self._idle,
            self._notes,
        )

    def _refit(self) -> None:
        """Let each adapter be for what reaches it now that all has gone."""
        adapters = {n: edit for n, edit in enumerate(self._edits) if isinstance(edit, StandIn) and is_fixed(edit)}
        if not adapters:
            return
        with self._so_far() as modes:
            traces = [mode.trace for mode in modes]
        for n, edit in adapters.items():
            calls = [call for trace in traces for call in trace.of(canonical(self._model, edit.path))]
            made, said = refitted(edit, calls)
            self._edits[n] = made
            self._words = [said_of(word, edit.path, said, is_same=not made.adapts) for word in self._words]
            if not is_fixed(made):
                self._rungs = [(path, rung) for path, rung in self._rungs if path != edit.path]

    def _read_each_other(self, paths: list[str]) -> bool:
        """Say whether one of several modules reads what came of another one; heads beside each other do not."""
        for mode in self._runs.modes:
            calls = {path: mode.trace.of(canonical(self._model, path)) for path in paths}
            for one, two in itertools.permutations(paths, 2):
                gave = [n for call in calls[one] for n in call.outputs.values()]
                reads = [n for call in calls[two] for n in call.inputs.values()]
                if any(mode.flow.is_ancestor(a, b) for a in gave for b in reads):
                    return True
        return False

    # --- whole modules ----------------------------------------------------------------------------

    def take_out(self, path: str) -> None:
        """Take a module out of what is left by now."""
        with self._so_far() as modes:
            called = canonical(self._model, path)
            calls = [mode.trace.of(called) for mode in modes]
            step: Step | Children | Read
            weights = unparametrized(self._runs, modes, path)
            if weights is not None:
                step, behind = weights, []
            elif any(call.outputs for of_mode in calls for call in of_mode):
                reach = [Reach(self._model, called, mode, its) for mode, its in zip(modes, calls, strict=True)]
                leaving = Leaving(called, path, modes, calls, reach, self._learned)
                try:
                    step = Climb(self._model, leaving, self._fitting, self._edits).step()
                    behind = self._behind(called, modes[-1], step)
                except RemovalRefused as none:
                    step, behind = self._choosing(leaving, none), []
            else:
                step, behind = uncalled(self._runs, modes, path, path, learned=self._learned), []
        if isinstance(step, Children):
            for child in reversed(step.used):  # what the last ones used of the first ones is then not used any more
                self.take_out(child)
            self._add(Step([Drop(child) for child in step.idle]))
            if step.frozen is not None:
                self._rungs.append(("", Rung.ADAPTER))
                self._add(Step([step.frozen], why=step.why))
        elif isinstance(step, Read):
            self._rungs.append(("", step.rung))
            self._add(Step(step.edits, why=step.why))
        else:
            self._add(step)
            self._say_kept(path, behind)

    def _choosing(self, leaving: Leaving, none: RemovalRefused) -> Children:
        """Return what goes of a module that makes a choice, for which nothing can stand in; else refuse."""
        module, path = self._model.get_submodule(leaving.path), leaving.path
        if none.code is not RefusalCode.NOT_FLOAT or not makes_choice(leaving.modes, leaving.calls, path):
            raise none
        constants = constants_by_use(path, module, leaving.modes)
        layers = [name for name, child in module.named_children() if next(child.parameters(), None) is not None]
        if constants is None or (self._learned and constants):
            raise none
        frozen = Freeze(path, constants) if constants else None
        why = channels_in_words(frozen, module) if frozen else ""
        said = f"it goes on to choose, {why}" if why else "it goes on to choose"
        return Children([f"{path}.{name}" for name in layers], [], frozen, said)

    def _behind(self, path: str, mode: Mode, step: Step) -> list[str]:
        """Return what directly follows a module: it stays, unless it is taken along, and that is said.

        Functions go unsaid where a constant comes: they have nothing to work on.
        """
        calls = mode.trace.of(path)
        outputs = [n for call in calls for n in call.outputs.values() if mode.flow.used_outside(n, calls)]
        if len(outputs) != 1:
            return []

        def plain(other: str) -> bool:
            module = self._model.get_submodule(other)
            return bool(other) and not list(module.children()) and is_small(module)

        found = mode.flow.followers(outputs[0], calls, plain)
        stands = [edit for edit in step.edits if isinstance(edit, StandIn)]
        rules = [rule for edit in stands for call in edit.calls for rule in call.rules]
        is_constant = any(isinstance(rule, Fill) and not rule.unused for rule in rules)
        return [one for one in found if not (is_constant and one.endswith("()"))]

    def _say_kept(self, path: str, behind: list[str]) -> None:
        gone = (*self._layers.along, *self._wholes)
        kept = [p for p in behind if not any(under(p, other) for other in gone)]
        at = next((n for n, word in enumerate(self._words) if word.startswith(f"{path} removed")), -1) + 1
        self._words[at:at] = [f"{p} kept" for p in kept if f"{p} kept" not in self._words]

    # --- parts ------------------------------------------------------------------------------------

    def cut(self, part: Part) -> None:
        """Take out some outputs of a layer."""
        with self._so_far() as modes:
            failure = ""
            run = functools.partial(self._runs.run, train=False)
            try:
                for cut in part_cuts(self._model, part, run, modes[0].trace, tied(self._model)):
                    try:
                        self._cut(part, cut, modes)
                    except Unresizable as why:
                        failure = failure or str(why)
                    else:
                        return
            except Unresizable as why:
                failure = str(why)
            if not failure:
                raise RemovalRefused(RefusalCode.DEAD, part.path, NEVER_CALLED)
            raise RemovalRefused(code_of(failure), part.path, f"{failure}.")

    def _cut(self, part: Part, cut: Cut, modes: list[Mode]) -> None:
        """Take out parts in one way."""
        first = [*cut.edits, *cut.said]
        layers = [edit.path for edit in first if isinstance(edit, Resize | FewerHeads)]
        if not any(mode.trace.of(layer) for mode in modes for layer in layers):
            raise RemovalRefused(RefusalCode.DEAD, part.path, NEVER_CALLED)
        calls = [mode.trace.of(layers[0]) for mode in modes]
        widened = self._fitting.fit_part(first, modes, calls, self._edits)
        check_groups(self._model, widened.edits)
        for edit in widened.edits:
            if getattr(edit, "keep", ()) is None:
                if cut.exact:
                    raise Unresizable("more than its projections would have to change")
                raise Unresizable(self._not_told(part, edit, modes[0]))
        if cut.holds is not None:
            with self._runs.trying():
                for edit in (*first, *widened.edits):
                    carry_out(self._model, edit, seed=0)
                cut.holds()
        said = f"{count(len(part.indices), part.of.removesuffix('s'))} of {part.path} removed"
        self._words += [said, *([cut.words] if cut.words else [])]
        self._add(Step([*first, *widened.edits], [], Widened(widened.edits, coupled=True)), said=len(cut.edits))

    def _not_told(self, part: Part, edit: Edit, mode: Mode) -> str:
        """Say that it is not known what a layer would read of what is left, and which parts would do together."""
        what = getattr(edit, "path", "") or getattr(edit, "name", "")
        why = f"what {what} reads is made of several of its {part.of} together, and would have to be drawn anew"
        for call in mode.trace.of(part.path)[:1]:
            for value in call.outputs.values():
                for op in (mode.trace.ops[n] for n in mode.flow.consumers[value]):
                    pieces = 2 if op.name == "glu" else len(op.outputs)
                    width = mode.trace.values[value].shape[mode.meaning.width_axis(value)]
                    if op.name in {*SPLITS, "glu"} and pieces > 1 and width % pieces == 0:
                        each = width // pieces
                        first = sorted({n % each for n in part.indices})
                        both = [n + by * each for by in range(pieces) for n in first]
                        return f"{why}. {op.name} takes them apart: {both} would go together"
        return why

    # --- together ---------------------------------------------------------------------------------

    @contextmanager
    def _so_far(self) -> Iterator[list[Mode]]:
        """Give the runs of the model without what has been taken out already."""
        if not self._edits:
            yield self._runs.modes
            return
        with self._runs.trying() as carry:
            carry(self._edits)
            yield self._runs.again()

    def _add(self, step: Step, *, said: int = 0) -> None:
        why = [step.why, *(choice.why for choice in step.choices)]
        words = [in_words(edit, why) for edit in step.edits[said:]]
        for n, edit in enumerate(step.edits[said:]):
            if isinstance(edit, StandIn) and edit.path in self._layers.along:
                words[n] = words[n].replace(f"{edit.path} removed", f"{edit.path} after it removed", 1)
        self._words += words
        self._edits += step.edits
        path = next((edit.path for edit in step.edits if isinstance(edit, StandIn)), "")
        self._rungs += [(path, choice.rung) for choice in step.choices if choice.rung is not None]
        if step.widened.edits:
            self._rungs.append(("", Rung.WIDTH if step.widened.coupled else Rung.SPLICE))
        self._idle |= step.idle
        self._unread.update(dict.fromkeys(step.unread))
        self._notes += step.notes


def _changes_channels(edit: StandIn | Freeze, model: nn.Module) -> bool:
    if isinstance(edit, Freeze):
        return bool(channels_in_words(edit, model.get_submodule(edit.path)))
    return any(isinstance(rule, Fit) and rule.channels for call in edit.calls for rule in call.rules)
