"""How patient a study is: with its workers, with its trials, and in all."""

from __future__ import annotations

import msgspec

from etude.core.spending import NO_CEILING, Ceiling


class Limits(msgspec.Struct, frozen=True):
    """How patient the driver is. These may change from one run of a study to the next.

    Attributes:
        workers: How many workers there will be, whether they have joined yet or not.
        retries: How many lost attempts a trial may have before it is given up.
        retry_alone: Whether a trial that ran out of memory runs again with no other on its machine, once, instead.
        backoff_s: Seconds that a worker waits after its second failure in a row; doubled for each
            further one.
        max_backoff_s: The longest such wait, in seconds.
        ceiling: What the study may take in all.
        larger: What the same call with a larger ceiling does, for people.
    """

    workers: int = 1
    retries: int = 2
    retry_alone: bool = False
    backoff_s: float = 0.1
    max_backoff_s: float = 5.0
    ceiling: Ceiling = NO_CEILING
    larger: str = "goes on"
