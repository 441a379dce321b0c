"""How a child ended that could not say so itself, from what its supervisor and the kernel know of it."""

from __future__ import annotations

import os
import signal

from etude.core.events import How, Outcome, Usage

BY_US = {
    How.TIMED_OUT: "ran longer than timeout_s={timeout_s:g}",
    How.KILLED: "killed: it did not stop in time",
    How.LOST: "ended, since another rank came to a bad end",
}
"""Why a supervisor ends a child."""


def outcome_of(
    status: int | None,
    *,
    killed_as: How | None = None,
    timeout_s: float | None = None,
    out_of_memory: bool = False,
    usage: Usage | None = None,
) -> Outcome:
    """Return the outcome of an attempt whose process is gone.

    Args:
        status: What ``wait`` says of the process; None if it was killed together with its template.
        killed_as: How its supervisor ended it, if it did.
        timeout_s: The time limit that it had.
        out_of_memory: Whether the kernel killed a process for memory meanwhile, as near to us as that can be told.
        usage: What it cost, as far as that is known.
    """
    how, reason = How.KILLED, "the process that it was forked from was killed"
    if killed_as is not None:
        how, reason = killed_as, BY_US[killed_as].format(timeout_s=timeout_s)
    elif status is not None and os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        reason = f"killed by {signal.Signals(number).name if number in signal.valid_signals() else number}"
        if number == signal.SIGKILL and out_of_memory:
            how, reason = How.OUT_OF_MEMORY, "killed by the kernel: out of memory"
    elif status is not None:
        reason = f"exited with code {os.waitstatus_to_exitcode(status)} and no word"
    return Outcome(how, reason=reason, usage=usage or Usage())
