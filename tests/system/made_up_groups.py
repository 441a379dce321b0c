"""Control groups as folders, with the rules of the kernel that matter."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path

FILES = {
    "cpu": {1: {"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"}, 2: {"cpu.max": "max 100000"}},
    "memory": {
        1: {"memory.limit_in_bytes": "9223372036854771712", "memory.stat": "total_rss 0"},
        2: {"memory.max": "max", "memory.stat": "anon 0"},
    },
}
"""Controller -> version -> the files that it has in a group."""


class MadeUpGroups:
    """A kernel with control groups and processes.

    Args:
        root: A folder for both.
        version: Of the control groups.
        family: Process -> its parent.
        place: The group that all of them are in.
        lacks: Controllers that there are not, in version 2.
    """

    def __init__(
        self, root: Path, version: int, family: dict[int, int], *, place: str = "/job", lacks: tuple[str, ...] = ()
    ) -> None:
        self.version, self.family = version, dict(family)
        self.proc, self.groups = root / "proc", root / "groups"
        self.controllers = [name for name in FILES if name not in lacks]
        self.forbidden: set[str] = set()
        self.hands_on = True
        self.before_move: Callable[[int], None] = lambda _: None
        self.trees = [self.groups / name for name in FILES] if version == 1 else [self.groups]
        for tree in self.trees:
            tree.mkdir(parents=True)
            self._fill(tree)
            if place != "/":
                if version == 2:
                    self._put(tree / "cgroup.subtree_control", " ".join(self.controllers))
                self.make(Path(f"{tree}{place}"))
        for pid in family:
            for tree in self.trees:
                self._add(Path(f"{tree}{place}"), pid)
            self._show(pid)

    # What is done to it.

    def write(self, file: Path, said: str) -> None:
        self._check(file.parent)
        if not file.exists():
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(file))
        if file.name == "cgroup.procs":
            self._move(file.parent, int(said))
        elif file.name == "cgroup.subtree_control":
            if self.members(file.parent) and file.parent != self.groups:
                raise OSError(errno.EBUSY, "Device or resource busy", str(file))
            if not self.hands_on:
                raise PermissionError(errno.EACCES, "Permission denied", str(file))
            names = sorted({*file.read_text().split(), *(name.removeprefix("+") for name in said.split())})
            assert set(names) <= set(self.controllers)
            self._put(file, " ".join(names))
            for group in file.parent.glob("*/"):
                self._fill(group)
        else:
            self._put(file, said)

    def make(self, folder: Path) -> None:
        self._check(folder.parent)
        folder.mkdir()
        self._fill(folder)

    def remove(self, folder: Path) -> None:
        if not folder.exists():
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(folder))
        if self.members(folder) or list(folder.glob("*/")):
            raise OSError(errno.EBUSY, "Device or resource busy", str(folder))
        shutil.rmtree(folder)

    def start(self, pid: int, parent: int) -> None:
        """Start a process, which is where its parent is."""
        self.family[pid] = parent
        for tree in self.trees:
            self._add(next(g for g in self._all(tree) if parent in self.members(g)), pid)
        self._show(pid)
        self._show(parent)

    # What there is.

    def members(self, group: Path) -> list[int]:
        return [int(pid) for pid in (group / "cgroup.procs").read_text().split()]

    def places(self, name: str = "cpu") -> dict[int, str]:
        """Return where each process is, in the tree of a controller."""
        tree = self.groups / name if self.version == 1 else self.groups
        return {
            pid: f"/{group.relative_to(tree)}" if group != tree else "/"
            for group in self._all(tree)
            for pid in self.members(group)
        }

    def says(self, place: str, file: str) -> str:
        tree = self.groups / file.partition(".")[0] if self.version == 1 else self.groups
        return Path(f"{tree}{place}", file).read_text()

    @staticmethod
    def _all(tree: Path) -> list[Path]:
        return [tree, *(folder for folder in sorted(tree.rglob("*")) if folder.is_dir())]

    def _check(self, folder: Path) -> None:
        if any(f"{folder}/".startswith(f"{self.groups}/{name}") for name in self.forbidden):
            raise PermissionError(errno.EACCES, "Permission denied", str(folder))

    def _move(self, group: Path, pid: int) -> None:
        self.before_move(pid)
        if pid not in self.family:
            raise ProcessLookupError(errno.ESRCH, "No such process")
        if self.version == 2 and group != self.groups and (group / "cgroup.subtree_control").read_text().strip():
            raise OSError(errno.EBUSY, "Device or resource busy", str(group))
        tree = next(tree for tree in self.trees if group.is_relative_to(tree))
        for other in self._all(tree):
            self._put(other / "cgroup.procs", "\n".join(str(one) for one in self.members(other) if one != pid))
        self._add(group, pid)
        self._show(pid)

    def _add(self, group: Path, pid: int) -> None:
        self._put(group / "cgroup.procs", "\n".join(map(str, [*self.members(group), pid])))

    def _fill(self, group: Path) -> None:
        """Make the files of a group that are not there yet."""
        wanted = {"cgroup.procs": ""}
        if self.version == 1:
            tree = next(tree for tree in self.trees if group.is_relative_to(tree))
            wanted |= FILES[tree.name][1]
        else:
            is_root = group == self.groups
            around = [] if is_root else (group.parent / "cgroup.subtree_control").read_text().split()
            wanted |= {"cgroup.controllers": " ".join(self.controllers if is_root else around)}
            wanted |= {"cgroup.subtree_control": ""}
            for name in around:
                wanted |= FILES[name][2]
        for name, said in wanted.items():
            if not (group / name).exists():
                self._put(group / name, said)

    @staticmethod
    def _put(file: Path, said: str) -> None:
        file.write_text(f"{said}\n" if said else "")

    def _show(self, pid: int) -> None:
        """Write what /proc says of a process."""
        folder = self.proc / str(pid) / "task" / str(pid)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "children").write_text(" ".join(str(one) for one, of in self.family.items() if of == pid))
        (self.proc / str(pid) / "stat").write_text(f"{pid} (a (name) with brackets) S {self.family[pid]} 0 0\n")
        names = list(FILES) if self.version == 1 else [""]
        places = [(nth, name, self.places(name).get(pid, "/")) for nth, name in enumerate(names)]
        (self.proc / str(pid) / "cgroup").write_text("".join(f"{nth}:{name}:{at}\n" for nth, name, at in places))
