"""The system call ``perf_event_open``: opens a counter of the kernel for one thread, and reads it."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from dataclasses import dataclass
from typing import Final, Protocol

CALL: Final = {"x86_64": 298, "aarch64": 241}
"""Number of the system call, by machine."""

CLOSE_ON_EXEC: Final = 8
INHERIT: Final = 1 << 1
USER_ONLY: Final = (1 << 5) | (1 << 6)
"""Flags of the attributes: children count as well; neither the kernel nor a hypervisor counts."""

TIMES: Final = 1 | 2
"""What to read besides the count: nanoseconds enabled, and nanoseconds running."""

ANY_CPU: Final = -1
ALONE: Final = -1
"""In place of the leader of a group."""


@dataclass(frozen=True)
class Event:
    """Something that the kernel counts.

    Attributes:
        name: What its total is called.
        type: Of the event, as the kernel numbers them.
        config: Which one of its type.
        unit: What a count of 1 is in the unit of the total.
        user_only: Whether only the user's code is counted, which takes fewer rights. What happens in the kernel alone,
            such as a switch of contexts, would be 0 then.
    """

    name: str
    type: int
    config: int
    unit: float = 1.0
    user_only: bool = True


@dataclass(frozen=True)
class Count:
    """What a counter says.

    Attributes:
        value: Counted while it ran.
        enabled: Nanoseconds for which its thread ran.
        running: Those of them in which it had a place in the hardware. Where there are more events than places, they
            take turns.
    """

    value: int
    enabled: int
    running: int


class Counters(Protocol):
    """Opens and reads counters; tests have one without a kernel. All three raise OSError."""

    def open(self, event: Event, thread: int, leader: int) -> int:
        """Return a descriptor that counts an event of a thread, and of all that this thread starts from now on.

        Args:
            event: What to count.
            thread: Its id.
            leader: Descriptor of an event that this one takes turns together with, or ``ALONE``.
        """
        ...

    def read(self, descriptor: int) -> Count:
        """Return what a counter says."""
        ...

    def close(self, descriptor: int) -> None:
        """Close a counter."""
        ...


class Attributes(ctypes.Structure):
    """Describes an event to the kernel: the first version of ``perf_event_attr``, which every kernel understands."""

    _fields_ = (
        ("type", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("config", ctypes.c_uint64),
        ("sample_period", ctypes.c_uint64),
        ("sample_type", ctypes.c_uint64),
        ("read_format", ctypes.c_uint64),
        ("flags", ctypes.c_uint64),
        ("wakeup_events", ctypes.c_uint32),
        ("bp_type", ctypes.c_uint32),
        ("config1", ctypes.c_uint64),
    )


class Kernel:
    """The counters of this machine's kernel.

    Args:
        machine: Its architecture, as ``uname -m`` says it.
    """

    def __init__(self, machine: str | None = None) -> None:
        self._number = CALL.get(machine or os.uname().machine)
        self._library = ctypes.CDLL(None, use_errno=True)

    def open(self, event: Event, thread: int, leader: int) -> int:
        """Return a descriptor that counts."""
        if self._number is None:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        attributes = Attributes(
            type=event.type,
            size=ctypes.sizeof(Attributes),
            config=event.config,
            read_format=TIMES,
            flags=INHERIT | (USER_ONLY if event.user_only else 0),
        )
        number, *others = map(ctypes.c_long, (self._number, thread, ANY_CPU, leader, CLOSE_ON_EXEC))
        descriptor = self._library.syscall(number, ctypes.byref(attributes), *others)
        if descriptor < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return int(descriptor)

    def read(self, descriptor: int) -> Count:
        """Return what a counter says."""
        return Count(*struct.unpack("=QQQ", os.read(descriptor, 24)))

    def close(self, descriptor: int) -> None:
        """Close a counter."""
        os.close(descriptor)
