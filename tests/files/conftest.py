"""A folder with a script, and files in it that are read against its experiment."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from etude.core.errors import FileError
from etude.files.document import read_document
from etude.files.reading import Asked, load, read_asked

SCRIPT = """
from dataclasses import dataclass
from typing import Literal

import etude


@dataclass
class Optimizer:
    name: Literal["sgd", "adam"] = "sgd"
    lr: float = 0.1
    betas: tuple[float, float] = (0.9, 0.99)


def train(run, optimizer: Optimizer, width: int = 64, bias: bool = True, folder: etude.Stateless[str] = "out"):
    return width * optimizer.lr


def narrow(width):
    return width < 99


class Middle:
    def __init__(self, lr=0.5):
        self.lr = lr

    def tell(self, told):
        pass

    def suggest(self, request):
        return {"width": 3}


class Alike:
    def fit(self, past, groups):
        return self


alike = Alike()
no_bias = etude.setting("bias", off=False)
experiment = etude.Experiment(train, metric="score", mode="max")
"""


class Files:
    """Files beside the script."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, text: str, name: str = "study.yaml") -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def ask(self, text: str, *given: str, **environment: str) -> Asked:
        """Return what a file asks for."""
        self.write(text)
        return self.of("study.yaml", *given, **environment)

    def of(self, target: str, *given: str, **environment: str) -> Asked:
        document = read_document(target, given, environment=environment)
        try:
            experiment, script = load(document)
            return read_asked(document, experiment, script)
        finally:
            sys.modules.pop("script", None)

    def refused(self, text: str, *given: str, **environment: str) -> str:
        """Return why a file is refused."""
        with pytest.raises(FileError) as refused:
            self.ask(text, *given, **environment)
        error = refused.value
        first = str(error).partition(": ")[0]
        assert first in (f"{error.file}:{error.line}:{error.column}", f"{error.file}, column {error.column}")
        return str(error)


@pytest.fixture
def files(beside_script: Callable[[str], Path]) -> Files:
    """Give a folder with a script, in which we are."""
    return Files(beside_script(SCRIPT))
