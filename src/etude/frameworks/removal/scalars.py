"""The numbers that a model's own code reckons with: by which it scales, and what it adds.

They are seen in no shape. An attention that scales by the size of a head, and takes the whole width divided by the
number of heads for it, runs with fewer heads, and scales by another number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from torch.overrides import TorchFunctionMode

from etude.frameworks.removal.nested import tensors
from etude.frameworks.removal.operations import ADD, ATTENTION, DIVIDE, MUL, POWERS
from etude.frameworks.removal.trace import function_name

ARITHMETIC: Final = ADD | MUL | DIVIDE | POWERS | {ATTENTION}


class Scalars(TorchFunctionMode):
    """Collects the numbers that are handed to arithmetic of floating point tensors while a model runs.

    Attributes:
        found: Operations with their numbers.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found: set[tuple[str, tuple[float, ...]]] = set()

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Do an operation, and keep its numbers."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = function_name(func)
        if name in ARITHMETIC and any(t.is_floating_point() for _, t in tensors(result)):
            numbers = tuple(float(n) for n in (*args, *kwargs.values()) if type(n) in (int, float))  # flags are none
            if numbers:
                self.found.add((name, numbers))
        return result
