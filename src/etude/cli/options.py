"""Options that are read as Python and never run: ``--sampler 'tpe(startup=20)'``, ``--start 'lr=0.1 width=64'``.

A sampler or a stopper is a name, or a call with literals as its options; what Étude does not have is looked for in the
script. A configuration is a row of NAME=VALUE, where
a value is a literal or a bare word, which means itself.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from etude.core.errors import ConfigError
from etude.files.calls import made_of

if TYPE_CHECKING:
    from etude.files.scripts import Script
    from etude.system.asked import System
    from etude.tune.sampler import Sampler
    from etude.tune.stop import Stopper

NAMED: Final = re.compile(r"(?:^|[\s,])\s*([^\W\d][\w.]*)\s*=(?!=)")
"""Where a value begins that has a name."""

WORD: Final = re.compile(r"[^\W\d][\w./+-]*")
CONSTANTS: Final = ("None", "True", "False")
PAIR: Final = 2
NOTHING: Final = object()
START: Final = "--start "


def read_sampler(text: str, script: Script | None = None) -> Sampler:
    """Return the sampler that ``--sampler`` names, be it one of the script.

    Raises:
        ConfigError: There is none of that name, or it has no such options.

    Example:
        >>> read_sampler("tpe(startup=20)")
        TPE(startup=20, newest=1000)
    """
    from etude.tune.samplers import SAMPLERS

    return made_of(text, SAMPLERS, script, lead="--sampler ")


def read_stoppers(texts: Sequence[str], script: Script | None = None) -> Stopper | list[Stopper]:
    """Return the stopper that ``--stopper`` names, be it one of the script; several as a list.

    Raises:
        ConfigError: There is none of that name, or it has no such options.

    Example:
        >>> read_stoppers(["median(first_after=8)"])
        MedianRule(first_after=8, best_so_far=False, metric=None)
    """
    from etude.tune.stop import STOPPERS

    made = [made_of(text, STOPPERS, script, lead="--stopper ") for text in texts]
    return made if len(made) > 1 else made[0]


def read_start(text: str, *, lead: str = START, such_as: str = "lr=0.1 width=64") -> dict[str, Any]:
    """Return the configuration that ``--start`` gives, or what stands there in place of it.

    Raises:
        ConfigError: It is none.

    Example:
        >>> read_start("lr=0.1 optimizer=sgd layers=[8, 8]")
        {'lr': 0.1, 'optimizer': 'sgd', 'layers': [8, 8]}
    """
    begins = list(NAMED.finditer(text))
    if not begins or text[: begins[0].start()].strip():
        raise ConfigError(f"{lead}{text!r} is no configuration. Write NAME=VALUE: {lead}'{such_as}'.")
    given: dict[str, Any] = {}
    i = 0
    while i < len(begins):
        name, value, i = _next_value(text, begins, i, lead)
        if name in given:
            other = "; another --start is another trial" if lead == START else ""
            raise ConfigError(f"{lead}{text!r} gives {name} twice. Leave one{other}.")
        given[name] = value
    return given


def read_system(wanted: bool, options: str | None) -> System | None:
    """Return what ``--system`` and ``--system-options`` say together; the latter alone is enough.

    Raises:
        ConfigError: It is no row of NAME=VALUE, or ``etude.System`` does not take it.

    Example:
        >>> read_system(True, None) == read_system(False, None)
        False
        >>> read_system(True, "objective=energy knobs=['threads']").knobs
        ('threads',)
    """
    if options is None and not wanted:
        return None
    from etude.system.asked import read_system as read

    lead = "--system-options "
    given = read_start(options, lead=lead, such_as="objective=energy probes=8") if options is not None else {}
    try:
        return read(given)
    except (ConfigError, TypeError) as error:
        raise ConfigError(f"{lead}{options!r}: {error}") from None


def read_budget(text: str) -> tuple[float, ...]:
    """Return the smallest and the largest budget that ``--budget`` gives.

    Raises:
        ConfigError: It gives no two numbers.

    Example:
        >>> read_budget("1,27")
        (1, 27)
    """
    found = _literal(text)
    if not isinstance(found, tuple | list) or len(found) != PAIR or any(type(n) not in (int, float) for n in found):
        raise ConfigError(f"--budget {text!r} gives no two numbers. Write the smallest and the largest: --budget 1,27.")
    return tuple(found)


def read_workers(most: int | None, least: int | None) -> int | tuple[int, int | None] | None:
    """Return what ``--workers`` and ``--wait-for-workers`` say together.

    Raises:
        ConfigError: More are waited for than there may be.

    Example:
        >>> read_workers(16, 2)
        (2, 16)
        >>> read_workers(None, 2)
        (2, None)
    """
    if least is None:
        return most
    if most is not None and most < least:
        raise ConfigError(f"--wait-for-workers {least} waits for more than --workers {most} lets run. Swap them.")
    return least, most


def _next_value(text: str, begins: Sequence[re.Match[str]], i: int, lead: str) -> tuple[str, Any, int]:
    """Return a name, its value, and which of ``begins`` comes next: inside a text there may be some that are none."""
    start, name = begins[i].end(), begins[i][1]
    ends = [begin.start() for begin in begins[i + 1 :]] + [len(text)]
    for n, end in enumerate(ends, start=1):
        given = text[start:end].strip().removesuffix(",").rstrip()
        value = given if WORD.fullmatch(given) and given not in CONSTANTS else _literal(given)
        if value is not NOTHING:
            return name, value, i + n
    raise ConfigError(
        f"{lead}{text!r}: {name}={text[start : ends[0]].strip()} is neither a Python literal nor a word. Put a text "
        f"""in quotes of its own: {lead}'{name}="..."'."""
    )


def _literal(text: str) -> Any:
    """Return the value of a literal; NOTHING if it is none."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return NOTHING
