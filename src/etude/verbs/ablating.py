"""An ablation as its call says it: components are matched, arms made, and each is tried before anything runs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec

from etude.ablate.arms import removal
from etude.ablate.asking import arms_of, needs
from etude.ablate.components import Component, CustomComponent
from etude.ablate.matching import Matched, match_all
from etude.ablate.plan import STREAM, AblationPlan
from etude.ablate.policies import Adaptive, Policy, name_of, policy_of
from etude.ablate.racing_plan import RacingPlan
from etude.ablate.until import WORDS, UntilDecided, read_until
from etude.analyse.outlook import Outlook, outlook
from etude.analyse.race_rules import Rules, rules_for
from etude.core.errors import ConfigError
from etude.core.metrics import Metrics
from etude.core.numbers import seed_of, seeds_listed, whole
from etude.core.plan import Decision, Report, Standing
from etude.core.removal import Arm
from etude.core.reuse import Wanted
from etude.core.signature import Definition, Signature, variant_of
from etude.core.streams import stream_seed
from etude.core.text import brief, count
from etude.results.judged import deviation_given, judged
from etude.tune import stop
from etude.tune.plan import checked
from etude.tune.question import Question, own_copy
from etude.tune.stop import Stopper
from etude.verbs.controls import controls_for
from etude.verbs.listed import look_at
from etude.verbs.repairing import PlannedArm, Repairs
from etude.verbs.retuning import Asked, Retuned, check_fits, held_for, seed_beside, tuned, tuned_again

REFUSED: Final = ("raise", "skip")
"""What may become of arms whose repair is refused."""

BIASED: Final = (
    "Trials may be stopped early (stopper={stopper}): an arm that begins slowly is stopped more often, and has no "
    "value then, so that effects lean towards arms that begin fast."
)


MOST_RACED: Final = 500
"""Nobody races with more seeds than that."""


class Seeds(NamedTuple):
    """The training seeds of an ablation.

    Attributes:
        listed: Which.
        stream: The seed of the stream that they are from; None if they were named.
    """

    listed: tuple[int, ...]
    stream: int | None = None


class Judging(NamedTuple):
    """How the arms of an ablation are to be judged.

    Attributes:
        judged: The names of those that are.
        margin: How small a difference does not matter, in the metric's unit.
        level: Of all verdicts together.
        deviation: About how much the difference of a pair varies at most, as earlier trials have it; None if unknown.
        until: How seeds are added, if that is until it is decided.
    """

    judged: tuple[str, ...] = ()
    margin: float | None = None
    level: float = 0.05
    deviation: float | None = None
    until: UntilDecided | None = None


NOT_SAID: Final = Judging()


@dataclass(frozen=True)
class AblationDraft:
    """What an ablation would do: print it.

    Attributes:
        arms: The arms that would be trained, the base first, controls last.
        refused: Those that cannot be.
        seeds: The training seeds.
        params: The configuration of the base.
        needs: How many trials that is, in words.
        notes: What else should be said, one sentence each.
        done: How many of the trials are there already, in this study's folder or in those handed over.
        judging: How its arms are to be judged.
        race: What a race goes by, if seeds are added until it is decided.
        retuned: The searches of the arms, if they are tuned first.
    """

    arms: tuple[PlannedArm, ...]
    refused: tuple[PlannedArm, ...]
    seeds: tuple[int, ...]
    params: Mapping[str, Any]
    needs: str
    notes: tuple[str, ...] = ()
    done: int = 0
    judging: Judging = NOT_SAID
    race: Rules | None = None
    retuned: Retuned | None = None

    def power(self, *, effect: float = 1.0, deviation: Any = None) -> Outlook:
        """Return what the plan could find: print it.

        Args:
            effect: The effect to be found, in standard deviations of the difference of a pair; in the metric's unit, if
                the deviation is known.
            deviation: Of the difference of a pair, in the metric's unit; or an earlier study of this experiment with
                one configuration that was run with three seeds or more.
        """
        known = deviation_given(deviation)
        claims = len(self.judging.judged)
        return outlook(len(self.seeds), claims, effect=effect, deviation=known, level=self.judging.level)

    @property
    def outlook(self) -> tuple[str, ...]:
        """What it could find, in words; why that is not known, if scipy is missing."""
        if self.race is not None:
            hardly = (
                f"what hardly has an effect of {self.race.effect:g} deviations of a pair's difference is given up."
                if self.race.margin is None
                else f"nothing is given up, since it may be within the margin of {self.race.margin:g}."
            )
            return (
                f"Seeds are added until each of {count(self.race.components, 'component')} is decided, "
                f"{self.race.most} at most; {hardly}",
            )
        if not self.judging.judged:
            return ()
        try:
            found = [str(self.power())]
        except ConfigError as without:
            return (str(without),)
        if (unit := self.judging.deviation) is not None:
            found.append(
                f"Earlier runs of the base say that this deviation is about {unit:.3g} or less (two independent runs)."
            )
        return tuple(found)

    @property
    def trials(self) -> int:
        """How many trials there are to begin with."""
        return len(self.arms) * len(self.seeds) + (self.retuned.trials if self.retuned is not None else 0)

    def __str__(self) -> str:
        refused = ["refused:", *(f"  {one}" for one in self.refused)] if self.refused else []
        there = f"{self.done} of {count(self.trials, 'trial')} are there already, and not run again"
        done = [there] if self.done else []
        tuned = [str(self.retuned), f"{count(self.trials, 'trial')} with these."] if self.retuned is not None else []
        arms = [f"  {one}" for one in self.arms]
        return "\n".join([*self.outlook, self.needs, *arms, *tuned, *refused, *done, *self.notes])


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
        told = [dataclasses.replace(one, says=(*one.says, *says.get(one.arm.name, ()))) for one in (*planned, *extra)]
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
        sizes = _sizes((one.arm.name, one.parameters) for one in drafted.arms)
        plan = AblationPlan(arms, seeds, dict(self.params), self.policy, self.components, self.finished, sizes)
        own = [one for one in stop.members(self._stopper) if not stop.STOPPERS.has(one)]
        question = _question(
            _raced(plan, race),
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
                "arms": [_as_plain(one) for one in drafted.arms],
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


def question_again(told: Mapping[str, Any], parts: Mapping[str, str], experiment: Definition) -> Question:
    """Return the question of an ablation that has not come to its end, from what its journal has.

    Args:
        told: The question, as its newest call put it. Its policy does not go by results, and no arm has functions of
            its own: these are in no journal (``going_on.in_no_journal``).
        parts: What of it can change the numbers, as it began.
        experiment: Whose functions are run.
    """
    metrics = experiment.metrics
    arms = msgspec.convert(json.loads(parts["arms"]), tuple[Arm, ...])
    sizes = _sizes((one["name"], one["parameters"]) for one in told["arms"])
    plan = AblationPlan(
        arms, tuple(told["seeds"]), dict(told["params"]), policy=policy_of("leave_one_out"), sizes=sizes
    )
    race = (told.get("verdicts") or {}).get("race")
    names = ("params", "seeds", "race", "margin of the race", "policy", "arms", "stopper")
    kept = {"metric": repr(metrics), **{name: parts[name] for name in names if name in parts}}
    raced = _raced(plan, None if race is None else Rules(**race))
    question = _question(raced, metrics, stop.from_plain(told["stopper"]), parts=kept, told=told)
    retuned = told.get("retuned")
    return question if retuned is None else tuned_again(question, retuned, experiment.signature)


def _raced(plan: AblationPlan, race: Rules | None) -> AblationPlan:
    """Return a plan that is the same, but a race if there is one."""
    return plan if race is None else RacingPlan(**vars(plan), rules=race)


def _question(
    plan: AblationPlan,
    metrics: Metrics,
    stopper: Any,
    *,
    parts: Mapping[str, str],
    told: Mapping[str, Any],
    functions: Mapping[str, Any] | None = None,
) -> Question:
    judge = own_copy("stopper", stop.make_stopper(stopper, metrics))

    def decide(report: Report, standing: Standing) -> Decision:
        return checked(judge, report, standing)

    return Question(
        plan=dataclasses.replace(plan, judge=decide),
        metrics=metrics.watching(stop.watched_by(judge)),
        trials=plan.trials,
        parts=parts,
        meta={
            **told,
            "verb": "ablate",
            "params": dict(plan.params),
            "seeds": list(plan.seeds),
            "trials": plan.trials,
        },
        seeds=plan.seeds,
        functions=functions or {},
    )


def _sizes(arms: Iterable[tuple[str, int | None]]) -> dict[str, int]:
    return {name: n for name, n in arms if n is not None}


def _as_plain(one: PlannedArm) -> dict[str, Any]:
    """Return what a study's journal tells of an arm."""
    features = list(one.arm.features.names) if one.arm.features is not None else []
    told = {"name": one.arm.name, "changes": list(one.changes), "rung": one.rung, "parameters": one.parameters}
    told |= {"rebuilt": list(one.rebuilt), "loses": one.loses}
    return {**told, "features": features, "variant": one.arm.variant, "taken": list(one.taken), "says": list(one.notes)}


def check_refused(drafted: AblationDraft, on_refusal: str) -> None:
    """Raise what was refused, all of it at once, unless it is to be skipped.

    Raises:
        ConfigError: Something was.
    """
    if on_refusal not in REFUSED:
        raise ConfigError(f"on_refusal={brief(on_refusal)} is not known. Pass one of {', '.join(map(repr, REFUSED))}.")
    if drafted.refused and on_refusal == "raise":
        several = "\n".join(f"  {one}" for one in drafted.refused)
        raise ConfigError(
            f"{count(len(drafted.refused), 'arm')} cannot be, so nothing was started:\n{several}\n"
            "Leave these components out, take what is named instead, or pass on_refusal='skip' for the others alone."
        )


def check_decides(drafted: AblationDraft, *, force: bool) -> str:
    """Return why a plan can decide nothing; nothing if it can.

    Raises:
        ConfigError: It cannot, and is not forced.
    """
    if not drafted.judging.judged or drafted.race is not None:
        return ""
    try:
        found = drafted.power()
    except ConfigError:  # scipy is missing: verdicts will say so
        return ""
    if found.decides or force:
        return "" if found.decides else str(found)
    raise ConfigError(
        f"{found} Nothing was started. Pass seeds={found.needed or found.least_seeds}, or fewer components; or "
        "force=True to run it all the same."
    )


def stream_of(seed: int, n: int = MOST_RACED) -> tuple[int, ...]:
    """Return the first training seeds of the stream that ablations draw them from."""
    return tuple(stream_seed(seed, STREAM, nth, bits=31) for nth in range(n))


def read_seeds(seeds: int | str | UntilDecided | Sequence[int], seed: int, *, chose: int | None) -> Seeds:
    """Return the training seeds of an ablation: so many of a stream that no search draws from, or those listed.

    Args:
        seeds: How many, or which.
        seed: Of the ablation.
        chose: The training seed of the trial whose configuration it has; None if there is none.

    Raises:
        ConfigError: They are none, or one of them chose the configuration.
    """
    if read_until(seeds) is not None:
        stream = seed_of(seed)
        return Seeds(stream_of(stream), stream)
    if not isinstance(seeds, list | tuple | range):
        n = whole("seeds", seeds, 1, "nothing would be run")
        stream = seed_of(seed)
        return Seeds(stream_of(stream, n), stream)
    found = seeds_listed(seeds)
    if chose in found:
        raise ConfigError(
            f"seeds={brief(seeds)} has {chose}, with which the configuration at= was chosen: partly for being lucky "
            "with it, so the base would look better than it is. Leave it out, or pass how many seeds there are to be."
        )
    return Seeds(found)
