"""The model and data functions as the training function has them: to be called, and nothing else.

Whoever brings a script along takes ``model`` for the network and ``data`` for the batches. Python would say that a
``'method' object is not iterable``; this says that it is to be called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NoReturn

USE: Final = {"model": "builds the model", "data": "loads the data"}


class Handed:
    """A function of no argument that answers whoever takes it for what it returns.

    Args:
        role: ``model`` or ``data``.
        function: What is called.
    """

    def __init__(self, role: str, function: Callable[[], Any]) -> None:
        self._role = role
        self._function = function
        self.__name__ = self.__qualname__ = role
        self.__doc__ = function.__doc__

    def __call__(self, *given: object, **named: object) -> Any:
        """Return what the function of this role returns, with the trial's hyperparameters in it.

        Raises:
            TypeError: Something was given.
        """
        if given or named:
            raise TypeError(
                f"{self._role}(...) was called with {'an argument' if given else ', '.join(named)}, and takes none: it "
                f"{USE[self._role]}, and has this trial's hyperparameters already. {self._mend}"
            )
        return self._function()

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # asked for by protocols, such as those of copy and pickle
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise AttributeError(self._uncalled(f"{self._role}.{name}"))

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(self._uncalled(f"{self._role} was to be gone through or unpacked, but it"))

    def __getitem__(self, key: object) -> NoReturn:
        raise TypeError(self._uncalled(f"{self._role}[{key!r}]"))

    def __len__(self) -> int:
        raise TypeError(self._uncalled(f"len({self._role})"))

    def __bool__(self) -> bool:
        return True  # a function is, and __len__ would be asked otherwise

    def __repr__(self) -> str:
        return f"<the {self._role} function: call it>"

    @property
    def _mend(self) -> str:
        return (
            f"Call it once and use what it returns: {'net = model()' if self._role == 'model' else 'found = data()'}."
        )

    def _uncalled(self, what: str) -> str:
        lead = what if what.endswith(" it") else f"{what} cannot be: {self._role}"
        return f"{lead} is the function that {USE[self._role]}, and was not called. {self._mend}"
