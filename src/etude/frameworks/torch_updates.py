"""Updates that gather the gradients of several steps: the training function makes each step, and some of them count."""

from __future__ import annotations

from typing import Any, Final

import torch

REPLACED: Final = ("step", "zero_grad")


class Gathering:
    """Has an optimizer update at every so-many-th step, with the mean of the gradients since the last one.

    Its methods are replaced in its own ``__dict__``, over what schedulers may have put there.

    Args:
        optimizer: It.
        steps: How many steps an update has.

    Attributes:
        steps: The same.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, steps: int) -> None:
        self._optimizer = optimizer
        self.steps = steps
        self._gathered = 0
        self._before: dict[str, Any] = {name: vars(optimizer)[name] for name in REPLACED if name in vars(optimizer)}
        self._step: Any = optimizer.step
        self._zero_grad: Any = optimizer.zero_grad
        vars(optimizer).update(step=self.step, zero_grad=self.zero_grad)

    def step(self, *args: Any, **kwargs: Any) -> Any:
        """Count a step, and update if it is the last one of an update; one with a closure is done as it is."""
        if any(arg is not None for arg in (*args, *kwargs.values())):
            return self._step(*args, **kwargs)
        self._gathered += 1
        self._optimizer._opt_called = True  # type: ignore[attr-defined]  # schedulers warn of steps that never come
        return self._update() if self._gathered >= self.steps else None

    step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]  # schedulers look for it, and warn if it is not there

    def zero_grad(self, *args: Any, **kwargs: Any) -> None:
        """Forget gradients, unless some of them are still to be gathered."""
        if not self._gathered:
            self._zero_grad(*args, **kwargs)

    def _update(self) -> Any:
        share, self._gathered = 1 / self._gathered, 0
        with torch.no_grad():
            for group in self._optimizer.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        parameter.grad.mul_(share)
        return self._step()

    def off(self) -> None:
        """Update with what was gathered, and put the methods back."""
        if self._gathered:
            self._update()
            self._zero_grad()
        for name in REPLACED:
            vars(self._optimizer).pop(name, None)
        vars(self._optimizer).update(self._before)
