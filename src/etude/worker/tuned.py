"""The machine tuned while an attempt trains: what an epoch took goes out, the setting of the next one comes in.

It joins four that do not know each other: the epochs of the run; what counts and measures (``system.profile``,
``system.meters``); what applies settings (``worker.applying``); and whoever decides, beyond the line to the study or in
this process. While settings are tried, the training waits for a decision no longer than a hundredth of an epoch: what
comes later holds from the epoch after.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from etude.core.clock import Clock, WallClock
from etude.core.system import Choices, Order, Phase, Setting, Taken, Watched
from etude.system.comparable import comparable
from etude.system.energy import as_joules
from etude.system.meters.best import best_meter
from etude.system.meters.meter import Meter
from etude.system.profile import Profiler, profiler
from etude.system.sources.counted import Counted
from etude.worker.applying import Appliers, choices_of, fits_here
from etude.worker.machine import tunable
from etude.worker.tuning import Advice

WAIT: Final = 0.01
"""Of an epoch's seconds, how long its decision is waited for at most, while settings are tried."""
WAIT_S: Final = (0.1, 1.0)
"""But no shorter, and no longer, than so many seconds."""
OF_ONE_RANK: Final = {
    "accumulation": "gradients are averaged over ranks at each step, and gathering them would come in between. Train "
    "on one rank."
}
"""Knob -> why it is not set where several ranks train a trial."""
NO_EPOCHS: Final = (
    "The machine was left as it was: it is set from epoch to epoch, and the training function has begun none. Have it "
    "train in `for epoch in run.epochs(n):`."
)
SETTLED: Final = (Phase.KEEP, Phase.DEFAULT)
SHOWN: Final = 0.1
"""So much of an epoch says whether its setting is clearly worse."""


def begins(setting: Setting) -> bool:
    """Say whether something begins with a setting that stays: the first step waits for it, and later epochs do not."""
    return bool(setting.get("loader_workers")) and bool(setting.get("persistent_workers"))


class Tuning:
    """The machine of one attempt.

    Args:
        watched: What is to be tuned.
        order: The setting of the first epoch.
        advice: Whoever decides.
        cores: How many this attempt may use.
        gpus: The GPUs that it sees.
        ranks: How many processes train the trial together.
        say: Tells users something.
        always: Epochs after which a state is saved however seldom others are.
        clock: Gives the time.
        watches: Makes what profiles epochs, of what the training counts itself.
        meter: Tells energies; the best of this machine if left out.
    """

    def __init__(
        self,
        watched: Watched,
        order: Order | None,
        *,
        advice: Advice,
        cores: int,
        gpus: tuple[str, ...] = (),
        ranks: int = 1,
        say: Callable[[str], None],
        always: frozenset[int] = frozenset(),
        clock: Clock | None = None,
        watches: Callable[[Counted], Profiler] | None = None,
        meter: Meter | None = None,
    ) -> None:
        self._watched, self._advice, self._say = watched, advice, say
        self._gpus = gpus
        self._always = always
        self._clock = clock or WallClock()
        self._order = order or Order({}, Phase.PROFILE, "")
        self._counted = Counted()
        barred = {} if ranks == 1 else OF_ONE_RANK
        self._appliers = Appliers(stepped=self._stepped, say=say, barred=barred, cores=cores)
        named = (*(watched.knobs or ()), *(watched.setting or ()))
        self._machine = tunable(cores, gpus)
        self._appliers.of_the_host(named, self._machine)
        self._watches = watches or (lambda counted: profiler(counted, gpu_ids=gpus, clock=self._clock))
        self._profiler: Profiler | None = None
        self._meter = meter
        self._choices: Choices | None = None
        self._epoch: int | None = None
        self._has_begun = False
        self._epochs = 0
        self._began_s = 0.0
        self._steps = 0
        self._steps_before = 0
        self._waited_s = 0.0
        self._begins = False
        self._begun_s = 0.0
        self._cut: tuple[float, int] | None = None
        self._late: Exception | None = None

    # --- what is to be set ------------------------------------------------------------------------

    def see_data(self, found: Any) -> Any:
        """Take the loaders of what the data function gave in hand."""
        return self._appliers.data(found)

    def see_model(self, built: Any) -> Any:
        """Take a model in hand."""
        return self._appliers.model(built)

    def see_kept(self, things: Mapping[str, Any]) -> None:
        """Take optimizers in hand."""
        self._appliers.kept(things)

    def saves(self, done: int, epochs: int) -> bool:
        """Say whether a state is saved after so many epochs."""
        return done in self._always or done == epochs or done % self._appliers.checkpoint_every == 0

    # --- epochs -----------------------------------------------------------------------------------

    def begin(self, epoch: int, epochs: int) -> None:
        """Come to the beginning of an epoch: the one before is told of, and the machine is set."""
        first, self._has_begun = not self._has_begun, True
        if self._watched.setting is not None:
            if first:
                self._appliers.apply(self._fitting(self._watched.setting))
            return
        if self._late is not None:
            raise self._late
        took_s = self.rest()
        newer = self._advice.ordered(self._patience_s(took_s))
        self._begins = newer is not None and newer.setting != self._order.setting and begins(newer.setting)
        self._order = newer or self._order
        self._appliers.apply(self._order.setting)
        self._epoch, self._epochs = epoch, epochs
        self._steps_before, self._steps, self._cut = self._steps, 0, None
        self._waited_s = self._begun_s = 0.0
        if self._profiler is None:
            self._profiler = self._watches(self._counted)
        if self._meter is None:
            self._meter = best_meter(url=self._watched.power_meter, gpus=self._gpus).meter
        self._profiler.begin()
        self._meter.begin()
        self._began_s = self._clock.now_s()

    def rest(self, *, whole: bool = True) -> float:
        """Tell of the epoch that is over, if one is; return how long it took, in seconds.

        Args:
            whole: Whether it came to its end; not, if the trial was stopped in it.
        """
        if not self._has_begun:
            self._has_begun = True
            self._say(NO_EPOCHS)
        if self._epoch is None or self._profiler is None or self._meter is None:
            return 0.0
        seconds = self._clock.now_s() - self._began_s
        profile, energy = self._profiler.end(), self._meter.end()
        epoch, self._epoch = self._epoch, None
        if seconds <= 0:
            return 0.0
        is_first, is_default = self._choices is None, not self._order.setting
        self._choices = self._choices or self._look()
        self._advice.measured(
            Taken(
                epoch,
                self._epochs,
                seconds,
                max(1, self._steps),
                as_joules(energy),
                rates=comparable(profile) if profile is not None and is_default and is_first and whole else {},
                rung=profile.rung if profile is not None else "",
                setting=dict(self._order.setting),
                phase=self._order.phase,
                why=self._order.why,
                evidence=dict(self._order.evidence),
                begun_s=self._begun_s,
                waited_s=self._waited_s if self._steps else None,
                cut=self._cut,
                choices=self._choices if is_first else None,
                whole=whole,
            )
        )
        return seconds

    def end(self) -> None:
        """Put everything back."""
        self._appliers.close()
        if self._profiler is not None:
            self._profiler.close()

    def _patience_s(self, took_s: float) -> float:
        """Return how long a decision is worth waiting for after an epoch."""
        if not took_s or self._order.phase in SETTLED:
            return 0.0
        shortest_s, longest_s = WAIT_S
        return min(max(WAIT * took_s, shortest_s), longest_s)

    def _look(self) -> Choices:
        assert self._profiler is not None
        assert self._meter is not None
        return choices_of(
            self._watched,
            self._appliers,
            machine=self._machine,
            rung=self._profiler.told(),
            meter=f"{self._meter.label}: {self._meter.source}",
        )

    def _fitting(self, setting: Setting) -> Setting:
        """Return what can be of a setting that was given, and perhaps found on another machine."""
        fitting, whys = fits_here(setting, machine=self._machine)
        for why in whys:
            self._say(f"Left as it was: {why}")
        return fitting

    def _stepped(self, step_s: float, waited_s: float) -> None:
        """Take in a step, from within a loader, where nothing may be raised."""
        try:
            self._step(step_s, waited_s)
        except Exception as error:
            self._late = error

    def _step(self, step_s: float, waited_s: float) -> None:
        """Count a step, and go on with the best that is known if the setting is clearly worse."""
        self._counted.step(step_s, waited_s=waited_s)
        self._steps += 1
        self._waited_s += waited_s
        if self._steps == 1 and self._begins:
            self._begun_s = step_s
        limit_s = self._order.cut_above_s
        if limit_s is None or self._cut is not None or self._steps < max(2, SHOWN * self._steps_before):
            return
        so_far_s = self._clock.now_s() - self._began_s
        if so_far_s - self._begun_s > limit_s * self._steps:
            self._cut = so_far_s, self._steps
            self._appliers.apply(self._order.meanwhile)
