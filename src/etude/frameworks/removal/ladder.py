"""The ladder: one component after the other is taken out of a copy, each on the first rung that fits.

A rung is left for the next one only where shapes do not fit. Where what fits is not what was meant, the answer is a
refusal: repairs that are tried until the checks are green are no repairs.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from torch import nn

from etude.core.errors import RefusalCode, RemovalRefused
from etude.core.removal import Layers, Part
from etude.core.rungs import Rung
from etude.core.text import count
from etude.frameworks.removal.apply import carry_out, identity_weight
from etude.frameworks.removal.edits import (
    Attribute,
    CallRule,
    Drop,
    Edit,
    Fit,
    Freeze,
    Plan,
    Resize,
    ResizeTensor,
    StandIn,
)
from etude.frameworks.removal.flow import values, within
from etude.frameworks.removal.merging import for_both, merged
from etude.frameworks.removal.nested import Path, leaves, template
from etude.frameworks.removal.parts import part_edits
from etude.frameworks.removal.resize import Unresizable, resized_tensors
from etude.frameworks.removal.rules import Choice, Chooser, NoRule
from etude.frameworks.removal.standin import signature
from etude.frameworks.removal.trace import Call
from etude.frameworks.removal.tracing import Mode, Runs
from etude.frameworks.removal.widths import DEAR, Widened, widen
from etude.frameworks.removal.words import in_words, parameters_in_words

MOST_REBUILT: Final = 0.2
"""No more than this share of what is left may be drawn anew: more would not leave arms that can be compared."""


class Ladder:
    """One plan in the making: step by step, each on a copy without what went before."""

    def __init__(self, runs: Runs, model: nn.Module, layers: Layers, known: set[Any], wholes: list[str]) -> None:
        self._wholes = wholes
        self._runs, self._model, self._layers, self._known = runs, model, layers, known
        self._edits: list[Edit] = []
        self._words: list[str] = []
        self._notes: list[str] = list(runs.notes)
        self._rung = Rung.IDENTITY
        self._idle: set[str] = set()
        self._removed: list[str] = []
        self._coupled = False
        self._modes = runs.modes

    # --- whole modules ----------------------------------------------------------------------------

    def take_out(self, path: str) -> None:
        """Take a module out of what is left by now."""
        with self._so_far() as modes:
            step = self._step(path, modes, path)
            behind = self._behind(self._canonical(path), modes[-1])
        if isinstance(step, _Children):
            for child in reversed(step.used):  # what the last ones used of the first ones is then not used any more
                self.take_out(child)
            for child in step.idle:
                self._add([Drop(child)], [], Widened())
        else:
            self._add(*step)
            along = self._layers.along
            kept = [p for p in behind if p not in along and p not in self._wholes]
            at = next((n for n, word in enumerate(self._words) if word.startswith(f"{path} removed")), -1) + 1
            self._words[at:at] = [f"{p} kept" for p in kept if f"{p} kept" not in self._words]

    def _behind(self, path: str, mode: Mode) -> list[str]:
        """Return what directly follows a module: it stays, unless it is taken along, and that is said."""
        calls = mode.trace.of(path)
        outputs = [n for call in calls for n in call.outputs.values() if mode.flow.used_outside(n, calls)]
        if len(outputs) != 1:
            return []

        def plain(other: str) -> bool:
            module = self._model.get_submodule(other)
            small = all(p.ndim < 2 for p in module.parameters())  # noqa: PLR2004 - a weight that mixes has two axes
            return bool(other) and not list(module.children()) and small

        return mode.flow.followers(outputs[0], calls, plain)

    def _step(self, path: str, modes: list[Mode], what: str) -> tuple[list[Edit], list[Choice], Widened] | _Children:
        calls = [mode.trace.of(self._canonical(path)) for mode in modes]
        if any(call.outputs for of_mode in calls for call in of_mode):
            return self._replaced(self._canonical(path), modes, calls, what)
        module = self._model.get_submodule(path)
        children = [f"{path}.{name}" for name, _ in module.named_children()]
        used = [child for child in children if self._is_used(child, modes)]
        if self._read_without_call(path, modes, used):
            return self._frozen(path, module, what)
        if not used:
            raise RemovalRefused(
                RefusalCode.DEAD, what, "it is never used with this example, so nothing would change without it."
            )
        return _Children(used, [child for child in children if child not in used])

    def _replaced(
        self, path: str, modes: list[Mode], calls: list[list[Call]], what: str
    ) -> tuple[list[Edit], list[Choice], Widened]:
        """Climb the ladder for a module that is called."""
        self._not_elsewhere(path, modes, calls, what)
        if ".parametrizations." in f".{path}.":
            why = "it makes a weight, and gives no result that anything could stand in for."
            raise RemovalRefused(RefusalCode.WITHOUT_CALL, what, why)
        learned = self._layers.repair == "learned"
        failure = ""
        for level in (0, 1):
            starved = 0
            for _ in range(2):
                edit, choices = self._stand_in(path, modes, calls, level=level, starved=starved, what=what)
                lost = self._lost(path, modes, calls, choices)
                if not lost or starved:
                    break
                starved = lost
            try:
                widened = self._fits(edit, modes, calls, choices)
            except Unresizable as why:
                failure = str(why)
                continue
            self._reaches(path, modes, calls, choices, what)
            return [edit, *widened.edits], [c for group in choices for c in group], widened
        if learned:
            edit, choices = self._stand_in(path, modes, calls, level=1, starved=0, what=what, learned=True)
            widened = self._fits(edit, modes, calls, choices)
            return [edit], [c for group in choices for c in group], widened
        raise RemovalRefused(_code(failure), what, f"{failure}.")

    def _stand_in(
        self,
        path: str,
        modes: list[Mode],
        calls: list[list[Call]],
        *,
        level: int,
        starved: int,
        what: str,
        learned: bool = False,
    ) -> tuple[StandIn, list[list[Choice]]]:
        """Choose a rule for each output of each call; return the stand-in that follows them."""
        found: list[dict[Any, CallRule]] = []
        choices: list[list[Choice]] = []
        layers: list[tuple[str, int, int]] = []
        for mode, of_mode in zip(modes, calls, strict=True):
            own = frozenset(n for name, n in mode.trace.parameters.items() if _under(name, path))
            chosen: list[Choice] = []
            rules: dict[Any, CallRule] = {}
            chooser = Chooser(mode.trace, mode.flow, mode.meaning, of_mode, own, level, learned, starved)
            for call in of_mode:
                rule, its = self._call_rule(call, chooser, what, learned=learned)
                chosen += its
                layers += _layers(its, mode, call)
                known = rules.setdefault(rule.shapes, rule)
                if (same := merged(known, rule)) is None:
                    raise RemovalRefused(
                        RefusalCode.DOES_NOT_FIT,
                        what,
                        "it is called in two ways that would need different stand-ins and look alike.",
                    )
                rules[rule.shapes] = same
            choices.append(chosen)
            found.append(rules)
        return StandIn(path, for_both(*found), tuple(dict.fromkeys(layers))), choices

    def _call_rule(self, call: Call, chooser: Chooser, what: str, *, learned: bool) -> tuple[CallRule, list[Choice]]:
        chosen: list[Choice] = []
        where: dict[Path, int] = {}
        try:
            for path in call.outputs:
                try:
                    choice = chooser.choose(call, path)
                except NoRule as none:
                    if none.code != "NO_PATH" or self._layers.repair != "learned":
                        raise
                    chooser.learned = True
                    choice = chooser.choose(call, path)
                    chooser.learned = learned
                where[path] = len(chosen)
                chosen.append(choice)
            passed = {id(leaf): path for path, leaf in leaves(call.given) if not isinstance(leaf, int | str | float)}
            form = template(call.result, where.__getitem__, lambda value: passed.get(id(value)))
        except NoRule as none:
            raise RemovalRefused(RefusalCode[none.code], what, str(none)) from None
        except TypeError as strange:
            raise RemovalRefused(RefusalCode.UNTRACEABLE, what, f"{strange}, for which nothing can stand in.") from None
        return CallRule(signature(call.given), tuple(choice.rule for choice in chosen), form), chosen

    def _fits(self, edit: StandIn, modes: list[Mode], calls: list[list[Call]], choices: list[list[Choice]]) -> Widened:
        """Run the copy with a stand-in; raise Unresizable if it does not run or gives other shapes."""
        widened = Widened()
        if any(choice.width for group in choices for choice in group):
            widened = self._widened([edit], modes, calls)
        parent = self._model.get_submodule(edit.path.rpartition(".")[0])
        wide = any(choice.width for group in choices for choice in group)
        key = None if wide else (type(self._model.get_submodule(edit.path)), type(parent), edit.calls)
        if key is not None and key in self._known and not self._edits:
            return widened
        with self._runs.trying():
            for each in (edit, *widened.edits):
                carry_out(self._model, each, seed=0)
            for mode in modes:
                try:
                    result = self._runs.run(train=mode.train)
                except Exception as broken:
                    text = str(broken).strip().splitlines()
                    raise Unresizable(
                        f"without it the model raises {type(broken).__name__}: {text[0][:200] if text else ''}"
                    ) from None
                _same_shapes(result, mode)
        if key is not None:
            self._known.add(key)
        return widened

    def _widened(self, first: list[Edit], modes: list[Mode], calls: list[list[Call]], *, part: bool = False) -> Widened:
        """Find what another width takes, in evaluation and then in training, where further layers may read it."""
        found = Widened()
        for mode, of_mode in zip(modes, calls, strict=True):
            if not of_mode:
                continue
            done = [*first, *found.edits]
            step = widen(
                self._model,
                mode.trace,
                done,
                [] if part else of_mode,
                functools.partial(self._runs.run, train=mode.train),
                affordable=functools.partial(self._affordable, besides=found.edits),
                a_try=self._runs.trying,
                tied=self._tied(),
            )
            found = Widened([*found.edits, *step.edits], coupled=found.coupled or step.coupled)
        return found

    # --- what must hold ---------------------------------------------------------------------------

    def _lost(self, path: str, modes: list[Mode], calls: list[list[Call]], choices: list[list[Choice]]) -> int:
        """Return parameters of other layers that mix and would have no effect any more, as bits of the last mode."""
        for mode, of_mode, chosen in zip(modes, calls, choices, strict=True):
            lost = self._lost_in(path, mode, of_mode, chosen)
            bits = self._content_lost(mode, of_mode, chosen)
            for value in lost:
                if len(value.shape) > 1:
                    bits |= 1 << value.n
            if bits:
                return bits
        return 0

    def _content_lost(self, mode: Mode, calls: list[Call], chosen: list[Choice]) -> int:
        """Return the content inputs, as bits, if the results would depend on none of them any more."""
        if not calls or not mode.flow.reached() & mode.flow.content_bits:
            return 0
        after = mode.flow.reached(_replaced_values(calls, chosen))
        return 0 if after & mode.flow.content_bits else mode.flow.content_bits

    def _lost_in(self, path: str, mode: Mode, calls: list[Call], chosen: list[Choice]) -> list[Any]:
        if not calls:
            return []
        before = mode.flow.reached()
        after = mode.flow.reached(_replaced_values(calls, chosen))
        gone = [v for v in values(before & ~after, mode.trace) if v.kind == "parameter"]
        return [v for v in gone if not _under(v.name, path)]

    def _reaches(
        self, path: str, modes: list[Mode], calls: list[list[Call]], choices: list[list[Choice]], what: str
    ) -> None:
        """Refuse what cuts the results off from the inputs, or other layers from the results."""
        for mode, of_mode, chosen in zip(modes, calls, choices, strict=True):
            if not of_mode:
                continue
            if self._content_lost(mode, of_mode, chosen):
                raise RemovalRefused(
                    RefusalCode.NO_PATH, what, "what the model gives would no longer depend on what goes in."
                )
            lost = self._lost_in(path, mode, of_mode, chosen)
            mixing = [v.name for v in lost if len(v.shape) > 1]
            if mixing:
                shown = ", ".join(mixing[:3]) + (", ..." if len(mixing) > 3 else "")  # noqa: PLR2004
                raise RemovalRefused(RefusalCode.NO_PATH, what, f"{shown} would no longer have any effect.")
            self._idle |= {v.name for v in lost}

    def _not_elsewhere(self, path: str, modes: list[Mode], calls: list[list[Call]], what: str) -> None:
        """Refuse a module whose parameters are used by others without calling it."""
        for mode, of_mode in zip(modes, calls, strict=True):
            if not of_mode:
                continue
            for name, n in mode.trace.parameters.items():
                own = _under(name, path) and self._owners(name) <= 1 and mode.trace.values[n].kind == "parameter"
                if own and any(not within(op, of_mode) for op in mode.flow.consumers[n]):
                    raise RemovalRefused(RefusalCode.WITHOUT_CALL, what, f"{name} is also used without it.")

    def _owners(self, name: str) -> int:
        tensor = dict(self._model.named_parameters(remove_duplicate=False)).get(name)
        return sum(p is tensor for _, p in self._model.named_parameters(remove_duplicate=False))

    # --- modules that are never called ------------------------------------------------------------

    def _is_used(self, path: str, modes: list[Mode]) -> bool:
        canonical = self._canonical(path)
        if any(_under(call.path, canonical) for mode in modes for call in mode.trace.calls):
            return True
        return bool(self._read_without_call(path, modes, []))

    def _read_without_call(self, path: str, modes: list[Mode], besides: list[str]) -> list[str]:
        """Return names of a module's parameters that are used, though nothing that has them is called."""
        found = []
        for mode in modes:
            for name, n in mode.trace.parameters.items():
                here = _under(name, path) and not any(_under(name, child) for child in besides)
                if here and mode.flow.consumers[n] and mode.trace.values[n].kind == "parameter":
                    found.append(name)
        return found

    def _frozen(self, path: str, module: nn.Module, what: str) -> tuple[list[Edit], list[Choice], Widened]:
        """Put the identity into the place of a square weight that is used without a call."""
        weight: Any = getattr(module, "weight", None)
        if weight is None or any(module.children()) or identity_weight(module, weight) is None:
            raise RemovalRefused(
                RefusalCode.WITHOUT_CALL, what, "its parameters are used without calling it, so nothing can stand in."
            )
        if f"{path}.weight" in self._tied():
            raise RemovalRefused(RefusalCode.TIED, what, "others share its weight, and it is used without a call.")
        square = weight.ndim != 2 or weight.shape[0] == weight.shape[1]  # noqa: PLR2004 - as dense layers have
        self._rung = max(self._rung, Rung.IDENTITY if square else Rung.ADAPTER)
        edit = Freeze(path)
        with self._runs.trying():
            carry_out(self._model, edit, seed=0)
            for mode in self._modes:
                try:
                    self._runs.run(train=mode.train)
                except Exception as broken:
                    raise RemovalRefused(RefusalCode.WITHOUT_CALL, what, f"without it: {broken}.") from None
        return [edit], [], Widened()

    # --- parts ------------------------------------------------------------------------------------

    def cut(self, part: Part) -> None:
        """Take out some outputs of a layer."""
        with self._so_far() as modes:
            first = part_edits(self._model, part, modes[0].trace)
            path = part.path
            layers = [edit.path for edit in first if isinstance(edit, Resize)]
            if not any(mode.trace.of(layer) for mode in modes for layer in layers):
                raise RemovalRefused(RefusalCode.DEAD, path, "it is never called with this example.")
            try:
                widened = self._widened(list(first), modes, [mode.trace.of(layers[0]) for mode in modes], part=True)
            except Unresizable as why:
                raise RemovalRefused(_code(str(why)), path, f"{why}.") from None
            self._words.append(f"{count(len(part.indices), part.of.removesuffix('s'))} of {path} removed")
            self._add([*first, *widened.edits], [], Widened(widened.edits, coupled=True), said=len(first))

    # --- together ---------------------------------------------------------------------------------

    @contextmanager
    def _so_far(self) -> Iterator[list[Mode]]:
        """Give the runs of the model without what has been taken out already."""
        if not self._edits:
            yield self._modes
            return
        with ExitStack() as stack:
            stack.enter_context(self._runs.trying())
            for edit in self._edits:
                carry_out(self._model, edit, seed=0)
            self._modes = self._runs.again()
            yield self._modes

    def _add(self, edits: list[Edit], choices: list[Choice], widened: Widened, *, said: int = 0) -> None:
        why = [choice.why for choice in choices]
        words = [in_words(edit, why) for edit in edits[said:]]
        for n, edit in enumerate(edits[said:]):
            if isinstance(edit, StandIn) and edit.path in self._layers.along:
                words[n] = words[n].replace(f"{edit.path} removed", f"{edit.path} after it removed", 1)
        self._words += words
        self._edits += edits
        self._rung = max([self._rung, *(c.rung for c in choices if c.rung is not None)])
        if widened.edits:
            self._rung = max(self._rung, Rung.WIDTH if widened.coupled else Rung.SPLICE)

    def plan(self) -> Plan:
        """Return the plan."""
        wholes = self._wholes
        before = _count(self._model)
        inside = [
            edit for edit in self._edits if isinstance(edit, Resize) and any(_under(edit.path, p) for p in wholes)
        ]
        edits = tuple(edit for edit in self._edits if edit not in inside)
        edits += tuple(self._slow_ways(edits))
        with self._runs.trying():
            drawn = [name for edit in edits for name in carry_out(self._model, edit, seed=0)]
            after = _count(self._model)
            kept = {name for name, _ in self._model.named_parameters()}
        twice = _twice(edits)
        words = [in_words(edit) for edit in (*inside, *twice)]
        changes = [word for word in self._words if word not in words]
        changes += [in_words(edit) for edit in dict.fromkeys(twice.values())]
        return Plan(
            layers=self._layers,
            edits=edits,
            rung=self._rung,
            changes=(*sorted(changes, key=self._place), parameters_in_words(before, after)),
            before=before,
            after=after,
            fake=self._runs.fake,
            rebuilt=tuple(name for name in drawn if name in kept),
            idle=tuple(sorted(self._idle & kept)),
            notes=tuple(self._notes),
        )

    def _place(self, word: str) -> int:
        """Say where a word stands: what goes, what goes along, what stays, and then what that takes."""
        if " after it removed" in word:
            return 1
        if word.endswith(" kept"):
            return 2
        return 0 if " removed" in word else 3

    def _slow_ways(self, edits: tuple[Edit, ...]) -> Iterator[Edit]:
        """Switch off the fast way of torch's transformers, which computes with weights and calls no submodules."""
        touched = [edit.path for edit in edits if not isinstance(edit, ResizeTensor)]
        for path, module in self._model.named_modules():
            if any(_under(other, path) and other != path for other in touched):
                if isinstance(module, nn.TransformerEncoder):
                    yield Attribute(path, "use_nested_tensor", value=False)
                elif isinstance(module, nn.TransformerEncoderLayer):
                    yield Attribute(path, "activation_relu_or_gelu", 0)

    def _affordable(self, edits: Iterable[Edit], besides: Iterable[Edit] = ()) -> bool:
        """Say whether so much may be drawn anew, together with what is already."""
        drawn = 0
        for edit in {*edits, *besides, *self._edits}:
            if isinstance(edit, Resize) and edit.keep is None:
                module = self._model.get_submodule(edit.path)
                for name, axis in resized_tensors(module, edit).items():
                    tensor = getattr(module, name, None)
                    if tensor is not None and tensor.ndim and name in dict(module.named_parameters(recurse=False)):
                        drawn += tensor.numel() // max(tensor.shape[axis], 1) * edit.size
            elif (
                isinstance(edit, ResizeTensor)
                and edit.keep is None
                and edit.name in dict(self._model.named_parameters())
            ):
                tensor = self._model.get_parameter(edit.name)
                drawn += tensor.numel() // max(tensor.shape[edit.axis], 1) * edit.size
        gone = {edit.path for edit in {*edits, *besides, *self._edits} if isinstance(edit, StandIn)}
        left = sum(p.numel() for name, p in self._model.named_parameters() if not any(_under(name, g) for g in gone))
        return drawn <= MOST_REBUILT * max(left, 1)

    def _tied(self) -> frozenset[str]:
        owners: dict[int, list[str]] = {}
        for name, parameter in self._model.named_parameters(remove_duplicate=False):
            owners.setdefault(id(parameter), []).append(name)
        return frozenset(name for names in owners.values() if len(names) > 1 for name in names)

    def _canonical(self, path: str) -> str:
        """Return the name under which a module is called, of one that has several."""
        module = self._model.get_submodule(path)
        return next((name for name, other in self._model.named_modules() if other is module), path)


@dataclass(frozen=True)
class _Children:
    """What a module that is never called has: children that are used, and others."""

    used: list[str]
    idle: list[str]


def _replaced_values(calls: list[Call], chosen: list[Choice]) -> dict[int, tuple[int, ...]]:
    """Return what each output is computed from, once rules stand for them."""
    outputs = [n for call in calls for n in call.outputs.values()]
    return {
        n: choice.reads
        for n, choice in zip(outputs, chosen, strict=True)
        if not (len(choice.reads) == 1 and choice.reads[0] == n)
    }


def _layers(chosen: list[Choice], mode: Mode, call: Call) -> list[tuple[str, int, int]]:
    found = []
    for choice, n in zip(chosen, call.outputs.values(), strict=True):
        if isinstance(choice.rule, Fit) and choice.rule.learned:
            source = choice.rule.sources[0]
            shape = mode.trace.values[choice.reads[0]].shape
            n_in = 1 if source.axes.width == len(shape) else shape[source.axes.width]
            found.append((choice.rule.learned, n_in, mode.trace.values[n].shape[choice.rule.axes.width]))
    return found


def _code(why: str) -> RefusalCode:
    """Return the refusal for what did not fit."""
    return RefusalCode.TOO_MUCH if why == DEAR else RefusalCode.TIED if "is shared" in why else RefusalCode.DOES_NOT_FIT


def _twice(edits: tuple[Edit, ...]) -> dict[Edit, Edit]:
    """Return the edits that give a layer a width which another one changes again -> both as one."""
    of: dict[tuple[str, str], list[Resize]] = {}
    for edit in edits:
        if isinstance(edit, Resize):
            of.setdefault((edit.path, edit.side), []).append(edit)
    found: dict[Edit, Edit] = {}
    for same in of.values():
        drawn = any(edit.keep is None for edit in same)
        both = msgspec.structs.replace(same[-1], before=same[0].before, keep=None if drawn else same[-1].keep)
        found |= dict.fromkeys(same, both) if len(same) > 1 else {}
    return found


def _same_shapes(result: Any, mode: Mode) -> None:
    found = {path: leaf for path, leaf in leaves(result) if hasattr(leaf, "shape")}
    for path, n in mode.trace.calls[0].outputs.items():
        value = mode.trace.values[n]
        if path not in found or tuple(found[path].shape) != value.shape or found[path].dtype != value.dtype:
            now = tuple(found[path].shape) if path in found else "nothing"
            raise Unresizable(f"the model would give {now} instead of {value.shape}")


def _under(name: str, path: str) -> bool:
    return name == path or name.startswith(f"{path}.")


def _count(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())
