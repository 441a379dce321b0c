"""What tests do as somebody who is not root."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def as_somebody_else() -> Iterator[None]:
    """Let file permissions count, also where tests are run by root."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)
