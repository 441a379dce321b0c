"""The tools that a study can be exported to, by name, and what is checked before anything is written."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from etude.core.errors import ConfigError
from etude.core.text import brief
from etude.exports.told import Exported, Study


@dataclass(frozen=True)
class Target:
    """A tool.

    Attributes:
        module: Where the export to it is; its ``write(study, into, name=...)`` is called.
        needs: The package that has to be installed.
        extra: The extra of ours that brings it; empty if it is always there.
        places: What ``into`` may be, with an example.
    """

    module: str
    needs: str
    extra: str
    places: str


TARGETS: Final[Mapping[str, Target]] = {
    "tensorboard": Target(
        "etude.exports.tensorboard",
        "tensorboard",
        "tensorboard",
        "the folder that TensorBoard looks at, such as 'runs'",
    ),
    "mlflow": Target("etude.exports.mlflow", "mlflow", "mlflow", "a tracking URI, such as 'sqlite:///mlflow.db'"),
    "optuna": Target(
        "etude.exports.optuna",
        "optuna",
        "",
        "the URL of a database, such as 'sqlite:///optuna.db', or the path of a journal file, such as 'optuna.log'",
    ),
}
"""Name -> tool. Where a tool knows a place by itself, ``into`` may be left out; see ``KNOWS_A_PLACE``."""

KNOWS_A_PLACE: Final = frozenset({"mlflow"})
"""Tools with a setting of their own that says where things go."""


def export(study: Study, to: str, *, into: str | os.PathLike[str] | None, name: str | None = None) -> Exported:
    """Write a study where a tool finds it; what an earlier export wrote there is brought up to date.

    Args:
        study: The study.
        to: The tool's name.
        into: Where; what that may be is up to the tool.
        name: What the study is called there; its own name if left out.

    Raises:
        ConfigError: There is no such tool, it is not installed, or the place cannot be.
    """
    target = TARGETS.get(to) if isinstance(to, str) else None
    if target is None:
        told = ", ".join(map(repr, TARGETS))
        raise ConfigError(
            f"A study cannot be exported to {brief(to)}. Pass one of {told}; for tables there are search.frame() and "
            "`etude export STUDY -o FILE`."
        )
    if into is None and to not in KNOWS_A_PLACE:
        raise ConfigError(f"An export to {to!r} has to know where. Pass into=: {target.places}.")
    if into is not None and not os.fspath(into):
        raise ConfigError(f"into={os.fspath(into)!r} is no place. Pass {target.places}.")
    if name is not None and (not isinstance(name, str) or not name.strip()):
        raise ConfigError(f"name={brief(name)} is no name. Pass what the study is to be called, or leave it out.")
    if find_spec(target.needs) is None:
        raise ConfigError(
            f"An export to {to!r} needs {target.needs}, which is not installed here: "
            f"pip install 'etude[{target.extra}]'."
        )
    done: Exported = importlib.import_module(target.module).write(study, into, name=name or study.name)
    return done


SQLITE: Final = frozenset({".db", ".sqlite", ".sqlite3"})
MAGIC: Final = b"SQLite format 3\0"


def is_url(into: str | os.PathLike[str]) -> bool:
    """Say whether a place is a URL, and no path."""
    return "://" in os.fspath(into)


def sqlite_url(path: Path) -> str | None:
    """Return the URL of the SQLite database at a path; None if the path is of another file.

    Example:
        >>> sqlite_url(Path("a/b.db")), sqlite_url(Path("/a/b.sqlite3")), sqlite_url(Path("a/b.log"))
        ('sqlite:///a/b.db', 'sqlite:////a/b.sqlite3', None)
    """
    if path.is_file() and path.stat().st_size:
        with path.open("rb") as file:
            is_one = file.read(len(MAGIC)) == MAGIC
    else:
        is_one = path.suffix.lower() in SQLITE
    return f"sqlite:///{path}" if is_one else None


def without_password(text: str) -> str:
    """Return a URL, or a text with URLs, in which no password can be read.

    Example:
        >>> without_password("postgresql://me:secret@host/studies"), without_password("sqlite:///a:b@c.db")
        ('postgresql://me:***@host/studies', 'sqlite:///a:b@c.db')
    """
    return re.sub(r"(://[^:/@\s]*):[^@/\s]*@", r"\1:***@", text)


def taken_by_another(name: str, place: str, *, what: str) -> ConfigError:
    """Return the error for a place where something else has the study's name."""
    return ConfigError(
        f"{place} has {what} called {name!r} already, which did not come of this study. "
        "Pass another name for this one, name=..., or another place."
    )
