"""Whether a repaired model is what was meant: checks that do not share the plan's reasoning.

That it runs says little. The checks, on a copy in double precision:

- **re-execution**: the untouched model, in which the repair is done through hooks, must give the same results and
  gradients as the repaired one; where layers were cut, the untouched model with zeros in the lost columns must;
- **parameters**: what went is gone, and all else has its name, its shape and its values, bit for bit;
- **dependence**: the results change with the inputs if they did, and no gradient has become exactly 0;
- **another number of examples** gives results of the right shapes;
- **examples stay apart**: changing one does not move the results of another where it did not before;
- **a training step**, in training mode: all that had a gradient has one, unless the plan says otherwise.

Nothing is demanded that the untouched model cannot do.
"""

from __future__ import annotations

import functools
from typing import Any, Final, NoReturn

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

from etude.core.errors import WHOLE_MODEL, RefusalCode, RemovalRefused
from etude.core.removal import Whole
from etude.frameworks.removal.apart import mixed
from etude.frameworks.removal.apply import apply
from etude.frameworks.removal.comparing import Examples, Found, is_close, is_equal, loss_of, moved, with_gradients
from etude.frameworks.removal.copies import copied
from etude.frameworks.removal.edits import Bare, Drop, Fill, Freeze, Plan, Resize, ResizeTensor, StandIn
from etude.frameworks.removal.heads import with_silent_heads
from etude.frameworks.removal.nested import tensors
from etude.frameworks.removal.parametrized import makers, weights
from etude.frameworks.removal.reexecution import kept, masked, overridden
from etude.frameworks.removal.resized import resized_names
from etude.frameworks.removal.tracing import arguments, forward_of
from etude.frameworks.removal.unrun import unrun

MATRIX: Final = 2
STILL: Final = 1e-9
"""Results that move by no more than this share of their size do not move."""
COLLAPSED: Final = 1e-3
"""Nor do those that move by less than this share of what they moved by before."""
SOME: Final = 1e-6
"""A gradient of less than this share of the largest one may become 0 by rounding."""


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
    checks = _Checks(whole, plan, args, kwargs, seed)
    try:
        return checks.run()
    except RemovalRefused:
        raise
    except Exception as broken:  # a model may raise anything, and a refusal has a code
        checks.fail(f"a check raises {type(broken).__name__}: {str(broken).strip()[:200]}", broken)


def is_real(model: Any) -> bool:
    """Say whether a model can be computed with: it is neither on fake tensors nor on the meta device."""
    modules = model.values() if isinstance(model, dict) else [model]
    found = [t for module in modules for t in (*module.parameters(), *module.buffers())]
    return not any(isinstance(t, FakeTensor) or t.device.type == "meta" for t in found)


class DoesNotRun(RemovalRefused):
    """A repair does not run with the example, though it did on fake tensors, which let some shapes pass."""


class _Checks:
    """Checks of one plan."""

    def __init__(self, model: nn.Module, plan: Plan, args: Any, kwargs: Any, seed: int) -> None:
        self._plan = plan
        self._before = copied(model)
        self._after = copied(model)
        try:
            apply(self._after, plan, seed=seed)
        except Exception as broken:
            self.fail(f"carrying it out raises {type(broken).__name__}: {str(broken).strip()[:200]}", broken)
        self._given = args, kwargs
        self._examples = Examples(self._before, args, kwargs)

    def run(self) -> tuple[str, ...]:
        """Make all checks that can be made."""
        self._parameters()
        if self._examples.in_double:
            self._before.double()
            self._after.double()
        self._refuse_no_numbers()
        found = self._computed()
        done = ["parameters", *self._reexecutions(found)]
        if self._another_batch():
            done.append("another batch")
        self._dependent(found)
        self._apart()
        self._a_step()
        return (*done, "dependence", "examples apart", "training step")

    def fail(self, why: str, cause: Exception | None = None, code: RefusalCode = RefusalCode.FAILED_CHECK) -> NoReturn:
        """Refuse."""
        raise self._refusal(why, RemovalRefused, code) from cause

    def _refusal(
        self, why: str, kind: type[RemovalRefused], code: RefusalCode = RefusalCode.FAILED_CHECK
    ) -> RemovalRefused:
        paths = [target.path for target in self._plan.layers.targets]
        return kind(code, ", ".join(paths), why)

    def _forward(self, rows: list[int]) -> Found:
        """Run the repaired model."""
        try:
            return self._examples.called(self._after, rows)
        except Exception as broken:
            self.fail(f"the repaired model raises {type(broken).__name__}: {str(broken).strip()[:200]}", broken)

    @functools.cached_property
    def _gradients(self) -> Found | None:
        """The gradients of the untouched model; None of one that has none in evaluation, as reversible ones."""
        try:
            return with_gradients(self._before, self._examples)[1]
        except Exception:  # whatever it says: nobody may ask more of the repaired model
            return None

    def _refuse_no_numbers(self) -> None:
        """Refuse an example that would pass all checks, since nothing differs from what is no number."""
        try:
            what = self._examples.not_numbers(self._before)
        except Exception as broken:  # fake tensors let some types pass
            raise unrun(broken, self._given) from broken
        if what:
            why = f"the example gives {what} in the untouched model, so that nothing can be compared. Give another one."
            raise RemovalRefused(RefusalCode.UNTRACEABLE, WHOLE_MODEL, why)

    def _computed(self) -> tuple[Found, Found]:
        try:
            return with_gradients(self._after, self._examples, wanted=self._gradients is not None)
        except Exception as broken:
            why = f"the repaired model raises {type(broken).__name__}: {str(broken).strip()[:200]}"
            raise self._refusal(why, DoesNotRun) from broken

    # --- re-execution -----------------------------------------------------------------------------

    def _reexecutions(self, found: tuple[Found, Found]) -> list[str]:
        edits = self._plan.edits
        if (silent := with_silent_heads(self._before, self._plan)) is not None:
            self._compare(silent, found, "the model that does not read the heads that are gone")
            return ["masked re-execution"]
        other = overridden(self._before, self._after, edits)
        self._compare(other, found, "the model with the repair done by hooks")
        self._compare_training(other)
        done = ["re-execution"]
        zeros = masked(self._before, edits) if any(isinstance(e, Resize | ResizeTensor) for e in edits) else None
        if zeros is not None:
            self._compare(zeros, found, "the model with zeros where columns were cut")
            done.append("masked re-execution")
        return done

    def _compare(self, other: nn.Module, found: tuple[Found, Found], what: str) -> None:
        share = self._examples.close
        results, gradients = with_gradients(other, self._examples, wanted=self._gradients is not None)
        for name, value in found[0].items():
            if name in results and not is_close(results[name], value, share=share):
                self.fail(f"its result {name or 'as a whole'} is not that of {what}.")
        largest = max((float(g.abs().max()) for g in found[1].values() if g.numel()), default=0.0)
        for name, value in found[1].items():
            its = gradients.get(name)
            if its is not None and its.shape != value.shape and (cut := kept(name, self._plan.edits, self._before)):
                its = its.index_select(cut[0], torch.tensor(cut[1], dtype=torch.long, device=its.device))
            if its is None or its.shape != value.shape:
                continue
            if not is_close(its, value, share=share, floor=share * 10 * largest):
                self.fail(f"the gradient of {name} is not that of {what}.")

    def _compare_training(self, other: nn.Module) -> None:
        """Compare results in training mode, drawn from the same seed, where drawing again gives the same."""
        after = self._after
        remembered = {name: buffer.clone() for name, buffer in after.named_buffers()}  # norms see what they are given

        def trained(model: nn.Module) -> Found:
            with torch.no_grad():
                return self._examples.called(model.train(), self._examples.rows)

        try:
            wanted = trained(other)
        except Exception:  # it cannot be trained with so few examples, for instance
            return
        have = trained(after)

        def differs(one: Found, two: Found) -> str | None:
            share = self._examples.close
            return next((n for n in one if n in two and not is_close(one[n], two[n], share=share)), None)

        name = differs(wanted, have)
        again = None if name is None else (differs(have, trained(after)), differs(wanted, trained(other)))
        with torch.no_grad():
            for buffer_name, buffer in after.named_buffers():
                if buffer_name in remembered and remembered[buffer_name].shape == buffer.shape:
                    buffer.copy_(remembered[buffer_name])
        if name is not None and again == (None, None):
            self.fail(f"in training its result {name or 'as a whole'} is not that of the model with hooks.")

    def _dependent(self, found: tuple[Found, Found]) -> None:
        """Refuse results that hardly change any more, and gradients that have become exactly 0."""
        before, after = self._movement(self._before), self._movement(self._after)
        if before > STILL and after < max(STILL, COLLAPSED * before):
            why = f"other examples change what it gives by {after:.1g} of its size, and by {before:.1g} before"
            self._refuse_constant()
            self.fail(f"what it gives does not depend on what goes in any more: {why}.", code=RefusalCode.NO_PATH)
        had = self._gradients
        if had and not found[1]:
            self.fail("nothing that learns reaches what it gives any more.", code=RefusalCode.NO_PATH)
        if had is None or self._has_zeros():
            return
        largest = max((float(g.abs().max()) for g in had.values() if g.numel()), default=0.0)
        for name, gradient in found[1].items():
            old = had.get(name)
            if old is None or not old.numel() or name in self._plan.idle or old.ndim < MATRIX:
                continue
            if float(old.abs().max()) > SOME * largest and not bool(gradient.any()):
                self._refuse_constant()
                self.fail(f"the gradient of {name} has become exactly 0.", code=RefusalCode.NO_PATH)

    def _refuse_constant(self) -> None:
        """Refuse an example of one number throughout: that it moves nothing is not what a component is to blame for."""
        given = [tensor for _, tensor in tensors(self._given) if tensor.is_floating_point() and tensor.numel()]
        if given and all(bool((tensor == tensor.flatten()[0]).all()) for tensor in given):
            why = (
                f"the example is {float(given[0].flatten()[0]):g} throughout, with which nothing can be seen of what "
                "depends on what. Pass examples with different numbers, such as those of the data."
            )
            raise RemovalRefused(RefusalCode.UNTRACEABLE, WHOLE_MODEL, why)

    def _movement(self, model: nn.Module) -> float:
        """Return by which share of its size a model's result moves with the examples: that which moves most."""
        rows = self._examples.rows
        model.eval()
        with torch.no_grad():
            plain = self._examples.called(model, rows)
            other = self._examples.called(model, [*rows[1:], rows[0]])
        return max((moved(plain[name], other[name]) for name in plain if name in other), default=0.0)

    def _has_zeros(self) -> bool:
        """Say whether the plan puts a constant somewhere: what scales it has no gradient any more, and should not."""
        calls = [call for edit in self._plan.edits if isinstance(edit, StandIn) for call in edit.calls]
        return any(isinstance(rule, Fill) and not rule.unused for call in calls for rule in call.rules)

    # --- the rest ---------------------------------------------------------------------------------

    def _parameters(self) -> None:
        gone = [t.path for t in self._plan.layers.targets if isinstance(t, Whole)] + list(self._plan.layers.along)
        gone = self._names(gone)
        resized = resized_names(self._before, self._plan.edits)
        learned = {f"{e.path}.{n}." for e in self._plan.edits if isinstance(e, StandIn) for n, *_ in e.learned}
        after = dict(self._after.named_parameters(remove_duplicate=False))
        owners: dict[int, list[str]] = {}
        for name, parameter in self._before.named_parameters(remove_duplicate=False):
            owners.setdefault(id(parameter), []).append(name)
        for names in owners.values():
            left = [n for n in names if not any(n.startswith(f"{path}.") for path in gone)]
            for name in names:
                if name not in left and name in after and not any(name.startswith(each) for each in learned):
                    self.fail(f"{name} is still there.")
            for name in left:
                if self._stood_for(name):
                    continue
                if name not in after:
                    self.fail(f"{name} is lost.")
                if name not in resized and not is_equal(self._before.get_parameter(name), after[name]):
                    self.fail(f"{name} has other values.")
        self._own_weights()

    def _own_weights(self) -> None:
        """Compare weights that were made of others with what was made."""
        resized = resized_names(self._before, self._plan.edits)
        for edit in (edit for edit in self._plan.edits if isinstance(edit, Bare)):
            before, after = (model.get_submodule(edit.path).eval() for model in (self._before, self._after))
            for name, full in zip(edit.names, weights(edit), strict=True):
                own = {**after._parameters, **after._buffers}.get(name)
                if own is None:
                    self.fail(f"{full} is lost.")
                if full not in resized and not is_equal(getattr(before, name), own):
                    self.fail(f"{full} has other values.")

    def _names(self, paths: list[str]) -> list[str]:
        """Return all names of modules of which some may have several."""
        meant = {id(self._before.get_submodule(path)) for path in paths}
        return [name for name, m in self._before.named_modules(remove_duplicate=False) if id(m) in meant]

    def _stood_for(self, name: str) -> bool:
        return any(name.startswith(f"{path}.") for path in self._gone)

    @functools.cached_property
    def _gone(self) -> list[str]:
        """All names of modules that are not there any more, or have no weights."""
        edits = self._plan.edits
        paths = [edit.path for edit in edits if isinstance(edit, StandIn | Drop | Freeze)]
        return self._names([*paths, *(maker for edit in edits if isinstance(edit, Bare) for maker in makers(edit))])

    def _another_batch(self) -> bool:
        """Compare shapes for another number of examples, if the untouched model takes another one."""
        rows = [n % self._examples.n for n in range(self._examples.n + 1)]
        self._before.eval()
        self._after.eval()
        with torch.no_grad():
            try:
                before = self._examples.called(self._before, rows)
            except Exception:
                return False
            have = self._forward(rows)
        for name, value in before.items():
            if name in have and have[name].shape != value.shape:
                shapes = f"{tuple(have[name].shape)} instead of {tuple(value.shape)}"
                self.fail(f"with {len(rows)} examples it gives {shapes}.")
        return True

    def _apart(self) -> None:
        """Change one example: results of others that did not move before must not move."""
        name = mixed(self._before, self._after, self._examples)
        if name is not None:
            self.fail(f"in its result {name or 'as a whole'} examples depend on each other.")

    def _a_step(self) -> None:
        """Train one step; what had a gradient has one."""
        had = self._trained(self._before)
        if had is None:
            return
        has = self._trained(self._after) or set()
        for name in sorted(had - has - set(self._plan.idle)):
            if not self._stood_for(name):
                self.fail(f"{name} has no gradient any more.")

    def _trained(self, model: nn.Module) -> set[str] | None:
        """Train a model one step; return what had a gradient, or None if the untouched model cannot be trained."""
        model.train()
        model.zero_grad()
        try:
            loss = loss_of(self._examples.called(model, self._examples.rows))
            if loss.requires_grad:
                loss.backward()
        except Exception as broken:
            if model is self._before:
                return None
            self.fail(f"in training the repaired model raises {type(broken).__name__}: {str(broken).strip()[:200]}")
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter.add_(parameter.grad, alpha=-1e-3)
        found = {name for name, p in model.named_parameters(remove_duplicate=False) if p.grad is not None}
        model.zero_grad()
        return found
