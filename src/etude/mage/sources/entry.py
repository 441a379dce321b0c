"""Which file a program begins with, as an entry says it: ``train.py``, ``train.py:experiment``, or a command."""

from __future__ import annotations

import re
import shlex
from typing import Final

from etude.core.errors import ConfigError
from etude.mage.near import listed, nearest
from etude.mage.tree import Tree

EXPERIMENT: Final = re.compile(r"([^\s:]+\.py):([A-Za-z_]\w*)$")


def experiment_of(entry: str) -> tuple[str, str] | None:
    """Return the file and the name of the experiment of Étude that an entry is; None if it is a command.

    Example:
        >>> experiment_of("train.py:experiment"), experiment_of("python train.py --seed {seed}")
        (('train.py', 'experiment'), None)
    """
    named = EXPERIMENT.match(entry.strip())
    return (named[1], named[2]) if named is not None else None


def entry_file(entry: str, tree: Tree) -> str:
    """Return the file of a tree that an entry begins with.

    Args:
        entry: A file, ``file:name``, or a command such as ``python -m pkg.train --seed {seed}``.
        tree: The project's files.

    Raises:
        ConfigError: It names none, or one that the tree does not have.
    """
    words = words_of(entry)
    if not words:
        raise ConfigError(
            "entry='' is empty: nothing says how the program is run. Pass entry='train.py', or a command."
        )
    tried = _named(words)
    for name in tried:
        if name in tree:
            return name
    if not tried:
        raise ConfigError(
            f"entry={entry!r} names no Python file, so it is not known where the program begins. Pass a file such as "
            "'train.py', 'train.py:experiment', or a command such as 'python train.py --seed {seed}'."
        )
    python = [path for path in tree if path.endswith(".py")]
    near = tuple(one for one in python if one.endswith(f"/{tried[0]}")) or nearest(tried[0], python)
    mend = f"Did you mean {listed(near)}?" if near else f"There are {listed(python) or 'no Python files'}."
    raise ConfigError(f"entry={entry!r} begins with {tried[0]!r}, which is not among the project's files. {mend}")


def words_of(entry: str) -> list[str]:
    """Return the words of an entry, as a shell would take them apart.

    Raises:
        ConfigError: A quote is not closed.
    """
    try:
        return shlex.split(entry)
    except ValueError as error:
        raise ConfigError(f"entry={entry!r} cannot be taken apart: {error}. Close the quote.") from None


def _named(words: list[str]) -> list[str]:
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == "-m" and following and not following.startswith("-"):
            path = following.replace(".", "/")
            if following not in ("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch"):
                return [f"{path}.py", f"{path}/__main__.py", f"src/{path}.py", f"src/{path}/__main__.py"]
        file, _, _ = word.partition(":")
        if file.endswith(".py"):
            return [file.removeprefix("./")]
    return []
