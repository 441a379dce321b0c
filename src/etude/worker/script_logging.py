"""What the user's script has set up for `logging`, taken along to the attempts.

A call of ``logging.basicConfig`` in a script configures the process of the script alone. Attempts get its level and
the format of its messages; theirs go to standard error, and so into the log of the attempt.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Literal

from etude.wire.messages import Logging

if TYPE_CHECKING:
    import logging


def as_set_up() -> Logging | None:
    """Return how the root logger of this process is set up; None if it is not."""
    if "logging" not in sys.modules:
        return None
    import logging

    root = logging.getLogger()
    handlers = [handler for handler in root.handlers if not isinstance(handler, logging.NullHandler)]
    if not handlers:
        return None
    level = max(root.level, min(handler.level for handler in handlers))  # what none of them takes is not shown either
    plain = Logging(level, logging.BASIC_FORMAT)
    formatter = next((handler.formatter for handler in handlers if handler.formatter is not None), None)
    return plain if formatter is None else _as_text(formatter, level) or plain


def set_up(settings: Logging | None) -> None:
    """Have log records printed to standard error, unless a module of the user's took care of them already."""
    if settings is None:
        return
    import logging

    logging.basicConfig(
        level=settings.level, format=settings.format, datefmt=settings.datefmt, style=settings.style, stream=sys.stderr
    )


def _as_text(formatter: logging.Formatter, level: int) -> Logging | None:
    """Return a formatter as the text that it was made of; None if it does more than that text says.

    It does if the text names what only a filter or the formatter itself brings along.
    """
    import logging

    styles: dict[type, Literal["%", "{", "$"]] = {
        logging.PercentStyle: "%",
        logging.StrFormatStyle: "{",
        logging.StringTemplateStyle: "$",
    }
    style = styles.get(type(getattr(formatter, "_style", None)))  # a subclass may leave out what it does not need
    text, datefmt = getattr(formatter, "_fmt", None), getattr(formatter, "datefmt", None)
    if style is None or text is None:
        return None
    record = logging.LogRecord("name", logging.INFO, "path", 0, "message", (), None)
    try:
        logging.Formatter(text, datefmt, style).format(record)
    except (KeyError, ValueError, TypeError):
        return None
    return Logging(level, text, datefmt, style)
