"""A user's own parts of a report: functions of a study, whose figures and tables land on its page."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from etude.analyse.report.page import Section, table
from etude.analyse.report.tables import Table
from etude.analyse.report.words import safe
from etude.core.errors import ConfigError
from etude.core.text import brief

Function = TypeVar("Function", bound=Callable[[Any], Any])

MOST_ROWS: Final = 1000


@dataclass(frozen=True)
class Own:
    """A function that gives a part of a report, and its title."""

    title: str
    function: Callable[[Any], Any]


REGISTERED: Final[dict[str, Own]] = {}
"""By title; what is registered again takes the place of what was."""


def report_section(title: str) -> Callable[[Function], Function]:
    """Have a function of a study give a part of every report that this process writes.

    It returns a text, a picture as SVG text, rows of a table (a list of dicts, or a data frame), something with
    ``savefig`` such as a figure of matplotlib, or a list of these. If it raises, the report says so,
    and the rest stands.

    Args:
        title: What the part is called.

    Raises:
        ConfigError: ``title`` is no text.

    Example:
        >>> @report_section("Longest trials")
        ... def longest(study):
        ...     return [{"trial": trial.number, "seconds": trial.duration_s} for trial in study.trials]
        >>> _ = REGISTERED.pop("Longest trials")
    """
    if not isinstance(title, str) or not title.strip():
        raise ConfigError(
            f"report_section({brief(title)}) is no title. "
            "Write the decorator with one: @etude.report_section('My table')."
        )

    def register(function: Function) -> Function:
        REGISTERED[title] = Own(title, function)
        return function

    return register


def read_sections(given: Sequence[Any]) -> list[Own]:
    """Return what was registered, and what is given for one report: functions, or pairs of a title and a function.

    Raises:
        ConfigError: Something is neither.
    """
    found = dict(REGISTERED)
    for one in given:
        if isinstance(one, Sequence) and not isinstance(one, str) and len(one) == 2 and callable(one[1]):  # noqa: PLR2004
            found[str(one[0])] = Own(str(one[0]), one[1])
        elif callable(one):
            title = str(getattr(one, "__name__", type(one).__name__)).replace("_", " ").capitalize()
            found[title] = Own(title, one)
        else:
            raise ConfigError(
                f"sections=[{brief(one)}] cannot be. Pass functions of a study, or pairs of a title and a function."
            )
    return list(found.values())


def own_section(own: Own, study: Any, key: str) -> Section:
    """Return the part that a function gives of a study, or what went wrong."""
    try:
        body = _body(own.function(study), own.title)
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        name = getattr(own.function, "__name__", "its function")
        body = f'<p class="broken">{safe(name)} raised, so there is nothing here. {safe(said[:2000])}</p>'
    return Section(own.title, key, body)


def _body(value: Any, title: str) -> str:
    if value is None:
        return '<p class="lead">It has nothing to show.</p>'
    if isinstance(value, str):
        svg = value.lstrip()
        return f"<figure>{svg}</figure>" if svg.startswith("<svg") else "".join(map(_paragraph, value.split("\n\n")))
    if hasattr(value, "savefig"):
        text = io.StringIO()
        value.savefig(text, format="svg")
        drawn = text.getvalue()
        return f"<figure>{drawn[max(0, drawn.find('<svg')) :]}</figure>"
    if hasattr(value, "to_dict") and hasattr(value, "columns"):
        value = value.to_dict("records")
    if isinstance(value, Mapping):
        value = [value]
    if isinstance(value, list | tuple):
        if value and all(isinstance(row, Mapping) for row in value):
            return table(_as_table(value, title), caption=False)
        return "".join(_body(one, title) for one in value)
    raise ConfigError(
        f"It returned {brief(value)}. "
        "Return a text, SVG, a list of dicts, a data frame, a figure with savefig, or a list of these."
    )


def _paragraph(text: str) -> str:
    return f"<p>{safe(text.strip())}</p>" if text.strip() else ""


def _as_table(rows: Sequence[Mapping[Any, Any]], title: str) -> Table:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    note = f"The first {MOST_ROWS:,} of {len(rows):,} rows." if len(rows) > MOST_ROWS else ""
    cells = tuple(tuple(_value(row.get(name)) for name in columns) for row in rows[:MOST_ROWS])
    return Table("own", title, tuple(map(str, columns)), cells, note)


def _value(value: Any) -> Any:
    """Return a value of a cell as a plain one: numbers of numpy are numbers."""
    if hasattr(value, "item") and not isinstance(value, str | bytes):
        value = value.item()
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
