"""When examples are assigned to ranks anew, and which epochs count for it. Epochs are counted from 0.

Training begins with *warm-up* epochs, in which the examples are shuffled over all ranks as without a partition. Then
come *intervals*: each begins with an assignment, which holds to its end. What is left over after the last whole
interval belongs to it: of 50 epochs with a warm-up of 10 and intervals of 15 the last one has 25. If there is less than
one interval, that is the only one. Where nobody knows how many epochs there are to be, the last one is what is left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from etude.core.errors import ConfigError
from etude.core.text import brief

Window = Literal["interval", "all"]

WINDOWS: Final = ("interval", "all")


class Stage(NamedTuple):
    """Epochs that belong together.

    Attributes:
        name: ``"warmup"`` or ``"interval"``.
        first: Its first epoch.
        end: The epoch after its last.
    """

    name: Literal["warmup", "interval"]
    first: int
    end: int


@dataclass(frozen=True)
class Schedule:
    """When a training assigns its examples anew.

    Args:
        warmup: Epochs before the first assignment.
        interval: Epochs for which an assignment holds, 1 or more.
        ignore: So many epochs at the beginning are not counted: their losses tell more of the initial weights than of
            the examples.
        window: Which epochs an assignment after the first is made by: ``"interval"`` for those of the interval that
            has just ended, ``"all"`` for all that were not ignored.

    Raises:
        ConfigError: These numbers cannot be.

    Source:
        Sheikholeslami et al. 2023, "The Impact of Importance-Aware Dataset Partitioning on Data-Parallel Training of
        Deep Neural Networks", DAIS, pages 74-89, sections 3.1 to 3.4. That the remainder belongs to the last interval
        is how its authors' program has it; ``"all"`` is ours.

    Example:
        >>> schedule = Schedule(warmup=10, interval=15, ignore=5)
        >>> [(stage.first, stage.end) for stage in schedule.stages(epochs=50)]
        [(0, 10), (10, 25), (25, 50)]
        >>> schedule.uses(10), schedule.uses(25)
        (range(5, 10), range(10, 25))
    """

    warmup: int = 10
    interval: int = 15
    ignore: int = 5
    window: Window = "interval"

    def __post_init__(self) -> None:
        for name, least in (("warmup", 0), ("interval", 1), ("ignore", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ConfigError(
                    f"{name}={brief(value)} is no number of epochs. Pass a whole number of {least} or more."
                )
        if self.ignore > self.warmup:
            raise ConfigError(
                f"ignore={self.ignore} is more than warmup={self.warmup}, so epochs would be ignored by which examples "
                f"are assigned. Pass ignore<={self.warmup}, or a longer warm-up."
            )
        if self.window not in WINDOWS:
            raise ConfigError(
                f"window={brief(self.window)} says not which epochs count. Pass 'interval' for those of the interval "
                "that has just ended, or 'all'."
            )

    def stage(self, epoch: int, *, epochs: int | None = None) -> Stage:
        """Return what an epoch belongs to.

        Args:
            epoch: Which.
            epochs: How many the training has; None if that is not known.
        """
        if epoch < self.warmup:
            return Stage("warmup", 0, self.warmup if epochs is None else min(self.warmup, epochs))
        nth = (epoch - self.warmup) // self.interval
        if epochs is None:
            first = self.warmup + nth * self.interval
            return Stage("interval", first, first + self.interval)
        last = max(0, (epochs - self.warmup) // self.interval - 1)
        first = self.warmup + min(nth, last) * self.interval
        return Stage("interval", first, epochs if nth >= last else first + self.interval)

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        """Return what a training consists of.

        Args:
            epochs: How many it has.
        """
        found: list[Stage] = []
        while (at := found[-1].end if found else 0) < epochs:
            found.append(self.stage(at, epochs=epochs))
        return tuple(found)

    def assigns(self, epoch: int, *, epochs: int | None = None) -> bool:
        """Say whether examples are assigned anew before an epoch.

        Args:
            epoch: Which, from 0.
            epochs: How many the training has; None if that is not known.
        """
        stage = self.stage(epoch, epochs=epochs)
        return stage.name == "interval" and stage.first == epoch

    def uses(self, epoch: int) -> range:
        """Return the epochs by which examples are assigned before another one: those before it that count.

        Args:
            epoch: The one before which they are assigned, as ``assigns`` says.
        """
        assert self.assigns(epoch), f"no assignment before epoch {epoch}"
        since = epoch - self.interval if self.window == "interval" and epoch > self.warmup else 0
        return range(max(since, self.ignore), epoch)

    def records(self, epoch: int, *, epochs: int | None = None) -> bool:
        """Say whether an assignment will use what is seen in an epoch, so that it has to be recorded.

        Args:
            epoch: Which, from 0.
            epochs: How many the training has; None if that is not known.
        """
        return epoch >= self.ignore and (epochs is None or self.stage(epoch, epochs=epochs).end < epochs)
