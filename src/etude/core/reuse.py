"""What trials of other studies give, where these were handed over: which of them a new trial is the same as.

Whoever fills this has seen to it that code, packages and metrics are the same. What is left is looked at here, for each
trial: its configuration, with the defaults of what it leaves out, its training seed, and what an arm goes without.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from etude.core.events import Outcome, Params
from etude.core.history import Trial, identity
from etude.core.removal import Arm


class Wanted(NamedTuple):
    """A trial that a plan will ask for."""

    params: Params
    seed: int
    arm: Arm | None = None


Key: TypeAlias = tuple[object, int, bytes]


class Donor(NamedTuple):
    """A trial of another study that has finished.

    Attributes:
        study: Its study's name.
        trial: Its number there.
        outcome: What came of it.
    """

    study: str
    trial: int
    outcome: Outcome


@dataclass(frozen=True)
class Reuse:
    """The trials that can be taken.

    Attributes:
        donors: What tells a trial from others (``key``) -> the one that is taken for it.
        whole: Returns what of a configuration counts, and with the defaults of what it leaves out.
    """

    donors: Mapping[Key, Donor] = field(default_factory=dict)
    whole: Callable[[Params], Params] = dict

    def find(self, trial: Trial) -> Donor | None:
        """Return the trial whose outcome is that of this one; None if it has to be run.

        One that was handed out before is run to its end, and so is one that is no plain run.
        """
        if not self.donors or trial.attempt or not is_of_its_own(trial):
            return None
        return self.donors.get(key(self.whole(trial.params), trial.seed, trial.arm))


NOTHING: Final = Reuse()
"""Nothing was handed over."""


def key(params: Params, seed: int, arm: Arm | None = None) -> Key:
    """Return what is equal for trials that come to the same numbers, as long as their code is the same."""
    return identity(params), seed, b"" if arm is None else arm.beside_settings


def is_of_its_own(trial: Trial) -> bool:
    """Say whether its configuration, its seed and what it goes without say all of it, and its experiment has its code.

    The functions of a variant are in the call alone. What took part in choosing a configuration gives nothing to what
    is compared.
    """
    whole = trial.start is None and trial.probe is None and not trial.tunes
    return whole and (trial.arm is None or not trial.arm.variant)
