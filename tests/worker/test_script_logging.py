"""What a script set up for `logging` is read as it is, and taken along only where plain text can say it."""

from __future__ import annotations

import contextlib
import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest

from etude.wire.messages import Logging
from etude.worker import script_logging


@contextlib.contextmanager
def bare_root() -> Iterator[logging.Logger]:
    """The root logger of a script, without what pytest put there when the test began."""
    root = logging.getLogger()
    level, handlers, root.handlers = root.level, root.handlers, []
    try:
        yield root
    finally:
        root.handlers = handlers
        root.setLevel(level)


def with_formatter(formatter: logging.Formatter | None, level: int = 0) -> logging.Handler:
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    handler.setLevel(level)
    return handler


class Framed(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        record.frame = "|"
        return super().format(record)


class Bare(logging.Formatter):
    def __init__(self) -> None:
        """Leave out what the base class sets up."""


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, Logging(20, logging.BASIC_FORMAT)),
        ({"format": "%(asctime)s %(message)s", "datefmt": "%H"}, Logging(20, "%(asctime)s %(message)s", "%H")),
        ({"format": "{levelno:03d} {message}", "style": "{"}, Logging(20, "{levelno:03d} {message}", None, "{")),
        ({"format": "$message", "style": "$"}, Logging(20, "$message", None, "$")),
    ],
)
def test_what_basic_config_was_told_is_told_again(settings: dict, told: Logging) -> None:
    with bare_root():
        logging.basicConfig(level=logging.INFO, **settings)
        assert script_logging.as_set_up() == told


def test_the_first_formatter_counts_if_text_can_say_it_and_the_lowest_level() -> None:
    with bare_root() as root:
        assert script_logging.as_set_up() is None
        root.setLevel(logging.DEBUG)
        root.handlers = [logging.NullHandler()]
        assert script_logging.as_set_up() is None
        root.handlers = [with_formatter(None, 40), with_formatter(logging.Formatter("%(message)s"), 30)]
        assert script_logging.as_set_up() == Logging(30, "%(message)s")
        for formatter in (Framed("%(frame)s %(message)s"), Bare()):
            root.handlers = [with_formatter(formatter)]
            assert script_logging.as_set_up() == Logging(10, logging.BASIC_FORMAT)


def test_without_a_set_up_a_worker_does_not_import_logging() -> None:
    text = (
        "import sys, etude.worker.supervisor\n"
        "from etude.worker.script_logging import as_set_up, set_up\n"
        "set_up(as_set_up())\n"
        "print('logging' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout == "False\n"
