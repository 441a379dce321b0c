"""Progress of a study at work, or of a long computation.

In place in a terminal and in a notebook, now and then elsewhere. It is shown on standard error by the thread that
waits, so that a script's own output stays its own. Nothing here can hold a study up: that has a thread of its own.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from etude.core.clock import Clock
from etude.core.history import History
from etude.core.text import count, seconds
from etude.launching.snapshot import Snapshot, line, render, snapshot
from etude.results.going_on import resume_command
from etude.results.search import Search
from etude.results.summary import why_not
from etude.studies.notes import say

LOOK_S: Final = 0.2
"""Seconds between two looks at the study."""

LINE_S: Final = 30.0
LINE_SHARE: Final = 0.1
"""Where nothing can be shown in place: a line when so much time *and* so many of the trials went by."""


class AtWork(Protocol):
    """A study at work, real or simulated, as other threads see it."""

    folder: Path
    history: History
    error: BaseException | None

    @property
    def notes(self) -> list[str]:
        """What users should be told of this run."""
        ...

    @property
    def clock(self) -> Clock:
        """The clock that its times are by."""
        ...

    @property
    def workers(self) -> int:
        """How many workers it is given."""
        ...

    @property
    def trials(self) -> int:
        """How many trials it will have, at most."""
        ...

    @property
    def meta(self) -> Mapping[str, Any]:
        """What is recorded about the study by now."""
        ...

    @property
    def over(self) -> bool:
        """Whether it has ended, for this driver."""
        ...

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for its end; return whether it has come."""
        ...

    def unsaid(self) -> list[str]:
        """Return the notes that nobody has said yet."""
        ...

    def stop(self, reason: str = ...) -> None:
        """Have it wind down; it can go on later."""
        ...


@dataclass(frozen=True)
class Counted:
    """How far a computation is that is no study at work.

    Attributes:
        text: That, for people.
        ended: How many parts of it are done.
        trials: How many make it worth a line, ten times over.
    """

    text: str
    ended: int
    trials: int


class Display(Protocol):
    """Somewhere to show progress."""

    def show(self, look: Callable[[], Snapshot | Counted]) -> None:
        """Show how the work stands; ``look`` is called only if it is to be shown now."""
        ...

    def say(self, text: str) -> None:
        """Say something that stays."""
        ...


@contextlib.contextmanager
def told_to_leave() -> Iterator[None]:
    """Have SIGTERM and SIGHUP end a block as Ctrl-C does, by SystemExit, unless the script has its own way with them.

    This is how schedulers, containers and closing terminals ask a process to leave, some seconds before they kill it.
    """

    def leave(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    ours = [signal.SIGTERM, signal.SIGHUP] if threading.current_thread() is threading.main_thread() else []
    ours = [number for number in ours if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def watch(study: AtWork, search: Search, *, shown: bool | None = None) -> None:
    """Wait for a study to end, and show how it goes.

    Args:
        study: The study at work.
        search: What comes of it.
        shown: Whether to show it; None: unless ``ETUDE_PROGRESS`` is ``0``. How to go on after an interruption, and
            which limit was reached, is said unless this is False; notes are said in any case.

    Raises:
        KeyboardInterrupt: Ctrl-C; the display is closed by then, and the study has wound down.
        SystemExit: SIGTERM or SIGHUP, likewise.
    """
    wanted = _is_wanted(shown)
    clock = study.clock  # virtual, if the study is
    since_s = clock.now_s()
    display: Display = Nothing()

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
        with told_to_leave(), _display(wanted) as display:
            over = False
            while not over:
                over = study.wait(LOOK_S)
                for note in study.unsaid():
                    display.say(note)
                display.show(look)
    except (KeyboardInterrupt, SystemExit):
        if shown is not False:
            finished = count(len(study.history.finished), "trial")
            command = resume_command(study.folder, search.meta)
            say(f"interrupted: {finished} finished; the same call goes on{f', or: {command}' if command else ''}")
        study.stop("interrupted")
        study.wait()
        for note in study.unsaid():
            say(note)
        if isinstance(display, Notebook):  # the last picture stays, so it has to be true
            display.show(look)
        raise
    if wanted and study.error is None and not isinstance(display, Notebook):  # there the last picture stays
        say(f"{search.summary().splitlines()[0].removesuffix('.')}, {seconds(clock.now_s() - since_s)}.")
        _say_why_none(study)
    if shown is not False and search.limit:
        say(f"{search.why}.")


def _say_why_none(study: AtWork) -> None:
    """Say why no trial finished, if none did."""
    if not study.history.finished:
        for reason in why_not(study.history, study.folder):
            say(reason)


@contextlib.contextmanager
def counting(shown: bool | None = None) -> Iterator[Callable[[Counted], None]]:
    """Show how far a computation is, where a study would be shown; yield what takes that, as often as one likes.

    Args:
        shown: Whether to show it; None: unless ``ETUDE_PROGRESS`` is ``0``.
    """
    next_s = -math.inf
    last: Counted | None = None
    with _display(_is_wanted(shown)) as display:

        def step(counted: Counted) -> None:
            nonlocal next_s, last
            last = counted
            if (now_s := time.monotonic()) >= next_s:
                next_s = now_s + LOOK_S
                display.show(lambda: counted)

        yield step
        if isinstance(display, Notebook) and last is not None:  # the last picture stays, so it has to be true
            stays = last
            display.show(lambda: stays)


_PLAN_IS_SAID: Final[ContextVar[bool]] = ContextVar("_PLAN_IS_SAID", default=False)


def say_plan(plan: object, *, shown: bool | None = None) -> None:
    """Say what a study is going to do before it begins, unless that was said with a larger plan that it is part of.

    Args:
        plan: What it is; as text it is what people read.
        shown: Whether to say it; None: unless ``ETUDE_PROGRESS`` is ``0``.
    """
    if _is_wanted(shown) and not _PLAN_IS_SAID.get():
        say(str(plan))


@contextlib.contextmanager
def plan_is_said() -> Iterator[None]:
    """Have studies in a block begin without a word on their plans: it was said what all of them will do."""
    token = _PLAN_IS_SAID.set(True)
    try:
        yield
    finally:
        _PLAN_IS_SAID.reset(token)


class Nothing:
    """Shows no progress; what is said stands on standard error."""

    def show(self, look: Callable[[], Snapshot | Counted]) -> None:
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

    def show(self, look: Callable[[], Snapshot | Counted]) -> None:
        """Write a line if enough has happened since the last one."""
        if self._ended is None:
            self._ended = look().ended
        if self._now_s() - self._at < LINE_S:
            return
        now = look()
        if now.ended - self._ended >= LINE_SHARE * now.trials:
            self._at, self._ended = self._now_s(), now.ended
            self.say(now.text if isinstance(now, Counted) else line(now))

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

    def show(self, look: Callable[[], Snapshot | Counted]) -> None:
        """Draw how it stands."""
        self._live.update(_picture(look()), refresh=True)

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

    def show(self, look: Callable[[], Snapshot | Counted]) -> None:
        """Draw how it stands."""
        if self._handle is None:
            self._handle = self._display(_picture(look()), display_id=True)
        else:
            self._handle.update(_picture(look()))

    def say(self, text: str) -> None:
        """Write a line."""
        say(text)


def _is_wanted(shown: bool | None) -> bool:
    return os.environ.get("ETUDE_PROGRESS") != "0" if shown is None else shown


def _picture(now: Snapshot | Counted) -> Any:
    from rich.text import Text

    return Text(now.text) if isinstance(now, Counted) else render(now)


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
