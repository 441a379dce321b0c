"""What a control group allows a training: memory, and a share of the cores.

The process and all its descendants get a group of their own when the limits are opened, and not when the first one is
set: memory is charged to the group in which it was taken, so a limit that comes later would not count what was there.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, final

from etude.system import wants
from etude.system.applied.part import Refused
from etude.system.applied.tree import Kernel, Linux, Tree
from etude.system.groups import GROUPS, PROC, groups_of, text
from etude.system.knobs import Value

CONTROLLER: Final = {"memory_limit": "memory", "cpu_share": "cpu"}
"""Knob -> what limits it."""
NONE: Final[Mapping[str, Value]] = {"memory_limit": None, "cpu_share": 1.0}
"""Knob -> the value that is no limit."""
GB: Final = 2**30
PERIOD_US: Final = 100_000
NOT_OURS: Final = (errno.EACCES, errno.EPERM, errno.EROFS)
HELD: Final = {1: "total_rss", 2: "anon"}
"""Version -> the line of ``memory.stat`` that cannot be given back."""


@final
class Limits:
    """Memory in GB, and a share of the cores, for a process and its descendants.

    Args:
        names: The knobs that are wanted.
        cores: Of which ``cpu_share`` is a share.
        pid: The process; None for this one.
        kernel: Does what is done to groups.
        proc: Where /proc is.
        groups: Where control groups are mounted.

    Raises:
        Refused: There are no control groups, or they are not ours.
        OSError: The system does not allow it. Then all is as before.
    """

    def __init__(
        self,
        names: Sequence[str],
        *,
        cores: int,
        pid: int | None = None,
        kernel: Kernel | None = None,
        proc: Path = PROC,
        groups: Path = GROUPS,
    ) -> None:
        self.mended = ""  # a group of a process that was killed limits nobody
        self._cores, self._names = cores, tuple(names)
        self._tree = Tree(kernel or Linux(), proc)
        self._homes: dict[Path, Path] = {}
        self._groups: dict[str, Path] = {}
        pid = os.getpid() if pid is None else pid
        self._version = groups_of(pid, proc=proc, groups=groups).version
        try:
            self._begin(pid, proc, groups)
        except Exception as error:
            with contextlib.suppress(OSError):  # what ended the attempt to begin is what is said
                self.close()
            if isinstance(error, OSError) and error.errno in NOT_OURS:
                raise Refused(wants.GROUPS[self._version]) from None
            raise

    @property
    def now(self) -> Mapping[str, Value]:
        """No limit of ours; those of the groups around are there all the same."""
        return {name: NONE[name] for name in self._names}

    def put(self, name: str, value: Value) -> None:
        """Set a limit; the value that is none removes it."""
        group = self._groups[CONTROLLER[name]]
        if name == "memory_limit" and value is not None:
            self._refuse_less_than_held(group, float(value))
        for file, said in spelled(self._version, name, value, self._cores).items():
            self._tree.kernel.write(group / file, said)

    def close(self) -> None:
        """Move all processes back to where they were, and remove the group."""
        wrong = None
        while self._homes:
            group, home = self._homes.popitem()
            try:
                self._tree.end(group, home)
            except OSError as error:
                wrong = error
        if wrong is not None:
            raise wrong

    def _begin(self, pid: int, proc: Path, groups: Path) -> None:
        controllers = [CONTROLLER[name] for name in self._names]
        for controller in controllers:
            ours = groups_of(pid, proc=proc, groups=groups)
            if controller not in ours.folders:
                raise Refused(wants.GROUPS[self._version])
            home = ours.folders[controller]
            if home in self._homes:  # version 2, where one group has both
                self._groups[controller] = home
                continue
            if self._version > 1:
                self._tree.hand_on(home, pid, controllers)
                home = groups_of(pid, proc=proc, groups=groups).folders[controller]
            self._groups[controller] = group = self._tree.begin(home, pid)
            self._homes[group] = home

    def _refuse_less_than_held(self, group: Path, limit_gb: float) -> None:
        """Refuse a limit that would end the training: the kernel kills who holds more."""
        lines = (line.split() for line in text(group / "memory.stat").splitlines())
        held_gb = next((int(told) / GB for name, told in lines if name == HELD[self._version]), 0.0)
        if held_gb > limit_gb:
            raise Refused(f"the training holds {held_gb:.1f} GB already, and would be ended by {limit_gb:g} GB.")


def spelled(version: int, name: str, value: Value, cores: int) -> dict[str, str]:
    """Return the files of a group, and what to write into them, in order.

    Example:
        >>> spelled(2, "cpu_share", 0.5, cores=4)
        {'cpu.max': '200000 100000'}
        >>> spelled(1, "memory_limit", None, cores=4)
        {'memory.limit_in_bytes': '-1'}
    """
    is_none = value == NONE[name]
    if name == "memory_limit":
        size = str(round(float(value or 0) * GB))
        return (
            {"memory.max": "max" if is_none else size}
            if version > 1
            else {"memory.limit_in_bytes": "-1" if is_none else size}
        )
    quota = str(max(1000, round(float(value or 0) * cores * PERIOD_US)))
    if version > 1:
        return {"cpu.max": f"{'max' if is_none else quota} {PERIOD_US}"}
    return {"cpu.cfs_period_us": str(PERIOD_US), "cpu.cfs_quota_us": "-1" if is_none else quota}
