"""A command as a training function: each trial runs it in a folder of its own, and the metric is what it leaves.

For programs that know nothing of Étude. Nothing is reported before the end, so no trial of such a study is stopped
early; and nothing of the model is seen, so whether runs are pairs is known from facts of the probe alone.
"""

from __future__ import annotations

import functools
import itertools
import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from etude.core.errors import CommandError, ConfigError, ResultError
from etude.core.text import count
from etude.mage.handover.metrics_of import Metric
from etude.mage.handover.running import run_to_end
from etude.mage.handover.travelling import Files

TAIL_LINES: Final = 40
NOT_TOLD: Final = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY")
"""What a written program has no business with: the keys of whoever wrote it."""
PROGRAM: Final = "program"
"""The folder of a trial in which the command runs."""


@dataclass(frozen=True)
class Command:
    """A command in a tree.

    Attributes:
        words: The program and its arguments; ``{seed}`` in them is the training seed.
        metric: Where its metric is.
        files: The tree that it runs in.
        search: Folders of the tree that Python finds modules in.
        limit_s: Seconds that it may take; None for any.
    """

    words: tuple[str, ...]
    metric: Metric
    files: Files
    search: tuple[str, ...] = (".",)
    limit_s: float | None = None

    @classmethod
    def read(
        cls,
        entry: str,
        metric: str,
        files: Files,
        *,
        more: tuple[str, ...] = (),
        search: tuple[str, ...] = (".",),
        limit_s: float | None = None,
    ) -> Command:
        """Return the command that a text says.

        Args:
            entry: The command, such as ``python train.py --seed {seed}``. No shell reads it.
            metric: Where the metric is, such as ``metrics.json:accuracy``.
            files: The tree.
            more: Arguments after those.
            search: Folders of the tree that Python finds modules in.
            limit_s: Seconds that it may take.

        Raises:
            ConfigError: It is no command, or takes no seed.
        """
        try:
            words = tuple(shlex.split(entry))
        except ValueError as error:
            raise ConfigError(f"{entry!r} is no command ({error}). Close its quotes.") from None
        if not words:
            raise ConfigError("There is no command. Give one such as 'python train.py --seed {seed}'.")
        if not any("{seed}" in word for word in words):
            raise ConfigError(
                f"{entry!r} takes no seed, so all trials of an arm would be one. Write {{seed}} where the program "
                "takes it: 'python train.py --seed {seed}'."
            )
        return cls((*words, *more), Metric.read(metric), files, search, limit_s)

    def trained(self, identity: str) -> Callable[..., Any]:
        """Return the training function of an experiment: it runs the command, and returns the metric.

        Args:
            identity: What tells this tree's patch from others; the study depends on it.
        """
        known = (self.words, self.metric.file, self.metric.name, self.files.digest, identity)
        return functools.partial(run_command, repr(known), self)

    def run(self, folder: Path, seed: int) -> float:
        """Run it in a folder that is made for it, and return its metric.

        Raises:
            CommandError: It failed, took too long, or left no metric; with the last lines that it printed.
        """
        self.files.lay(folder)
        if self.metric.file:
            (folder / self.metric.file).unlink(missing_ok=True)  # what an earlier run has left proves nothing
        words = [word.replace("{seed}", str(seed)) for word in self.words]
        shown = shlex.join(words)
        if words[0] in ("python", "python3"):
            words[0] = sys.executable
        try:
            done = run_to_end(
                words, folder, environment=self._environment(folder), limit_s=self.limit_s, show=sys.stdout.write
            )
        except FileNotFoundError:
            raise CommandError(f"`{shown}`: there is no program {words[0]!r} on this machine. Install it.") from None
        sys.stdout.flush()
        if done.timed_out:
            assert self.limit_s is not None
            raise CommandError(f"`{shown}` took longer than {self.limit_s:g} s and was ended.{_tail(done.printed)}")
        if done.code:
            how = f"ended with code {done.code}" if done.code > 0 else f"was killed by signal {-done.code}"
            raise CommandError(f"`{shown}` {how}.{_tail(done.printed)}")
        try:
            return self.metric.found(folder, done.printed)
        except ResultError as error:
            raise CommandError(f"`{shown}` ended well, but: {error}{_tail(done.printed)}") from None

    def _environment(self, folder: Path) -> dict[str, str]:
        """Return the command's environment: modules are found in its own tree before any other place."""
        own = [str(folder / place) for place in self.search]
        path = os.pathsep.join([*own, *filter(None, [os.environ.get("PYTHONPATH")])])
        told = {name: value for name, value in os.environ.items() if name not in NOT_TOLD}
        return {**told, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}


def run_command(identity: str, command: Command, /, run: Any, seed: int) -> dict[str, float]:
    """Run a command for one trial, in a folder of that trial, and report its metric at the end."""
    folders = (Path(run.folder) / (f"{PROGRAM}-{n}" if n else PROGRAM) for n in itertools.count())
    value = command.run(next(folder for folder in folders if not folder.exists()), seed)
    found = {command.metric.name: value}
    run.report(found)
    return found


def _tail(printed: str) -> str:
    lines = printed.rstrip().splitlines()
    if not lines:
        return " It printed nothing."
    shown = lines[-TAIL_LINES:]
    cut = f" (of {len(lines)})" if len(lines) > len(shown) else ""
    return f" The last {count(len(shown), 'line')}{cut} that it printed:\n" + "\n".join(shown)
