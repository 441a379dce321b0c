"""Messages that were written for Python, as somebody at a prompt needs them: ``sampler='tpe'`` is ``--sampler tpe``.

Errors are made where the call is checked, and there it is a call of ``tune``. What stands here changes only how their
mends are written.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from etude.core.errors import ConfigError, StudyError

OPTIONS: Final = {
    **{name: name for name in ("sampler", "stopper", "fidelity", "budget", "eta", "trials", "workers", "retries")},
    **{name: name for name in ("name", "seed", "constraint", "resources", "reuse")},
    "on_oom": "on-oom",
    "timeout_s": "timeout",
    "grace_s": "grace",
}
"""Arguments of ``tune`` -> the options that give them."""

CALLS: Final = {
    "ablate": ("experiment.ablate(['dropout'], seeds=7)", "'components=[dropout]' seeds=7"),
    "fit": ("experiment.fit(at=search.best)", "'at={study: NAME}'"),
    "check": ("experiment.check(lr=0.1)", "lr=0.1"),
}
"""Verb of Python that is no command -> how it is called there, and with what from a prompt."""

CALL: Final = r"[A-Za-z_][\w.]*\([^()]*\)"
GIVEN: Final = re.compile(
    rf"(?<![\w.])(?P<name>{'|'.join(OPTIONS)})="
    rf"(?P<value>{CALL}|\[(?:{CALL}(?:, )?)+\]|'[^']*'|[A-Za-z_][\w.]*|\([\d., ]+(?:None)?\)|\d+(?:\.\d+)?|\.\.\.)"
    rf"|{CALL}"  # what stands in other calls is none of ours
)


@contextlib.contextmanager
def told_in_options() -> Iterator[None]:
    """Have a call refused in the words of the command line."""
    try:
        yield
    except (ConfigError, StudyError) as error:
        if isinstance(error, StudyError) and type(error) is not StudyError:
            raise  # these show code, which stays as it is
        raise type(error)(in_options(str(error))) from error.__cause__


def in_options(message: str) -> str:
    """Return a message with options in place of arguments.

    Example:
        >>> in_options("Pass sampler='tpe', stopper='hyperband', or sampler=etude.Grid(points=5).")
        "Pass --sampler tpe, --stopper hyperband, or --sampler 'Grid(points=5)'."
        >>> in_options("budget=(1, 9) without fidelity. Call run.report(seed=...).")
        '--budget 1,9 without fidelity. Call run.report(seed=...).'
        >>> in_options("Pass workers=(2, 8), or workers=(2, None).")
        'Pass --wait-for-workers 2 --workers 8, or --wait-for-workers 2.'
    """
    return GIVEN.sub(_option, message)


def verb_in_a_command(verb: str, given: Sequence[str]) -> str:
    """Return how a verb that is no command is run from a prompt, and from Python.

    Example:
        >>> print(verb_in_a_command("check", ["digits.py:experiment", "lr=0.1"]))
        There is no command `etude check`. Run it as etude run digits.py:experiment verb=check lr=0.1, or write
        experiment.check(lr=0.1) in the script.
    """
    call, such_as = CALLS[verb]
    place = next((word for word in given if ".py" in word and "=" not in word), "script.py:experiment")
    arguments = " ".join(shlex.quote(word) for word in given if "=" in word and not word.startswith("-"))
    return (
        f"There is no command `etude {verb}`. Run it as etude run {place} verb={verb} {arguments or such_as}, or write "
        f"{call} in the script."
    )


def _option(found: re.Match[str]) -> str:
    if found["name"] is None:
        return found[0]
    option, value = f"--{OPTIONS[found['name']]}", found["value"]
    if found["name"] == "workers" and value.startswith("("):
        return _range(*(part.strip() for part in value[1:-1].split(",")))
    if value.startswith("["):
        return " ".join(f"{option} {_word(one)}" for one in re.findall(CALL, value))
    return f"{option} {_word(value)}"


def _range(least: str, most: str) -> str:
    """Return how a range of workers is asked for; where the most is left open, it is left out."""
    return f"--wait-for-workers {least}" + (f" --workers {most}" if most.isdigit() else "")


def _word(value: str) -> str:
    """Return a value as one word of a command."""
    if value.startswith("("):
        return value[1:-1].replace(" ", "")
    value = value.removeprefix("etude.").strip("'")
    if "(" not in value:
        return value
    inner = value.replace("'", '"')
    return f"'{inner}'"
