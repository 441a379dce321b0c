"""Progress of a study at work: in place in a terminal and in a notebook, now and then elsewhere.

It is shown on standard error by the thread that waits, so that a script's own output stays its own.
Nothing here can hold the study up: that has a thread of its own.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

from etude.core.clock import WallClock
from etude.core.text import count, seconds
from etude.going_on import resume_command
from etude.results import Search
from etude.snapshot import Snapshot, line, render, snapshot
from etude.study import Study

LOOK_S: Final = 0.2
"""Seconds between two looks at the study."""

LINE_S: Final = 30.0
LINE_SHARE: Final = 0.1
"""Where nothing can be shown in place: a line when so much time *and* so many of the trials went by."""


class Display(Protocol):
    """Somewhere to show progress."""

    def show(self, look: Callable[[], Snapshot]) -> None:
        """Show how the study stands; ``look`` is called only if it is to be shown now."""
        ...

    def say(self, text: str) -> None:
        """Say something that stays."""
        ...


def watch(study: Study, search: Search, *, shown: bool | None = None) -> None:
    """Wait for a study to end, and show how it goes.

    Args:
        study: The study at work.
        search: What comes of it.
        shown: Whether to show it; None: unless ``ETUDE_PROGRESS`` is ``0``. Notes, and how to go on after an
            interruption, are said unless this is False.

    Raises:
        KeyboardInterrupt: Ctrl-C; the display is closed by then, the study goes on.
    """
    wanted = os.environ.get("ETUDE_PROGRESS") != "0" if shown is None else shown
    clock = WallClock()
    since_s, said = clock.now_s(), 0

    def look() -> Snapshot:
        return snapshot(
            study.history,
            name=search.name,
            trials=study.trials,
            workers=study.workers,
            since_s=since_s,
            now_s=clock.now_s(),
        )

    try:
        with _display(wanted) as display:
            over = False
            while not over:
                over = study.wait(LOOK_S)
                for note in study.notes[said:] if shown is not False else ():
                    display.say(note)
                    said += 1
                display.show(look)
    except KeyboardInterrupt:
        if shown is not False:
            finished = count(len(study.history.finished), "trial")
            command = resume_command(study.folder, search.meta)
            say(f"interrupted: {finished} finished; the same call goes on{f', or: {command}' if command else ''}")
        raise
    if wanted and study.error is None and not isinstance(display, Notebook):  # there the last picture stays
        say(f"{search.summary().splitlines()[0].removesuffix('.')}, {seconds(clock.now_s() - since_s)}.")


def say(text: str) -> None:
    """Write a line to standard error."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201


class Nothing:
    """Shows no progress; what is said stands on standard error."""

    def show(self, look: Callable[[], Snapshot]) -> None:
        """Show nothing."""

    def say(self, text: str) -> None:
        """Write a line."""
        say(text)


class Lines:
    """Writes a line now and then: for log files.

    Args:
        now_s: A clock that never runs backwards.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._at = now_s()
        self._ended: int | None = None  # how many trials had ended at the last line

    def show(self, look: Callable[[], Snapshot]) -> None:
        """Write a line if enough has happened since the last one."""
        if self._ended is None:
            self._ended = look().ended
        if self._now_s() - self._at < LINE_S:
            return
        now = look()
        if now.ended - self._ended >= LINE_SHARE * now.trials:
            self._at, self._ended = self._now_s(), now.ended
            self.say(line(now))

    def say(self, text: str) -> None:
        """Write a line."""
        say(text)


class Terminal:
    """Redraws in place.

    Args:
        live: A ``rich.live.Live`` that is on.
    """

    def __init__(self, live: Any) -> None:
        self._live = live

    def show(self, look: Callable[[], Snapshot]) -> None:
        """Draw how it stands."""
        self._live.update(render(look()), refresh=True)

    def say(self, text: str) -> None:
        """Write a line above."""
        self._live.console.print(text, markup=False, highlight=False)


class Notebook:
    """Redraws in the output of a notebook's cell.

    Args:
        display: ``IPython.display.display``.
    """

    def __init__(self, display: Callable[..., Any]) -> None:
        self._display = display
        self._handle: Any = None

    def show(self, look: Callable[[], Snapshot]) -> None:
        """Draw how it stands."""
        if self._handle is None:
            self._handle = self._display(render(look()), display_id=True)
        else:
            self._handle.update(render(look()))

    def say(self, text: str) -> None:
        """Write a line."""
        say(text)


@contextlib.contextmanager
def _display(wanted: bool) -> Iterator[Display]:
    if not wanted:
        yield Nothing()
    elif in_notebook():
        yield Notebook(sys.modules["IPython"].display.display)
    elif not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield Lines()
    else:
        from rich.console import Console
        from rich.live import Live

        # Redirection would send what a script prints to a file to the terminal instead.
        console = Console(stderr=True)
        with Live(
            console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
        ) as live:
            yield Terminal(live)


def in_notebook() -> bool:
    """Say whether this process is the kernel of a notebook; IPython in a terminal is none."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return hasattr(shell, "kernel")
