"""Whether edits fit: the copy is run with them, and what does not have the right width is given it."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

from torch import nn

from etude.core.errors import RefusalCode
from etude.frameworks.removal.budget import DEAR, is_dear
from etude.frameworks.removal.edits import Edit, Resize, ResizeTensor, StandIn
from etude.frameworks.removal.fake import refuse_fakes
from etude.frameworks.removal.names import tied, under
from etude.frameworks.removal.nested import leaves
from etude.frameworks.removal.producers import Producers
from etude.frameworks.removal.repeats import Repeats
from etude.frameworks.removal.resize import Unresizable, resized_tensors
from etude.frameworks.removal.rules import Front
from etude.frameworks.removal.trace import Call
from etude.frameworks.removal.tracing import Mode, Runs, different
from etude.frameworks.removal.unrun import shown
from etude.frameworks.removal.widths import Widened, widen


class Fitting:
    """Tries edits on a copy of a model.

    Args:
        runs: Runs of the copy.
        repeats: What earlier plans found, in the model from which nothing was taken out.
        wholes: Paths of all modules that go in the end, which count for nothing in what is left.
    """

    def __init__(self, runs: Runs, repeats: Repeats, wholes: Sequence[str] = ()) -> None:
        self._runs, self._model, self._repeats, self._wholes = runs, runs.copy.model, repeats, wholes

    def fit(
        self,
        edit: StandIn,
        modes: Sequence[Mode],
        calls: Sequence[list[Call]],
        done: list[Edit],
        *,
        wide: bool,
        fronts: Sequence[list[Front]] = (),
    ) -> Widened:
        """Return what else has to change for a stand-in.

        Args:
            edit: The stand-in.
            modes: Runs without what has been taken out before.
            calls: Calls of the module in them.
            done: What has been done before.
            wide: Whether a width changes with it.
            fronts: For each run, what has to be made as wide as what came out of it.

        Raises:
            Unresizable: It does not run, or gives other shapes.
        """
        known = not done and not any(fronts)
        if known:
            if not wide and self._repeats.is_known(edit):
                return Widened()
            if wide and (recalled := self._repeats.recall([edit], part=False)):
                return recalled
        widened = self._widened([edit], modes, calls, done, fronts=fronts) if wide else Widened()
        with self._runs.trying() as carry:
            carry([edit, *widened.edits])
            for mode in different(modes):
                self._run(mode)
        if known:
            if wide:
                self._repeats.remember([edit], widened, part=False)
            else:
                self._repeats.note(edit)
        return widened

    def fit_part(
        self, first: list[Edit], modes: Sequence[Mode], calls: Sequence[list[Call]], done: list[Edit]
    ) -> Widened:
        """Return what else has to change where parts of a layer go; arguments and errors are those of ``fit``."""
        if not done and (recalled := self._repeats.recall(first, part=True)):
            return recalled
        widened = self._widened(first, modes, calls, done, part=True)
        if not done:
            self._repeats.remember(first, widened, part=True)
        return widened

    def _run(self, mode: Mode) -> None:
        try:
            result = self._runs.run(train=mode.train)
        except Exception as broken:
            refuse_fakes(broken)
            text = str(broken).strip().splitlines()
            raise Unresizable(
                f"without it the model raises {type(broken).__name__}: {text[0][:200] if text else ''}"
            ) from None
        _same_shapes(result, mode)

    def _widened(
        self,
        first: list[Edit],
        modes: Sequence[Mode],
        calls: Sequence[list[Call]],
        done: list[Edit],
        *,
        part: bool = False,
        fronts: Sequence[list[Front]] = (),
    ) -> Widened:
        """Find what another width takes, in evaluation and then in training, where further layers may read it.

        Raises:
            Unresizable: No widths fit, or too much would be drawn anew.
        """
        found = Widened()
        apart = different(modes)
        for mode, of_mode, front in zip(modes, calls, fronts or [[] for _ in modes], strict=True):
            if not of_mode or mode not in apart:
                continue
            made = [edit for edit in self._in_front(mode, of_mode, front) if edit not in found.edits]
            found = Widened([*found.edits, *made], found.coupled or bool(front), found.touched)
            step = widen(
                self._model,
                mode.trace,
                [*first, *found.edits],
                [] if part else of_mode,
                functools.partial(self._runs.run, train=mode.train),
                affordable=_anything if part else functools.partial(self._affordable, besides=[*found.edits, *done]),
                a_try=self._runs.trying,
                tied=tied(self._model),
            )
            edits = [*found.edits, *step.edits]
            found = Widened(edits, found.coupled or step.coupled, found.touched | step.touched)
        return found

    def _in_front(self, mode: Mode, calls: list[Call], fronts: list[Front]) -> list[Edit]:
        """Return the edits that give what goes into a module the width of what came out of it."""
        search = Producers(self._model, mode.trace, calls, tied(self._model))
        found = [edit for value, axis, size in fronts for edit in search.producers(value, axis, size, None)]
        if fronts and not found:
            raise Unresizable("nothing in front of it has a width that could be changed")
        return list(dict.fromkeys(found))

    def _affordable(self, edits: Iterable[Edit], besides: Iterable[Edit]) -> bool:
        """Say whether so much may be drawn anew, together with what is already."""
        every = {*edits, *besides}
        last = {_drawn_by(edit): edit for edit in [*besides, *edits]}  # what is resized again is drawn once
        drawn = sum(map(self._drawn, last.values()))
        gone = {*self._wholes, *(edit.path for edit in every if isinstance(edit, StandIn))}
        left = sum(p.numel() for name, p in self._model.named_parameters() if not any(under(name, g) for g in gone))
        return not is_dear(drawn, left)

    def _drawn(self, edit: Edit) -> int:
        """Return how many numbers an edit draws anew."""
        if not isinstance(edit, Resize | ResizeTensor) or edit.keep is not None:
            return 0
        if isinstance(edit, ResizeTensor):
            tensor = dict(self._model.named_parameters()).get(edit.name)
            return 0 if tensor is None else tensor.numel() // max(tensor.shape[edit.axis], 1) * edit.size
        module = self._model.get_submodule(edit.path)
        own: dict[str, nn.Parameter] = dict(module.named_parameters(recurse=False))
        found = [(own[name], axis) for name, axis in resized_tensors(module, edit).items() if name in own]
        return sum(t.numel() // max(t.shape[axis], 1) * edit.size for t, axis in found if t.ndim)


def _drawn_by(edit: Edit) -> tuple[str, str]:
    side = edit.side if isinstance(edit, Resize) else ""
    return edit.name if isinstance(edit, ResizeTensor) else edit.path, side


def _anything(edits: Iterable[Edit]) -> bool:
    """Of parts, nothing is drawn anew at all: it is refused by name."""
    return True


def code_of(failure: str) -> RefusalCode:
    """Return the refusal for what did not fit."""
    if "is made of other parameters" in failure:
        return RefusalCode.WITHOUT_CALL
    if failure == DEAR:
        return RefusalCode.TOO_MUCH
    return RefusalCode.TIED if "is shared" in failure else RefusalCode.DOES_NOT_FIT


def _same_shapes(result: Any, mode: Mode) -> None:
    found = {path: leaf for path, leaf in leaves(result) if hasattr(leaf, "shape")}
    for path, n in mode.trace.calls[0].outputs.items():
        value = mode.trace.values[n]
        if path not in found or tuple(found[path].shape) != value.shape or found[path].dtype != value.dtype:
            now = shown(tuple(found[path].shape), mode.trace) if path in found else "nothing"
            raise Unresizable(f"the model would give {now} instead of {shown(value.shape, mode.trace)}")
