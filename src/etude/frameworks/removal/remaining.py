"""What is left of a model's weights: what went is gone, and all else has its name, its shape and its values."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator

from torch import nn

from etude.core.removal import Whole
from etude.frameworks.removal.comparing import is_equal
from etude.frameworks.removal.edits import Bare, Drop, Freeze, Plan, StandIn
from etude.frameworks.removal.parametrized import makers, weights
from etude.frameworks.removal.resized import resized_names


class Remaining:
    """The weights that a plan leaves of a model.

    Args:
        before: The untouched model.
        plan: What was done.
    """

    def __init__(self, before: nn.Module, plan: Plan) -> None:
        self._before, self._plan = before, plan

    def amiss(self, after: nn.Module) -> str:
        """Return what is wrong with a repaired model's weights, bit for bit; empty if nothing is."""
        return next(itertools.chain(self._amiss(after), self._made_amiss(after)), "")

    def is_stood_for(self, name: str) -> bool:
        """Say whether a parameter was in a module that is not there any more, or has no weights."""
        return any(name.startswith(f"{path}.") for path in self._stood_for)

    def _amiss(self, model: nn.Module) -> Iterator[str]:
        targets, resized = self._plan.layers.targets, self._resized
        gone = self._names([*(t.path for t in targets if isinstance(t, Whole)), *self._plan.layers.along])
        learned = {f"{e.path}.{n}." for e in self._plan.edits if isinstance(e, StandIn) for n, *_ in e.learned}
        after = dict(model.named_parameters(remove_duplicate=False))
        owners: dict[int, list[str]] = {}
        for name, parameter in self._before.named_parameters(remove_duplicate=False):
            owners.setdefault(id(parameter), []).append(name)
        for names in owners.values():
            left = [n for n in names if not any(n.startswith(f"{path}.") for path in gone)]
            for name in names:
                if name not in left and name in after and not any(name.startswith(each) for each in learned):
                    yield f"{name} is still there."
            for name in left:
                if self.is_stood_for(name):
                    continue
                if name not in after:
                    yield f"{name} is lost."
                elif name not in resized and not is_equal(self._before.get_parameter(name), after[name]):
                    yield f"{name} has other values."

    def _made_amiss(self, model: nn.Module) -> Iterator[str]:
        """Compare weights that were made of others with what was made."""
        for edit in (edit for edit in self._plan.edits if isinstance(edit, Bare)):
            before, after = (each.get_submodule(edit.path).eval() for each in (self._before, model))
            for name, full in zip(edit.names, weights(edit), strict=True):
                own = {**after._parameters, **after._buffers}.get(name)
                if own is None:
                    yield f"{full} is lost."
                elif full not in self._resized and not is_equal(getattr(before, name), own):
                    yield f"{full} has other values."

    @functools.cached_property
    def _resized(self) -> set[str]:
        return resized_names(self._before, self._plan.edits)

    @functools.cached_property
    def _stood_for(self) -> list[str]:
        edits = self._plan.edits
        paths = [edit.path for edit in edits if isinstance(edit, StandIn | Drop | Freeze)]
        return self._names([*paths, *(maker for edit in edits if isinstance(edit, Bare) for maker in makers(edit))])

    def _names(self, paths: list[str]) -> list[str]:
        """Return all names of modules of which some may have several."""
        meant = {id(self._before.get_submodule(path)) for path in paths}
        return [name for name, m in self._before.named_modules(remove_duplicate=False) if id(m) in meant]
