"""Whether a repaired model is what was meant: checks that do not share the plan's reasoning.

That it runs says little. The checks, on a copy in double precision:

- **re-execution**: the untouched model, in which what the component gives is overridden, must give the same results and
  gradients as the repaired one; where layers were cut, the untouched model with zeros in the lost columns must;
- **parameters**: what went is gone, and all else has its name, its shape and its values, bit for bit;
- **another number of examples** gives results of the right shapes;
- **examples stay apart**: changing one does not move the results of another where it did not before;
- **a training step**, in training mode: all that had a gradient has one, unless the plan says otherwise.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

from etude.core.errors import RefusalCode, RemovalRefused
from etude.core.removal import Whole
from etude.core.rungs import Rung
from etude.frameworks.removal.apply import apply
from etude.frameworks.removal.edits import Attribute, Drop, Edit, Freeze, Plan, Resize, ResizeTensor, StandIn
from etude.frameworks.removal.fake import batch_of
from etude.frameworks.removal.nested import bound, mapped, tensors
from etude.frameworks.removal.resize import resized_tensors
from etude.frameworks.removal.standin import results
from etude.frameworks.removal.trace import kind_of
from etude.frameworks.removal.tracing import arguments, forward_of

CLOSE: Final = 1e-7
"""Results in double precision are equal if they differ by no more than this share of the largest."""

CLOSE_SINGLE: Final = 1e-4
"""Likewise, for models that do not run in double precision."""

FEW: Final = 4
"""So many examples are used, or as many as there are."""


def check(model: nn.Module | dict[str, nn.Module], plan: Plan, example: Any, *, seed: int = 0) -> tuple[str, ...]:
    """Check a plan by carrying it out on a copy of a model; return the names of the checks that were made.

    Args:
        model: The untouched model, on real tensors.
        plan: What ``plan`` gave for it.
        example: As for ``plan``.
        seed: Of the trial.

    Raises:
        RemovalRefused: A check failed. No other repair is tried then.
    """
    whole = forward_of(model) if isinstance(model, dict) else model
    args, kwargs = arguments(example)
    return _Checks(whole, plan, args, kwargs, seed).run()


def is_real(model: Any) -> bool:
    """Say whether a model can be computed with: it is neither on fake tensors nor on the meta device."""
    modules = model.values() if isinstance(model, dict) else [model]
    found = [t for module in modules for t in (*module.parameters(), *module.buffers())]
    return not any(isinstance(t, FakeTensor) or t.device.type == "meta" for t in found)


class _Checks:
    """Checks of one plan."""

    def __init__(self, model: nn.Module, plan: Plan, args: Any, kwargs: Any, seed: int) -> None:
        self._plan, self._seed = plan, seed
        self._before = copy.deepcopy(model)
        self._after = copy.deepcopy(model)
        apply(self._after, plan, seed=seed)
        n = batch_of(args, kwargs)
        few = min(max(n, 2), FEW)
        self._n = few

        def take(t: torch.Tensor, rows: list[int]) -> torch.Tensor:
            if t.ndim == 0 or t.shape[0] != n:
                return t
            return t.index_select(0, torch.tensor([row % n for row in rows], device=t.device))

        def with_rows(rows: list[int]) -> tuple[Any, Any]:
            return mapped((args, kwargs), lambda t: self._typed(take(t, rows)))  # type: ignore[no-any-return]

        self._rows = with_rows
        self._close = CLOSE

    def _typed(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.double() if tensor.is_floating_point() and self._close == CLOSE else tensor

    def _to_double(self) -> None:
        """Go over to double precision, if the untouched model runs in it: some of its operations may not."""
        trial = copy.deepcopy(self._before).double().eval()
        try:
            with torch.no_grad(), torch.random.fork_rng(devices=[]):
                args, kwargs = self._rows(list(range(self._n)))
                trial(*args, **kwargs)
        except Exception:
            self._close = CLOSE_SINGLE
            return
        self._before.double()
        self._after.double()

    def run(self) -> tuple[str, ...]:
        """Make all checks that can be made."""
        done = ["parameters"]
        self._parameters()
        self._to_double()
        if self._edits_alone():
            self._as_overridden()
            done.append("re-execution")
        elif self._cuts_alone():
            self._as_masked()
            done.append("masked re-execution")
        self._another_batch()
        self._apart()
        self._a_step()
        return (*done, "another batch", "examples apart", "training step")

    # --- re-execution -----------------------------------------------------------------------------

    def _edits_alone(self) -> bool:
        """Whether nothing but stand-ins without weights took part."""
        return all(
            (isinstance(edit, StandIn) and not edit.learned) or isinstance(edit, Drop | Attribute)
            for edit in self._plan.edits
        )

    def _cuts_alone(self) -> bool:
        """Whether layers were cut in their inputs alone, so that zeros in the lost columns do the same."""
        return self._plan.rung <= Rung.SPLICE and all(
            isinstance(edit, StandIn | Drop | Attribute)
            or (isinstance(edit, Resize) and edit.keep is not None and edit.side in ("in", "through"))
            for edit in self._plan.edits
        )

    def _as_overridden(self) -> None:
        with _overridden(self._before, self._plan.edits):
            self._compare(self._before, self._after, "the model with the component's results overridden")

    def _as_masked(self) -> None:
        """Compare with the untouched model whose consumers have zeros where columns were lost."""
        masked = copy.deepcopy(self._before)
        for edit in self._plan.edits:
            if not isinstance(edit, Resize) or edit.keep is None:
                continue
            module = masked.get_submodule(edit.path)
            if edit.side == "through":
                if not isinstance(module, nn.modules.batchnorm._NormBase):
                    return  # other norms look at all channels together
                continue
            lost = [n for n in range(edit.before) if n not in edit.keep]
            for name, axis in resized_tensors(module, edit).items():
                tensor = getattr(module, name, None)
                if isinstance(tensor, torch.Tensor):
                    with torch.no_grad():
                        tensor.index_fill_(axis, torch.tensor(lost), 0.0)
        self._compare(masked, self._after, "the model with zeros where columns were cut")

    def _compare(self, one: nn.Module, two: nn.Module, what: str) -> None:
        rows = list(range(self._n))
        first, second = (self._results_and_gradients(m, rows) for m in (one, two))
        for name, value in second[0].items():
            if name in first[0] and not _close(first[0][name], value, share=self._close):
                self._fail(f"its result {name or 'as a whole'} is not that of {what}.")
        largest = max((float(g.abs().max()) for g in second[1].values() if g.numel()), default=0.0)
        for name, value in second[1].items():
            other = first[1].get(name)
            if other is None or other.shape != value.shape:
                continue
            if not _close(other, value, share=self._close, floor=self._close * 10 * largest):
                self._fail(f"the gradient of {name} is not that of {what}.")

    def _results_and_gradients(
        self, model: nn.Module, rows: list[int]
    ) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        model.eval()
        model.zero_grad()
        found = self._forward(model, rows)
        loss = _loss(found)
        if loss.requires_grad:
            loss.backward()
        gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
        model.zero_grad()
        return {name: value.detach() for name, value in found.items()}, gradients

    def _forward(self, model: nn.Module, rows: list[int]) -> dict[str, torch.Tensor]:
        args, kwargs = self._rows(rows)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            try:
                result = model(*args, **kwargs)
            except Exception as broken:
                self._fail(f"the repaired model raises {type(broken).__name__}: {str(broken).strip()[:200]}")
        return {".".join(map(str, path)): tensor for path, tensor in tensors(result)}

    # --- the rest ---------------------------------------------------------------------------------

    def _parameters(self) -> None:
        gone = [t.path for t in self._plan.layers.targets if isinstance(t, Whole)] + list(self._plan.layers.along)
        resized = _resized_names(self._before, self._plan.edits)
        learned = {f"{e.path}.{n}." for e in self._plan.edits if isinstance(e, StandIn) for n, *_ in e.learned}
        after = dict(self._after.named_parameters(remove_duplicate=False))
        owners: dict[int, list[str]] = {}
        for name, parameter in self._before.named_parameters(remove_duplicate=False):
            owners.setdefault(id(parameter), []).append(name)
        for names in owners.values():
            left = [n for n in names if not any(n.startswith(f"{path}.") for path in gone)]
            for name in names:
                if name not in left and name in after and not any(name.startswith(each) for each in learned):
                    self._fail(f"{name} is still there.")
            for name in left:
                if self._stood_for(name):
                    continue
                if name not in after:
                    self._fail(f"{name} is lost.")
                old = self._before.get_parameter(name)
                if name not in resized and not _equal(old, after[name]):
                    self._fail(f"{name} has other values.")

    def _stood_for(self, name: str) -> bool:
        paths = [e.path for e in self._plan.edits if isinstance(e, StandIn | Drop | Freeze)]
        return any(name.startswith(f"{path}.") for path in paths)

    def _another_batch(self) -> None:
        rows = [n % self._n for n in range(self._n + 1)]
        self._before.eval()
        self._after.eval()
        with torch.no_grad():
            try:
                args, kwargs = self._rows(rows)
                before = self._before(*args, **kwargs)
            except Exception:
                return
            want = {".".join(map(str, p)): tuple(t.shape) for p, t in tensors(before)}
            have = self._forward(self._after, rows)
        for name, shape in want.items():
            if name in have and tuple(have[name].shape) != shape:
                self._fail(f"with {len(rows)} examples it gives {tuple(have[name].shape)} instead of {shape}.")

    def _apart(self) -> None:
        """Change one example: results of others that did not move before must not move."""
        rows = list(range(self._n))
        for model in (self._before, self._after):
            model.eval()
        with torch.no_grad():
            moved_before = self._moved(self._before, rows)
            moved_after = self._moved(self._after, rows)
        for name, others in moved_after.items():
            if name in moved_before and others and not moved_before[name]:
                self._fail(f"in its result {name or 'as a whole'} examples depend on each other.")

    def _moved(self, model: nn.Module, rows: list[int]) -> dict[str, bool]:
        plain = self._forward(model, rows)
        changed = self._forward(model, [*rows[:-1], rows[0]])
        found = {}
        for name, value in plain.items():
            if value.ndim and value.shape[0] == len(rows) and name in changed and value.is_floating_point():
                found[name] = not _close(value[:-1], changed[name][:-1], share=1e-5)
        return found

    def _a_step(self) -> None:
        """Train one step; what had a gradient has one."""
        rows = list(range(self._n))
        had = self._gradients(self._before, rows)
        has = self._gradients(self._after, rows)
        removed = [e.path for e in self._plan.edits if isinstance(e, StandIn | Drop | Freeze)]
        for name in sorted(had - has - set(self._plan.idle)):
            if not any(name.startswith(f"{path}.") for path in removed):
                self._fail(f"{name} has no gradient any more.")

    def _gradients(self, model: nn.Module, rows: list[int]) -> set[str]:
        model.train()
        model.zero_grad()
        loss = _loss(self._forward(model, rows))
        if loss.requires_grad:
            loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter.add_(parameter.grad, alpha=-1e-3)
        found = {name for name, p in model.named_parameters(remove_duplicate=False) if p.grad is not None}
        model.zero_grad()
        return found

    def _fail(self, why: str) -> Any:
        paths = [target.path for target in self._plan.layers.targets]
        raise RemovalRefused(RefusalCode.FAILED_CHECK, ", ".join(paths), why)


@contextmanager
def _overridden(model: nn.Module, edits: tuple[Edit, ...]) -> Iterator[None]:
    """Let an untouched model's components give what the rules say, in place of running them.

    Running them first, and overriding the results, would be as good for one component; of several, what one gives may
    be of a width that another one could not compute with.
    """
    modules = [(model.get_submodule(edit.path), edit) for edit in edits if isinstance(edit, StandIn)]
    try:
        for module, edit in modules:
            vars(module)["forward"] = _instead(module, edit)
        yield
    finally:
        for module, _ in modules:
            vars(module).pop("forward", None)


def _instead(module: nn.Module, edit: StandIn) -> Any:
    like = next(module.parameters(), torch.empty(0, dtype=torch.float64)).detach()

    def forward(*args: Any, **kwargs: Any) -> Any:
        given, named = mapped((args, kwargs), lambda t: t.clone())
        return results(edit.calls, bound(kind_of(module), given, named), like, training=module.training)

    return forward


def _resized_names(model: nn.Module, edits: tuple[Edit, ...]) -> set[str]:
    found = set()
    for edit in edits:
        if isinstance(edit, Resize):
            found |= {f"{edit.path}.{name}" for name in resized_tensors(model.get_submodule(edit.path), edit)}
        elif isinstance(edit, ResizeTensor):
            found.add(edit.name)
    return found


def _loss(found: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return a number that depends on all results, each of their entries in its own way."""
    total = torch.zeros((), dtype=torch.float64)
    for value in found.values():
        if value.is_floating_point() and value.requires_grad:
            weights = torch.linspace(0.5, 1.5, value.numel(), dtype=torch.float64, device=value.device)
            finite = torch.nan_to_num(value.double().reshape(-1), nan=0.0, posinf=0.0, neginf=0.0)
            total = total + (finite * weights).sum() + finite.square().mean()
    return total


def _close(one: torch.Tensor, two: torch.Tensor, *, share: float = CLOSE, floor: float = 0.0) -> bool:
    if one.shape != two.shape:
        return False
    if not one.is_floating_point():
        return bool(torch.equal(one, two))
    if not one.numel():
        return True
    a, b = (torch.nan_to_num(t.double(), nan=0.0, posinf=0.0, neginf=0.0) for t in (one, two))
    largest = max(float(a.abs().max()), float(b.abs().max()), 1e-300)
    return float((a - b).abs().max()) <= max(share * largest, floor, 1e-12)


def _equal(one: torch.Tensor, two: torch.Tensor) -> bool:
    return one.shape == two.shape and bool(torch.equal(one.detach(), two.detach()))
