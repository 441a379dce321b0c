"""An ablation as its call says it: components are matched, arms made, and each is tried before anything runs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from etude.ablate.arms import removal
from etude.ablate.asking import arms_of, needs
from etude.ablate.components import Component, CustomComponent
from etude.ablate.matching import Matched, match_all
from etude.ablate.plan import AblationPlan
from etude.ablate.policies import Adaptive, Policy, name_of, policy_of
from etude.ablate.until import WORDS
from etude.analyse.race_rules import Rules, rules_for
from etude.core.errors import ConfigError
from etude.core.metrics import Metrics
from etude.core.removal import Arm
from etude.core.reuse import Wanted
from etude.core.signature import Definition, Signature, reports_by_itself, variant_of
from etude.core.text import count
from etude.results.judged import judged
from etude.tune import stop
from etude.tune.question import Question, own_copy
from etude.tune.stop import Stopper
from etude.verbs.ablation_draft import NOT_SAID, AblationDraft, Judging
from etude.verbs.ablation_question import as_plain, question_of, raced, sizes_of
from etude.verbs.ablation_seeds import MOST_RACED, Seeds, stream_of
from etude.verbs.controls import controls_for
from etude.verbs.listed import look_at
from etude.verbs.repairing import Repairs
from etude.verbs.retuning import Asked, Retuned, check_fits, held_for, seed_beside, tuned

BIASED: Final = (
    "Trials may be stopped early (stopper={stopper}): an arm that begins slowly is stopped more often, and has no "
    "value then, so that effects lean towards arms that begin fast."
)


class Varied:
    """An experiment with its variants: their functions take the place of its own in some arms.

    Args:
        experiment: The experiment.
        variants: The variants.
    """

    def __init__(self, experiment: Definition, variants: Sequence[CustomComponent]) -> None:
        more = {variant_of(role, one.name): function for one in variants for role, function in one.functions.items()}
        self.functions: Mapping[str, Callable[..., Any]] = {**experiment.functions, **more}
        self.signature = Signature.read(self.functions) if more else experiment.signature
        self.metrics: Metrics = experiment.metrics
        self.reference: float | None = getattr(experiment, "reference", None)
        self.auto_report = reports_by_itself(experiment)


class Draft:
    """An ablation in the making: what was asked for, matched against what is there.

    Args:
        experiment: Whose functions are run.
        components: What is taken away.
        params: The configuration of the base.
        policy: Which combinations.
        seeds: The training seeds.
        controls: Whether arms get controls of their size; None for those with a learned repair.
        stopper: Ends trials early.
        judging: How its arms are to be judged; which, is found here.
        retune: The searches that each arm is to have; None for none.

    Raises:
        ConfigError: A component cannot be taken away, or the policy cannot be carried out.
    """

    def __init__(
        self,
        experiment: Definition,
        components: str | Component | Iterable[str | Component],
        params: Mapping[str, Any],
        *,
        policy: str | Policy,
        seeds: Seeds,
        controls: bool | None = None,
        stopper: str | Stopper | Sequence[str | Stopper] = "none",
        judging: Judging = NOT_SAID,
        retune: Asked | None = None,
    ) -> None:
        self.params = dict(params)
        self._judging = judging
        self.seeds = seeds
        self.policy = policy_of(policy)
        self._stopper = own_copy("stopper", stop.make_stopper(stopper, experiment.metrics))
        self._retune = retune
        if retune is not None:
            check_fits(retune, self.policy, stops=self._stops)
            self.params = retune.space.completed(self.params, experiment.signature.defaults())
        looked = look_at(experiment, self.params, seed=seeds.listed[0])
        self._listing = looked.listing
        self._controls = controls
        self.matched: list[Matched] = match_all(components, looked.listing)
        self.components = tuple(one.arm for one in self.matched)
        custom = [one.component for one in self.matched if isinstance(one.component, CustomComponent)]
        self.experiment: Definition = Varied(experiment, custom) if custom else experiment
        self._repairs = Repairs(self.experiment, looked, self.params, seeds.listed[0])

    def draft(self) -> AblationDraft:
        """Return what would be done."""
        arms, same = arms_of(self.policy, self.components)
        planned = [self._repairs.of(arm) for arm in arms]
        controls, without = controls_for(planned, self._repairs, self._listing, asked=self._controls)
        taken = {removal(one.arm): one.arm.name for one in planned}
        says: dict[str, list[str]] = {one.arm.name: [*one.says, *one.warns] for one in self.matched}
        for twin, name in same.items():
            says.setdefault(name, []).append(f"{twin} is the same")
        for name, why in without.items():
            says.setdefault(name, []).append(why)
        extra = []
        for one in controls:
            if (first := taken.setdefault(removal(one.arm), one.arm.name)) == one.arm.name:
                extra.append(one)
            else:
                says.setdefault(first, []).append(f"{one.arm.name} is the same")
        paired = {
            one.arm.name: one.component.paired for one in self.matched if isinstance(one.component, CustomComponent)
        }
        told = [
            dataclasses.replace(one, says=(*one.says, *says.get(one.arm.name, ())), paired=paired.get(one.arm.name))
            for one in (*planned, *extra)
        ]
        n = len(self.seeds.listed)
        asked = needs(self.policy, len(self.components), seeds=n)
        more = [f"{count(len(extra), 'control')} of equal size: {count(len(extra) * n, 'more trial')}"] if extra else []
        more += [BIASED.format(stopper=stop.describe(self._stopper))] if self._stops else []
        run = tuple(one for one in told if not one.refused)
        race, listed = self._race(len(run) - 1)
        compared = [one.arm.name for one in run if one not in told[len(planned) :]]  # a control is no component
        known = judged(name_of(self.policy), compared, [one.name for one in self.components])
        return AblationDraft(
            run,
            tuple(one for one in told if one.refused),
            listed,
            self.params,
            asked if race is None else needs(self.policy, len(self.components), seeds=len(listed)),
            tuple(more),
            judging=self._judging._replace(judged=tuple(known)),
            race=race,
            retuned=self._retuned([one.arm for one in run]),
        )

    def _retuned(self, arms: Sequence[Arm]) -> Retuned | None:
        """Return the searches of the arms, if there are to be any."""
        if self._retune is None:
            return None
        taken = self.seeds.listed if self.seeds.stream is None else stream_of(self.seeds.stream)
        held, signature = held_for(self._retune, arms, self.experiment), self.experiment.signature
        seed = seed_beside(self._retune.seed, taken)
        return Retuned.of(self._retune, arms, self.params, seed=seed, held=held, defaults=signature.defaults())

    def _race(self, components: int) -> tuple[Rules | None, tuple[int, ...]]:
        """Return what a race goes by, if there is one, and the seeds that may be run."""
        until = self._judging.until
        if until is None or components < 1:
            return None, self.seeds.listed
        if isinstance(self.policy, Adaptive):
            raise ConfigError(
                f"The policy {name_of(self.policy)} goes on by the means of its arms, and with seeds={WORDS!r} these "
                "have different seeds. Pass how many seeds there are to be."
            )
        rules = rules_for(
            components,
            most=until.most,
            effect=until.effect,
            level=self._judging.level,
            margin=self._judging.margin,
        )
        if rules.most > len(self.seeds.listed):
            raise ConfigError(
                f"A race for an effect of {until.effect:g} deviations takes up to {rules.most} seeds, more than "
                f"{MOST_RACED}. Pass etude.until_decided(most=...), or a larger effect."
            )
        return rules, self.seeds.listed[: rules.most]

    def trials(self, drafted: AblationDraft) -> list[Wanted]:
        """Return the trials that it begins with."""
        return [
            Wanted({**self.params, **one.arm.settings}, seed, one.arm) for seed in drafted.seeds for one in drafted.arms
        ]

    def finished(self, arm: Arm) -> Arm:
        """Return an arm that results decided on, with how the rest still runs.

        Raises:
            ConfigError: It cannot be.
        """
        found = self._repairs.of(arm)
        if found.refused:
            raise ConfigError(f"{arm.name!r}, which the results so far lead to, cannot be. {found.refused}")
        return found.arm

    def question(self, drafted: AblationDraft, *, forced: str = "") -> Question:
        """Return the question that the ablation puts; ``forced`` says why it could decide nothing, if it could not."""
        arms, seeds, race = tuple(one.arm for one in drafted.arms), drafted.seeds, drafted.race
        grows = self.seeds.stream is not None and not isinstance(self.policy, Adaptive) and race is None
        sizes = sizes_of((one.arm.name, one.parameters) for one in drafted.arms)
        plan = AblationPlan(arms, seeds, dict(self.params), self.policy, self.components, self.finished, sizes)
        own = [one for one in stop.members(self._stopper) if not stop.STOPPERS.has(one)]
        question = question_of(
            raced(plan, race),
            self.experiment.metrics,
            self._stopper,
            parts={
                "params": json.dumps(self.params, sort_keys=True, default=repr),
                "metric": repr(self.experiment.metrics),
                "seeds": f"stream {self.seeds.stream}" if grows else ", ".join(map(str, seeds)),
                **({"race": repr(race)} if race is not None else {}),
                **({"margin of the race": repr(race.margin)} if race is not None and race.margin is not None else {}),
                "policy": repr(self.policy),
                "arms": json.dumps([msgspec.to_builtins(arm) for arm in arms], sort_keys=True, default=repr),
                **({"stopper": stop.describe(self._stopper)} if self._stops else {}),
            },
            told={
                "policy": name_of(self.policy),
                "adaptive": isinstance(self.policy, Adaptive),
                "arms": [as_plain(one) for one in drafted.arms],
                "stopper": stop.to_plain(self._stopper) or stop.describe(self._stopper),
                "verdicts": {
                    "judged": list(drafted.judging.judged),
                    "margin": drafted.judging.margin,
                    "level": drafted.judging.level,
                    "forced": forced,
                    "race": dataclasses.asdict(race) if race is not None else None,
                },
            },
            functions={f"stopper {n + 1} of its own": one for n, one in enumerate(own)},
        )
        return question if drafted.retuned is None else tuned(question, drafted.retuned)

    @property
    def _stops(self) -> bool:
        return any(not isinstance(one, stop.NeverStop) for one in stop.members(self._stopper))
