"""What to do about a trial's error: found in the words that Python and libraries say, and only there."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from etude.core.advice import ADVICE, advice


def reason(raises: Callable[[], object]) -> str:
    """Return the error in one line, as it is kept with a trial."""
    try:
        raises()
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    raise AssertionError("it raised nothing")


def names_run() -> object:
    return run  # type: ignore[name-defined] # noqa: F821


def imports() -> None:
    import no_such_package  # type: ignore[import-not-found] # noqa: F401


def opens(name: str) -> Callable[[], object]:
    def raises() -> None:
        with open(name, encoding="utf-8"):
            pass

    return raises


@pytest.mark.parametrize(
    ("raises", "begins"),
    [
        (names_run, "Étude gives run to a function that names it as a parameter"),
        (imports, "Trials import with the Python that the study was called with: 'no_such_package' has to be"),
        (opens("no/such.csv"), "Trials run in the folder that the study was called from: 'no/such.csv' is looked for"),
        (lambda: sys.exit(2), "The training function ended its own process"),
        (lambda: bytearray(1 << 62), "Less of it at a time is a smaller batch"),
    ],
)
def test_an_error_that_python_raises_is_known(raises: Callable[[], object], begins: str) -> None:
    assert advice(reason(raises)).startswith(begins)


@pytest.mark.parametrize(
    ("said", "begins"),
    [
        ("EOFError: EOF when reading a line", "A trial has no terminal"),
        ("AssertionError: Torch not compiled with CUDA enabled", "The trial has no such GPU"),
        ("OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", "Less of it at a time"),
        (
            "RuntimeError: Expected all tensors to be on the same device, but got cpu and cuda:0",
            "What model() returns is on the trial's device already",
        ),
    ],
)
def test_an_error_that_needs_a_terminal_or_a_gpu_is_known_by_its_words(said: str, begins: str) -> None:
    assert advice(said).startswith(begins)


@pytest.mark.parametrize(
    "said",
    [
        "",
        "ValueError: negative width",
        "NameError: name 'layer' is not defined",
        "FileNotFoundError: [Errno 2] No such file or directory: '/data/train.csv'",
        "ValueError: SystemExit is no loss",
    ],
)
def test_of_what_is_not_known_nothing_is_said(said: str) -> None:
    assert advice(said) == ""


def test_each_advice_is_whole_sentences() -> None:
    assert all(told[0].isupper() or told.startswith("{") for _, told in ADVICE)
    assert all(told.endswith(".") for _, told in ADVICE)
