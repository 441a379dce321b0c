"""Finds the metric of a program that knows nothing of Étude: in a file that it writes, or in what it prints."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from etude.core.errors import ConfigError, ResultError

_PRINTED = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|nan|inf(?:inity)?)"


@dataclass(frozen=True)
class Metric:
    """Where a program leaves its metric.

    Attributes:
        name: The metric's name: in a file the key, with dots for what lies in what; printed, the word before the colon.
        file: A JSON file, relative to where the program runs; empty for what it prints.
    """

    name: str
    file: str = ""

    @classmethod
    def read(cls, text: str) -> Metric:
        """Return what a text such as ``metrics.json:accuracy`` or ``accuracy`` says.

        Raises:
            ConfigError: It says nothing of the kind, or leads out of the folder.

        Example:
            >>> Metric.read("metrics.json:test.accuracy")
            Metric(name='test.accuracy', file='metrics.json')
            >>> Metric.read("accuracy")
            Metric(name='accuracy', file='')
        """
        file, _, name = text.rpartition(":")
        if not name.strip() or Path(file).is_absolute() or ".." in Path(file).parts:
            raise ConfigError(
                f"metric {text!r} does not say where the metric is. Give a file that the program writes and the key in "
                "it, 'metrics.json:accuracy', or the word that it prints before the number, 'accuracy'."
            )
        return cls(name.strip(), file.strip())

    def found(self, folder: Path, printed: str) -> float:
        """Return the metric that a program has left.

        Args:
            folder: Where it ran.
            printed: What it printed.

        Raises:
            ResultError: There is none, or it is no number.
        """
        return self._in_file(folder / self.file) if self.file else self._in_text(printed)

    def _in_text(self, printed: str) -> float:
        word = rf"(?<![\w.]){re.escape(self.name)}\s*[:=]\s*({_PRINTED})(?![\w.])"
        if found := re.findall(word, printed, re.IGNORECASE):
            return float(found[-1])
        raise ResultError(
            f"The program printed no '{self.name}: <number>'. Have it print that as its last line, or write a JSON "
            f"file and name it: metrics.json:{self.name}."
        )

    def _in_file(self, file: Path) -> float:
        if not file.is_file():
            raise ResultError(f"The program wrote no {self.file}. Have it write its metrics there, as JSON.")
        try:
            content: Any = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ResultError(
                f"{self.file} is no JSON ({error}). Have the program write its metrics as JSON."
            ) from None
        value = _within(content, self.name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            there = ", ".join(map(repr, content)) if isinstance(content, dict) else type(content).__name__
            what = "there is none" if value is None else f"it is {value!r}, and no number"
            raise ResultError(
                f"{self.file} was to have the metric {self.name!r}: {what}. It has: {there or 'nothing'}."
            )
        return float(value)


def _within(content: Any, name: str) -> Any:
    if isinstance(content, dict) and name in content:
        return content[name]
    first, dot, rest = name.partition(".")
    return _within(content.get(first), rest) if dot and isinstance(content, dict) else None
