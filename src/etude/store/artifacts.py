"""The files of a study's checkpoints: removed as soon as nobody needs them, by a thread of their own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from etude.places.depot import Depot, Found

FAILURES: Final = 3
"""After so many, the rest of what was to be removed at once is left for later."""


class Artifacts:
    """Keeps a depot from having more than is needed.

    Args:
        depot: Where the files are.
        note: Takes what users should be told, from any thread.
    """

    def __init__(self, depot: Depot, *, note: Callable[[str], None]) -> None:
        self._depot = depot
        self._note = note
        self._noted = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="etude-artifacts")

    def sweep(self, kept: Collection[tuple[int, str]]) -> None:
        """Remove what nobody needs, as after a kill."""
        self._remove(self._depot.files, kept)

    def tidy(self, trial: int, attempt: int, kept: Collection[str]) -> None:
        """Remove, soon, what an attempt that is over left behind, but for what is kept of its trial."""
        of_trial = {(trial, name) for name in kept}
        self._thread.submit(self._remove, lambda: self._depot.files_of(trial, attempt), of_trial)

    def discard(self, files: Iterable[tuple[int, str]]) -> None:
        """Remove files, soon."""
        files = tuple(files)
        self._thread.submit(self._try_each, [partial(self._depot.remove, trial, name) for trial, name in files])

    def then(self, what: Callable[[], object]) -> None:
        """Do something in the same thread, when what was to be removed is gone."""
        self._thread.submit(what)

    def close(self) -> None:
        """Wait until all is removed."""
        self._thread.shutdown()

    def _remove(self, look: Callable[[], list[Found]], kept: Collection[tuple[int, str]]) -> None:
        found: list[Found] = []
        self._try_each([lambda: found.extend(look())])
        self._try_each([file.remove for file in surplus(found, kept)])

    def _try_each(self, removals: Iterable[Callable[[], object]]) -> None:
        """Do all of it that can be done. What cannot be removed now is when the study goes on."""
        failures = 0
        for remove in removals:
            try:
                remove()
            except Exception as error:  # each kind of place has its own
                failures += 1
                self._say_once(error)
            if failures == FAILURES:  # a place that is out of reach takes its time to say so, each time
                return

    def _say_once(self, error: Exception) -> None:
        if not self._noted:
            self._noted = True
            self._note(
                f"Files of checkpoints that nobody needs any more cannot be removed ({type(error).__name__}: {error}). "
                "Those that stay are removed when the study goes on, or by `etude gc`."
            )


def surplus(found: Iterable[Found], kept: Collection[tuple[int, str]]) -> list[Found]:
    """Return those files that nobody needs.

    Args:
        found: What there is.
        kept: What is needed, as (trial, name).
    """
    return [file for file in found if not file.whole or (file.trial, file.name) not in kept]
