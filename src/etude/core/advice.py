"""What to do about a trial that failed, where its error alone says what.

The error is the training function's own, or a library's, and neither knows that it runs in a trial. The journal keeps
their words as they are; advice is found in them each time that somebody reads.
"""

from __future__ import annotations

import re
from typing import Final

ADVICE: Final[tuple[tuple[re.Pattern[str], str], ...]] = tuple(
    (re.compile(pattern), advice)
    for pattern, advice in (
        (
            r"^(EOFError: EOF when reading a line|BdbQuit|bdb\.BdbQuit)",
            "A trial has no terminal, so nobody answers input() or breakpoint(). experiment.run(...) runs the function "
            "here, and `etude debug` a trial.",
        ),
        (
            r"^NameError: name '(run|seed|model|data)' is not defined",
            "Étude gives {0} to a function that names it as a parameter: def train(..., {0}).",
        ),
        (
            r"not compiled with CUDA|No CUDA GPUs are available|Found no NVIDIA driver|invalid device ordinal",
            "The trial has no such GPU. Write .to(run.device), which is its GPU, or the CPU where there is none, and "
            "see `etude doctor`.",
        ),
        (
            r"MemoryError|OutOfMemoryError|out of memory",
            "Less of it at a time is a smaller batch, or fewer workers; resources='auto' learns what trials need.",
        ),
        (
            r"Expected all tensors to be on the same device",
            "What model() returns is on the trial's device already; move what is made in train with .to(run.device).",
        ),
        (
            r"^FileNotFoundError: .*: '(?!/)([^']*)'",
            "Trials run in the folder that the study was called from: {0!r} is looked for there, on each machine that "
            "has workers.",
        ),
        (
            r"^(?:ModuleNotFoundError|ImportError): No module named '([^']*)'",
            "Trials import with the Python that the study was called with: {0!r} has to be installed there, or lie "
            "beside the script.",
        ),
        (
            r"^SystemExit",
            "The training function ended its own process, as sys.exit() and argparse do. Let it return, and take "
            "hyperparameters by name.",
        ),
    )
)
"""What an error looks like -> what to do, with what its pattern has caught."""


def advice(reason: str) -> str:
    """Return what to do about an error, in sentences; nothing if that is not known.

    Args:
        reason: The error in one line, as it is kept with a trial: ``NameError: name 'run' is not defined``.

    Example:
        >>> advice("NameError: name 'run' is not defined")
        'Étude gives run to a function that names it as a parameter: def train(..., run).'
        >>> advice("ValueError: negative width")
        ''
    """
    for pattern, told in ADVICE:
        if found := pattern.search(reason):
            return told.format(*found.groups())
    return ""
