"""Freezes the files of a project: texts that the program is made of, and never keys, data or what was computed.

Whatever is left out is told, and why. Nothing outside the folder is read: symbolic links are not followed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from etude.core.errors import ConfigError
from etude.core.text import visible
from etude.mage.sources.entry import entry_file, words_of
from etude.mage.sources.sorting import why_not_content, why_not_folder, why_not_name
from etude.mage.tree import Tree
from etude.mage.values import Value

MOST_ENTRIES: Final = 200_000
"""So many files and folders are looked at; where there are more, the folder is no project's."""
MOST_FILES: Final = 5_000
TOGETHER: Final = 10
"""From so many files in one folder that are left out for one reason, they are told as one."""
GIT_S: Final = 30.0


class LeftOut(Value, frozen=True):
    """Something that was not taken.

    Attributes:
        path: The file; a folder ends with a slash.
        why: The reason.
        count: How many files it stands for; 0 if nobody counted.
    """

    path: str
    why: str
    count: int = 1

    def __str__(self) -> str:
        many = f" ({self.count:,} files)" if self.count > 1 else ""
        return f"{self.path}{many}: {self.why}"


@dataclass(frozen=True)
class Reading:
    """What was read of a folder.

    Attributes:
        root: The folder.
        tree: Its files.
        left_out: What is not among them.
    """

    root: Path
    tree: Tree
    left_out: tuple[LeftOut, ...] = ()


def read_tree(root: Path, *, entry: str = "", metric: str = "", most_files: int = MOST_FILES) -> Reading:
    """Return the files of a project that may be read.

    Args:
        root: Its folder. What git ignores there is left out, if there is a git to ask.
        entry: How the program is run; its file has to be among them. Empty if nobody has said it yet.
        metric: Where its metric is, such as ``metrics.json:accuracy``. That file is a result: were it one of the
            sources, the program would be another one after each run.
        most_files: So many files at most.

    Raises:
        ConfigError: The folder is none, or too large, or the entry's file is not among its files.
    """
    if not root.is_dir():
        what = "is a file" if root.is_file() else "does not exist"
        mend = f"Pass its folder, and entry={root.name!r}." if root.is_file() else "Pass the project's folder."
        raise ConfigError(f"{root} {what}, and it takes the folder of a project. {mend}")
    root = root.resolve()
    files: dict[str, bytes] = {}
    left_out: list[LeftOut] = []
    result = metric.partition(":")[0] if ":" in metric else ""
    for path, why in _walk(root, _ignored(root)):
        if path == result and not why:
            left_out.append(LeftOut(path=path, why="the program writes its metric there"))
            continue
        if why or path.endswith("/"):
            left_out.append(LeftOut(path=path, why=why, count=0 if path.endswith("/") else 1))
            continue
        try:
            content = (root / path).read_bytes()
        except OSError as error:
            left_out.append(LeftOut(path=path, why=f"cannot be read: {error.strerror}"))
            continue
        if refused := why_not_content(content):
            left_out.append(LeftOut(path=path, why=refused))
            continue
        files[path] = content
        if len(files) > most_files:
            raise ConfigError(
                f"{root} has more than {most_files:,} text files, so it is no single project, or holds results. "
                "Pass the folder of the program itself, or leave folders out in .gitignore."
            )
    tree = Tree(files)
    if entry:
        _check_entry(entry, tree, left_out)
    return Reading(root, tree, tuple(_together(left_out)))


def read_paths(paths: Sequence[Path], *, entry: str = "") -> Reading:
    """Return some files and folders as the files of one project, whose root is the folder that holds them all.

    Args:
        paths: Files, which are taken unless they are keys, data or too large, and folders, of which what may be read.
        entry: As of ``read_tree``, from that root.

    Raises:
        ConfigError: One is not there, and as of ``read_tree``.
    """
    for path in paths:
        if not path.exists():
            raise ConfigError(f"{path} does not exist. Name files or folders that are there.")
    places = [path.resolve() for path in paths]
    root = Path(os.path.commonpath([path if path.is_dir() else path.parent for path in places]))
    files: dict[str, bytes] = {}
    left_out: list[LeftOut] = []
    for place in dict.fromkeys(places):
        within = place.relative_to(root).as_posix()
        if not place.is_dir():
            why, content = _content(place, within)
            if why:
                left_out.append(LeftOut(path=within, why=why))
            else:
                files[within] = content
            continue
        lead = "" if within == "." else f"{within}/"
        found = read_tree(place)
        files |= {f"{lead}{path}": found.tree.files[path] for path in found.tree}
        left_out += [LeftOut(path=f"{lead}{one.path}", why=one.why, count=one.count) for one in found.left_out]
    tree = Tree({path: files[path] for path in sorted(files)})
    if entry:
        _check_entry(entry, tree, left_out)
    return Reading(root, tree, tuple(left_out))


def _content(place: Path, path: str) -> tuple[str, bytes]:
    """Return why a file is left out, which is empty if it is not, and what it holds."""
    if why := why_not_name(path, place.stat().st_size):
        return why, b""
    try:
        content = place.read_bytes()
    except OSError as error:
        return f"cannot be read: {error.strerror}", b""
    return why_not_content(content), content


def _check_entry(entry: str, tree: Tree, left_out: list[LeftOut]) -> None:
    try:
        entry_file(entry, tree)
    except ConfigError:
        words = {word.partition(":")[0].removeprefix("./") for word in words_of(entry)}
        for one in left_out:
            if one.path in words or any(one.path.endswith("/") and word.startswith(one.path) for word in words):
                raise ConfigError(
                    f"entry={entry!r} begins with a file that is left out: {one}. Only files that may be read can be "
                    "changed and run. Move it, or stop ignoring it."
                ) from None
        raise


def _walk(root: Path, ignored: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Yield files and why they are left out (empty: they are not), and folders that are left out as a whole."""
    folders, seen = [""], 0
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(root / folder) as found:
                entries = sorted(found, key=lambda one: one.name)
        except OSError as error:
            yield folder, f"cannot be read: {error.strerror}"
            continue
        seen += len(entries)
        if seen > MOST_ENTRIES:
            raise ConfigError(
                f"{root} has more than {MOST_ENTRIES:,} files, so it holds data beside the program. Pass the folder of "
                "the program itself, or leave the data out in .gitignore."
            )
        inner = []
        for one in entries:
            path = f"{folder}{one.name}"
            why = _why_not(root, one, path, ignored)
            if why or not one.is_dir(follow_symlinks=False):
                is_folder = one.is_dir(follow_symlinks=False)
                yield f"{visible(path)}/" if is_folder else visible(path), why
            else:
                inner.append(f"{path}/")
        folders += reversed(inner)


def _why_not(root: Path, one: os.DirEntry[str], path: str, ignored: frozenset[str]) -> str:
    """Return why a file or folder is left out; empty if it is not."""
    if not one.name.isprintable():  # it could look like another one, or like words of ours where files are listed
        return "its name has a character that nobody sees"
    if one.is_symlink():
        return _why_not_link(root, Path(one.path))
    if one.is_dir(follow_symlinks=False):
        environment = any((Path(one.path) / name).exists() for name in ("pyvenv.cfg", "conda-meta"))
        why = why_not_folder(one.name, is_environment=environment)
        why = why or ("git ignores it" if f"{path}/" in ignored else "")
        return why or ("a repository of its own" if (Path(one.path) / ".git").exists() else "")
    if not one.is_file(follow_symlinks=False):
        return "no ordinary file"
    why = why_not_name(path, one.stat(follow_symlinks=False).st_size)
    return why or ("git ignores it" if path in ignored else "")


def _why_not_link(root: Path, link: Path) -> str:
    try:
        target = link.resolve()
    except (OSError, RuntimeError):  # a circle of links
        return "a symbolic link that leads nowhere"
    if target.is_relative_to(root):
        return "a symbolic link; what it leads to is read where it is"
    return "a symbolic link out of the project"


def _ignored(root: Path) -> frozenset[str]:
    """Return what git ignores in a folder, whole folders with a slash; nothing if it cannot be asked."""
    if shutil.which("git") is None:
        return frozenset()
    # a folder's own settings may name a program that watches its files: it is not to be run
    command = ["git", "-c", "core.fsmonitor=false", "ls-files", "--others", "--ignored", "--exclude-standard"]
    command += ["--directory", "-z"]
    try:
        done = subprocess.run(
            command, cwd=root, stdin=subprocess.DEVNULL, capture_output=True, timeout=GIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return frozenset()
    return frozenset(os.fsdecode(done.stdout).split("\0")) - {""} if done.returncode == 0 else frozenset()


def _together(left_out: list[LeftOut]) -> Iterator[LeftOut]:
    """Yield what was left out, many of one kind in one folder as one."""
    groups: dict[tuple[str, str], list[LeftOut]] = {}
    for one in left_out:
        is_folder = one.path.endswith("/")
        folder = one.path if is_folder else one.path.rpartition("/")[0]
        groups.setdefault((folder, one.why), []).append(one)
    for (folder, why), members in groups.items():
        if len(members) < TOGETHER:
            yield from members
        else:
            yield LeftOut(path=f"{folder}/" if folder else "./", why=why, count=len(members))
