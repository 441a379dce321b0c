"""What was seen so far, and how it is written down."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

FEW = 40
"""So many frames of a traceback are kept."""
MOST_WAYS = 20
"""So many ways of calling a function are kept."""
MORE = "..."
HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


class Seen:
    """Keeps what was seen of this process.

    Args:
        spec: What was asked: ``out``, ``steps``, ``rows``, ``folder``.
        plain: The module of that name.
    """

    def __init__(self, spec: dict[str, Any], plain: Any) -> None:
        self.plain = plain
        self.steps_wanted: int = spec["steps"]
        self.rows: int | None = spec["rows"]
        self.folder = os.path.realpath(spec["folder"])
        self.began_in = os.getcwd()
        self._out: str = spec["out"]
        self._places: dict[str, str] = {}
        self.is_on = True
        self.is_busy = False
        self.is_ending = False
        self._next_step = 0
        self._ways: dict[str, list[str]] = {}
        self.facts: dict[str, Any] = {"why": "", "steps": 0, "unseen": []}
        self.before_writing: list[Callable[[], object]] = []

    def hook(self, function: Callable[..., object]) -> Callable[..., None]:
        """Return a function that looks: it never raises, and does nothing in other processes or while another looks."""

        def look(*args: Any, **kwargs: Any) -> None:
            if not self.is_on or self.is_busy:
                return
            self.is_busy = True
            try:
                function(*args, **kwargs)
            except Exception as error:  # the program must not know
                self.note(f"{function.__name__} could not look: {type(error).__name__}: {error}")
            finally:
                self.is_busy = False

        return look

    def note(self, text: str) -> None:
        """Say once what could not be seen."""
        if text not in self.facts["unseen"]:
            self.facts["unseen"].append(text)

    def take(self, name: str, way: str) -> None:
        """Keep once each way in which something is called."""
        ways = self._ways.setdefault(name, [])
        if way not in ways and len(ways) <= MOST_WAYS:
            ways.append(way if len(ways) < MOST_WAYS else MORE)

    def place(self, filename: str) -> str:
        """Return a file's path inside the project; empty if it lies elsewhere."""
        if filename not in self._places:
            self._places[filename] = self._place(filename)
        return self._places[filename]

    def _place(self, filename: str) -> str:
        if filename.startswith("<"):
            return ""
        path = os.path.realpath(os.path.join(self.began_in, filename))
        inside = path.startswith(self.folder + os.sep)
        return os.path.relpath(path, self.folder).replace(os.sep, "/") if inside else ""

    def write(self) -> None:
        """Write everything down; what was written before is replaced as a whole."""
        if not self.is_on:
            return
        was_busy, self.is_busy = self.is_busy, True
        try:
            self.facts["arguments"] = {name: sorted(ways) for name, ways in self._ways.items()}
            for update in self.before_writing:
                try:
                    update()
                except Exception as error:
                    self.note(f"{type(error).__name__} while facts were written: {error}")
            with open(self._out + ".new", "w", encoding="utf-8") as file:
                json.dump(self.facts, file)
            os.replace(self._out + ".new", self._out)
        except Exception as error:
            self.note(f"facts could not be written: {type(error).__name__}: {error}")
        finally:
            self.is_busy = was_busy

    def write_steps(self) -> None:
        """Write everything down after a step; the more there were, the more seldom, since each time all is written."""
        steps = self.facts["steps"]
        if steps >= self._next_step:
            self._next_step = steps + max(1, steps // 4)
            self.write()

    def enough(self) -> None:
        """End this process: nothing of the program runs any more, and so nothing of it can go wrong."""
        self.facts["why"] = "enough seen"
        self.is_ending = True
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:  # noqa: S112 - it may be closed
                continue
        self.write()
        os._exit(0)

    def finish(self) -> None:
        """Write down how it ended; Python calls this at its exit."""
        self.is_ending = True
        error = getattr(sys, "last_value", None)
        if error is not None and self.is_on:
            self.raised(error)
        elif not self.facts["why"]:
            self.facts["why"] = "finished"
        self.write()

    def raised(self, error: BaseException) -> None:
        """Keep what was raised, and where in the project."""
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if self.place(frame.filename)]
        where = f"{self.place(own[-1].filename)}:{own[-1].lineno} in {own[-1].name}" if own else ""
        if isinstance(error, SyntaxError) and error.filename and self.place(error.filename):
            where = f"{self.place(error.filename)}:{error.lineno}"
        told = traceback.TracebackException(type(error), error, error.__traceback__, limit=-FEW)
        self.facts["why"] = "raised"
        self.facts["error"] = {
            "error": type(error).__name__,
            "message": str(error),
            "frame": where,
            "traceback": "".join(_without_ours(told).format()),
        }

    def leave(self) -> None:
        """Look no more: this is a child of the watched process."""
        self.is_on = False
        sys.settrace(None)


def _without_ours(told: traceback.TracebackException) -> traceback.TracebackException:
    """Return a traceback, and those that led to it, without frames of what watches."""
    one: traceback.TracebackException | None = told
    while one is not None:
        one.stack = traceback.StackSummary.from_list([frame for frame in one.stack if HERE not in frame.filename])
        one = one.__cause__ or one.__context__
    return told
