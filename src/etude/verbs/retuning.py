"""A search for each arm of an ablation, as its call says it: what is searched, by whom, and how many trials that is."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from etude.ablate.plan import AblationPlan
from etude.ablate.policies import Adaptive, Policy, name_of
from etude.ablate.retuned_plan import RetunedPlan, Retuning, in_rotation
from etude.core.errors import ConfigError
from etude.core.numbers import whole
from etude.core.removal import Arm
from etude.core.signature import Definition, Signature
from etude.core.streams import stream_seed
from etude.core.text import count
from etude.results.search import TrialResult
from etude.tune.matching import checked_space
from etude.tune.question import Question, own_copy
from etude.tune.sampler import Sampler, size
from etude.tune.samplers import SAMPLERS, make_sampler
from etude.tune.sampling import SetUp
from etude.tune.separate import Separate, without
from etude.tune.spaces import Space

STREAM: Final = "retune"
"""Name of the random stream that the training seed of these searches, and the seed of their draws, are from."""

USUAL: Final = "tpe"
"""Who proposes, where nobody said so."""


@dataclass(frozen=True)
class Asked:
    """What was asked for.

    Attributes:
        trials: How many trials each arm has.
        space: What is searched.
        sampler: Who proposes.
        seed: Of the ablation.
        ruled: Whether the search whose space it is had a constraint, which is not known here.
    """

    trials: int
    space: Space
    sampler: Sampler
    seed: int
    ruled: bool = False


def read_retune(
    retune: object,
    space: Mapping[str, object] | None,
    sampler: str | Sampler | None,
    *,
    at: object,
    experiment: Definition,
    seed: int,
) -> Asked | None:
    """Return what ``retune=``, ``space=`` and ``sampler=`` ask for; None if arms are not tuned.

    What is left out is that of the search whose trial ``at=`` is.

    Args:
        retune: How many trials each arm has.
        space: What is searched.
        sampler: Who proposes.
        at: The configuration of the whole, as the call has it.
        experiment: Whose functions are run.
        seed: Of the ablation.

    Raises:
        ConfigError: It cannot be, or nothing says what is searched.
        SpaceError: It is no space.
        SignatureError: The functions do not take what is in it.
    """
    if retune is None:
        given = [name for name, value in (("space", space), ("sampler", sampler)) if value is not None]
        if given:
            raise ConfigError(
                f"{given[0]}= is for arms that are tuned, and retune= says of none how many trials that is. Pass "
                f"retune=10, or leave {given[0]}= out."
            )
        return None
    trials = whole("retune", retune, 2, "a search of one trial has nothing to choose from")
    before: Mapping[str, Any] = {}
    if isinstance(at, TrialResult) and at.search.verb == "tune":
        before = at.search.meta.get("question") or {}
    if space is None and "space" not in before:
        raise ConfigError(
            f"retune={trials} does not say what is searched. Pass space={{'lr': etude.loguniform(1e-4, 1)}}, or a "
            "trial of a search as at=, whose space is taken then."
        )
    what = Space.from_dict(before["space"]) if space is None else space
    if sampler is None:
        plain = before.get("sampler")
        sampler = SAMPLERS.from_plain(plain) if isinstance(plain, Mapping) else USUAL
    read = checked_space(what, experiment.signature, besides=tuple(experiment.signature.parameters))
    ruled = space is None and bool(before.get("constraint"))
    return Asked(trials, read, make_sampler(sampler, read), seed, ruled)


def check_fits(asked: Asked, policy: Policy, *, stops: bool) -> None:
    """Refuse to tune arms that results decide on, and to stop trials of an ablation whose arms are tuned.

    Raises:
        ConfigError: It cannot be.
    """
    if isinstance(policy, Adaptive):
        raise ConfigError(
            f"retune={asked.trials} tunes all arms before the first one is compared, and the policy "
            f"{name_of(policy)} decides on arms by what others came to. Pass another policy, or leave retune= out."
        )
    if stops:
        raise ConfigError(
            f"retune={asked.trials} and stopper= cannot be together: trials that tune an arm and those that compare "
            "it would be measured by each other. Leave one of them out."
        )


@dataclass(frozen=True)
class Retuned:
    """A search for each arm, planned.

    Attributes:
        asked: What was asked for.
        plan: In which order they are run, and with which seed.
        sampler: Who proposes for all of them.
        held: Parameters that are in the space and not searched.
        set: Those that are not since arms set them.
        arms: How many arms there are.
    """

    asked: Asked
    plan: Retuning
    sampler: Separate
    held: tuple[str, ...]
    set: tuple[str, ...]
    arms: int

    @classmethod
    def of(
        cls,
        asked: Asked,
        arms: Sequence[Arm],
        params: Mapping[str, Any],
        *,
        seed: int,
        held: Sequence[str],
        defaults: Mapping[str, Any],
    ) -> Retuned:
        """Return the searches of some arms.

        Args:
            asked: What was asked for.
            arms: The arms.
            params: The configuration of the whole.
            seed: Their training seed.
            held: Parameters that keep the value that they have in the whole, in all arms. So do those that an arm
                sets, but for that arm: what the ablation asks about is nobody's to choose.
            defaults: Of the functions, for what the configuration leaves out.
        """
        fixed = {*held, *(name for arm in arms for name in arm.settings)}
        wholes = [{**params, **arm.settings} for arm in arms]
        spaces = [without(asked.space, {name: whole.get(name) for name in fixed}) for whole in wholes]
        first = tuple(
            space.completed(_active(whole, asked.space, {*space.names, *fixed}), defaults)
            for whole, space in zip(wholes, spaces, strict=True)
        )
        for space in filter(None, spaces):  # what fits the whole space may not fit what an arm leaves of it
            make_sampler(asked.sampler, space)
        order = in_rotation([_trials(asked, *one) for one in zip(spaces, first, strict=True)])
        plan = Retuning(order, seed, first, tuple(frozenset(space.names) for space in spaces))
        sampler = Separate(own_copy("sampler", asked.sampler), spaces, order)
        by_arms = tuple(name for name in asked.space.names if name in fixed and name not in held)
        return cls(asked, plan, sampler, tuple(held), by_arms, len(arms))

    @property
    def trials(self) -> int:
        """How many trials they have, all together."""
        return len(self.plan.order)

    @property
    def draws(self) -> int:
        """The seed of their draws: that of a search with the same space would begin as that search did."""
        return stream_seed(self.asked.seed, STREAM, "draws", bits=31)

    def set_up(self) -> SetUp:
        """Return how to make the sampler in a process of its own."""
        return SetUp.of(self.sampler, self.asked.space, seed=self.draws, metrics=1)

    def parts(self) -> dict[str, str]:
        """Return what of it can change the numbers, as text."""
        return {
            "retune": str(self.asked.trials),
            "space": repr(self.asked.space),
            "sampler": SAMPLERS.describe(self.asked.sampler),
            "retuned with seeds": f"{self.plan.seed}, {self.draws}",
            **({"not searched": ", ".join(self.held)} if self.held else {}),
        }

    def meta(self) -> dict[str, Any]:
        """Return it as plain data, to put the question again."""
        sampler = self.asked.sampler
        return {
            "trials": self.asked.trials,
            "space": self.asked.space.to_dict(),
            "sampler": SAMPLERS.to_plain(sampler) or SAMPLERS.describe(sampler),
            "seed": self.asked.seed,
            "training_seed": self.plan.seed,
            "held": list(self.held),
        }

    def __str__(self) -> str:
        rest = [name for name in self.asked.space.names if name not in self.held and name not in self.set]
        searched = ", ".join(rest) or "nothing"
        lines = [
            f"Each of {count(self.arms, 'arm')} is tuned first: {count(self.asked.trials, 'trial')} of "
            f"{SAMPLERS.describe(self.asked.sampler)} over {searched}, the configuration of the whole the first of "
            f"them ({count(self.trials, 'trial')} in all, with training seed {self.plan.seed}). What it finds is "
            "compared."
        ]
        if self.set:
            lines.append(f"Not searched, since arms set it: {', '.join(self.set)}.")
        if self.held:
            lines.append(
                f"Not searched: {', '.join(self.held)}. The model function takes "
                f"{'it' if len(self.held) == 1 else 'them'}, and repairs are planned for the model of the whole."
            )
        if self.asked.ruled:
            lines.append(
                "The search whose space it is had a constraint. These have none: what it ruled out may be run."
            )
        return "\n".join(lines)


def seed_beside(seed: int, seeds: Collection[int]) -> int:
    """Return the training seed of the searches of an ablation with this seed: none that it is compared with."""
    return next(one for nth in itertools.count() if (one := stream_seed(seed, STREAM, nth, bits=31)) not in seeds)


def tuned(question: Question, retuned: Retuned) -> Question:
    """Return the question of an ablation whose arms are tuned first."""
    assert isinstance(question.plan, AblationPlan)
    plan = RetunedPlan(question.plan, retuned.plan)
    own = retuned.asked.sampler
    return dataclasses.replace(
        question,
        plan=plan,
        trials=plan.trials,
        parts={**question.parts, **retuned.parts()},
        meta={**question.meta, "retuned": retuned.meta(), "trials": plan.trials},
        sampler=retuned.sampler,
        space=retuned.asked.space,
        base=plan.params,
        seed=retuned.draws,
        set_up=retuned.set_up(),
        functions={**question.functions, **({} if SAMPLERS.has(own) else {"sampler of its own": own})},
    )


def tuned_again(question: Question, meta: Mapping[str, Any], signature: Signature) -> Question:
    """Return the same from what a journal has of the searches, ``meta``; a sampler of the user's own is in none."""
    assert isinstance(question.plan, AblationPlan)
    space, sampler = Space.from_dict(meta["space"]), SAMPLERS.from_plain(meta["sampler"])
    asked = Asked(meta["trials"], space, sampler, meta["seed"])
    plan = question.plan
    retuned = Retuned.of(
        asked, plan.arms, plan.params, seed=meta["training_seed"], held=meta["held"], defaults=signature.defaults()
    )
    return tuned(question, retuned)


def held_for(asked: Asked, arms: Sequence[Arm], experiment: Definition) -> tuple[str, ...]:
    """Return which parameters are not searched, since a repair is planned for a model with the value that they have."""
    if not any(arm.repair for arm in arms):
        return ()
    known = experiment.signature.parameters
    return tuple(name for name in asked.space.names if name in known and "model" in known[name].roles)


def _active(whole: Mapping[str, Any], space: Space, kept: Collection[str]) -> dict[str, Any]:
    """Return a configuration without what belongs to branches of the space that it is not in."""
    return {name: value for name, value in whole.items() if name in kept or name not in space.names}


def _trials(asked: Asked, space: Space, first: Mapping[str, Any]) -> int:
    """Return how many trials the search of an arm has: no more than there are configurations, or points."""
    known = {name: value for name, value in first.items() if name in space.names}
    ends = [n for n in (space.size, size(asked.sampler, space) if space else None) if n is not None]
    beside = 0 if space.contains(known) and space.size is not None else 1
    return min([asked.trials, *(n + beside for n in ends)])
