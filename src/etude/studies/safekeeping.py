"""When workers may forget an outcome: once it is in the journal, and in every mirror of the study."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Sequence

from etude.core.events import Release
from etude.store.mirror import Mirror
from etude.studies.crew import Crew
from etude.wire import messages


class Safekeeping:
    """The mirrors of a study, often none, and the outcomes that workers keep until these have them.

    Args:
        mirrors: Keep copies of the study elsewhere.
        crew: Its workers.
    """

    def __init__(self, mirrors: Sequence[Mirror], crew: Crew) -> None:
        self._mirrors = mirrors
        self._crew = crew
        self._kept: deque[tuple[int, Release]] = deque()  # with the last fact that the mirrors must have for it

    def attach(self, note: Callable[[str], None]) -> None:
        """See that the mirrors are this study's, and free; ``note`` takes what users should be told.

        Raises:
            StudyError: One is not.
        """
        for mirror in self._mirrors:
            mirror.attach(note)

    def start(self, loop: asyncio.AbstractEventLoop, fail: Callable[[BaseException], None]) -> None:
        """Let the mirrors copy what comes; ``fail`` takes why one ends the study."""

        def tell(what: Callable[[], None]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits for it any more
                loop.call_soon_threadsafe(what)

        for mirror in self._mirrors:
            mirror.start(fail=lambda error: tell(lambda: fail(error)), shipped=lambda: tell(self._let_go))

    def release(self, outcome: Release, upto: int) -> None:
        """Let a worker forget an outcome that is written down with fact ``upto`` of the journal, or earlier."""
        if self._mirrors:
            self._kept.append((upto, outcome))
        else:
            self._forget(outcome)

    def hurry(self) -> None:
        """Ship what workers wait for."""
        for mirror in self._mirrors if self._kept else ():
            mirror.wake()

    def close(self, upto: int) -> None:
        """Ship everything, up to fact ``upto``; this may take its time."""
        for mirror in self._mirrors:
            mirror.close(upto)

    def _let_go(self) -> None:
        """Let workers forget what all mirrors have."""
        upto = min(mirror.upto for mirror in self._mirrors)
        while self._kept and self._kept[0][0] <= upto:
            self._forget(self._kept.popleft()[1])
        self._crew.flush()

    def _forget(self, outcome: Release) -> None:
        self._crew.send(outcome.worker, messages.Forget(outcome.trial, outcome.attempt))
