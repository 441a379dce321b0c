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
from typing import Any, NoReturn

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

from etude.core.errors import WHOLE_MODEL, RefusalCode, RemovalRefused
from etude.frameworks.removal.apart import mixed
from etude.frameworks.removal.apply import apply
from etude.frameworks.removal.comparing import Examples, Found, is_close, loss_of, with_gradients
from etude.frameworks.removal.copies import copied
from etude.frameworks.removal.dependence import Dependence
from etude.frameworks.removal.edits import Plan, Resize, ResizeTensor
from etude.frameworks.removal.heads import with_silent_heads
from etude.frameworks.removal.reexecution import kept, masked, overridden
from etude.frameworks.removal.remaining import Remaining
from etude.frameworks.removal.tracing import arguments, forward_of
from etude.frameworks.removal.unrun import unrun


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
        self._remaining = Remaining(self._before, plan)
        self._examples = Examples(self._before, args, kwargs)

    def run(self) -> tuple[str, ...]:
        """Make all checks that can be made."""
        if why := self._remaining.amiss(self._after):
            self.fail(why)
        if self._examples.in_double:
            self._before.double()
            self._after.double()
        self._refuse_no_numbers()
        found = self._computed()
        done = ["parameters", *self._reexecutions(found)]
        if self._another_batch():
            done.append("another batch")
        dependence = Dependence(self._before, self._after, self._plan, self._examples, self._given)
        if why := dependence.lost(self._gradients, found[1]):
            self.fail(why, code=RefusalCode.NO_PATH)
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

    # --- the rest ---------------------------------------------------------------------------------

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
            if not self._remaining.is_stood_for(name):
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
