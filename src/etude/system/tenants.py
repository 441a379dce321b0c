"""Who is at work on a machine, what each holds of it, and who is gone. Plain values: no file is read here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from etude.system.budget import NOTHING, Amount, Want, let_in, shares, total

SILENT_S: Final = 60.0
"""After so many seconds without a sign of life a tenant whose process cannot be seen from here is gone."""


@dataclass(frozen=True)
class Process:
    """A process, so that no other is taken for it.

    Attributes:
        space: What its id means something in: a start of the machine, and a namespace of process ids.
        pid: Its id, which the system gives to another process when it has ended.
        started: When it started, in the kernel's own count.
    """

    space: str
    pid: int
    started: str


@dataclass(frozen=True)
class Tenant:
    """A study at work on a machine.

    Attributes:
        id: Later ones have larger ones.
        name: What people call it.
        process: That of its driver.
        want: What it wants.
        held: What its trials use.
        submitted_s: When it came, in seconds since 1970.
        began_s: When it first held something; None if it never did.
        seen_s: When it last gave a sign of life.
    """

    id: int
    name: str
    process: Process
    want: Want
    held: Amount
    submitted_s: float
    began_s: float | None
    seen_s: float


@dataclass(frozen=True)
class Share:
    """What a tenant may hold.

    Attributes:
        granted: So much, all in all. It is less than ``held`` when others have come: then nothing is taken away, but
            what is given back is not given again.
        held: What it holds now.
        room: What it may take beyond that now: others may still hold what is granted to it.
        ahead: How many wait before it; None if it does not wait.
    """

    granted: Amount = NOTHING
    held: Amount = NOTHING
    room: Amount = NOTHING
    ahead: int | None = None

    def allows(self, held: Amount) -> bool:
        """Say whether it may hold so much instead of what it holds. Less is always allowed."""
        return (held - self.held).fits(self.room)


@dataclass(frozen=True)
class Response:
    """How long a study took, from when it came to when it went.

    Attributes:
        name: What people call it.
        submitted_s: When it came, in seconds since 1970.
        began_s: When it first held something; None if it never did.
        ended_s: When it went.
        died: Whether it was found dead; then it ended before that.
    """

    name: str
    submitted_s: float
    began_s: float | None
    ended_s: float
    died: bool = False

    @property
    def response_s(self) -> float:
        """Seconds from when it came to when it went: what the people wait who sent it."""
        return self.ended_s - self.submitted_s

    @property
    def waited_s(self) -> float:
        """Seconds until it first held something."""
        return (self.ended_s if self.began_s is None else self.began_s) - self.submitted_s


def share_of(tenant: Tenant, tenants: Sequence[Tenant], budget: Amount) -> Share:
    """Return what one of them may hold.

    Args:
        tenant: That one.
        tenants: All of them, in the order in which they came.
        budget: What the machine has.
    """
    wants = [one.want for one in tenants]
    granted, inside = shares(budget, wants), let_in(budget, wants)
    nth = next(place for place, one in enumerate(tenants) if one.id == tenant.id)
    free = budget - total(one.held for one in tenants)
    return Share(
        granted=granted[nth],
        held=tenant.held,
        room=(granted[nth] - tenant.held).within(free),
        ahead=nth - inside if nth >= inside else None,
    )


def is_gone(tenant: Tenant, *, space: str, started: Callable[[int], str | None], now_s: float) -> bool:
    """Say whether the process of a tenant has ended.

    A process that stands still is there. One in another container cannot be asked for, and is gone when it is silent.

    Args:
        tenant: The tenant.
        space: What ids of processes mean something in here.
        started: Gives when the process with an id started; None if there is none.
        now_s: The time.
    """
    if tenant.process.space == space:
        return started(tenant.process.pid) != tenant.process.started
    return now_s - tenant.seen_s > SILENT_S
