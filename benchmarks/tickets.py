"""Which trial a call of a training function is, in whichever process: they take tickets, as in a bakery."""

from __future__ import annotations

import os
from collections.abc import Callable


def tickets(folder: str) -> Callable[[], int]:
    """Return a function whose k-th call, from 0, returns k: a file in the folder says that a number is taken.

    It is made in a function so that it travels to workers by value, with the training function that calls it.
    """

    def take() -> int:
        k = len([name for name in os.listdir(folder) if name.startswith("ticket-")])
        while True:
            try:
                os.close(os.open(f"{folder}/ticket-{k}", os.O_CREAT | os.O_EXCL))
                return k
            except FileExistsError:
                k += 1

    return take
