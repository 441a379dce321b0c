"""An experiment: one training function, with what it needs and how it is judged; and its verbs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from etude.core.calling import by_name
from etude.core.errors import ConfigError
from etude.core.metrics import Metrics, Mode
from etude.core.signature import Definition, Signature
from etude.core.text import brief
from etude.definition.redefined import Redefined
from etude.results.search import Search, TrialResult
from etude.results.threatened import read_reference
from etude.tune.sampler import Sampler
from etude.tune.stop import Stopper
from etude.worker.plainly import call_plainly

if TYPE_CHECKING:
    from etude.ablate.components import Component
    from etude.ablate.listing import Listing
    from etude.ablate.policies import Policy
    from etude.ablate.until import UntilDecided
    from etude.core.events import Keep
    from etude.core.ranks import DDP, FSDP
    from etude.core.resources import Resources
    from etude.forecasting.result import Forecast
    from etude.results.ablated import Ablation
    from etude.results.across import AblationAcross
    from etude.results.fitted import Fit
    from etude.verbs.ablation_draft import AblationDraft
    from etude.verbs.across import DraftAcross
    from etude.verbs.options import AblateOptions


class Experiment:
    """A training function, with the model and the data that it asks for, and the metric that judges it.

    Args:
        train: The training function. It asks by parameter name for what it needs: ``model``, ``data``,
            ``run``, ``seed``, and any hyperparameter. It returns the metric, a dict with the metric in it,
            or nothing: then the last report counts.
        model: Builds the model; its parameters are hyperparameters as well.
        data: Loads the data; likewise.
        metric: Name of the number that judges a trial; or several, each with its mode:
            ``{"accuracy": "max", "latency_s": "min"}``.
        mode: ``"max"`` if larger is better, ``"min"`` if smaller is.
        reference: What the metric is to come to with the base of an ablation, or at best, such as a published value:
            ``study.threats()`` says whether it does. It changes nothing about what a study is.
        auto_report: Whether a Keras model or a LightningModule that the model function returns is reported and saved
            after each epoch of its ``fit`` without a call in the training function. Where that passes
            ``etude.callback``, or has a loop of ``run.epochs``, it makes no difference. ``False`` is part of what a
            study is: a trial that reports nothing cannot be stopped early.

    Raises:
        SignatureError: The functions do not fit together.
        ConfigError: The metric or the mode cannot be.

    Example:
        >>> def train(lr: float = 0.1):
        ...     return 1 - (lr - 0.3) ** 2
        >>> experiment = Experiment(train, metric="score", mode="max")
        >>> round(experiment.run(lr=0.3), 3)
        1.0
    """

    @by_name
    def __init__(
        self,
        train: Callable[..., Any],
        *,
        model: Callable[..., Any] | None = None,
        data: Callable[..., Any] | None = None,
        metric: str | Mapping[str, Mode],
        mode: Mode | None = None,
        reference: float | None = None,
        auto_report: bool = True,
    ) -> None:
        if not isinstance(auto_report, bool):
            raise ConfigError(f"auto_report={brief(auto_report)} is neither True nor False. Pass one of them.")
        self.auto_report = auto_report
        self.metrics = Metrics.read(metric, mode)
        self.reference = read_reference(reference)
        given = {"train": train, "model": model, "data": data}
        self.functions: dict[str, Callable[..., Any]] = {r: f for r, f in given.items() if f is not None}
        self.signature = Signature.read(self.functions)
        self._redefined = Redefined(self.functions)
        self.last: Search | None = None
        """The search that was started last, also if it was interrupted."""

    @by_name
    def run(self, *, seed: int = 0, system: object = None, **params: Any) -> Any:
        """Call the training function, here and now, as the ordinary Python that it is.

        Args:
            seed: The training seed; equal seeds give equal results, here and in any study.
            system: Whether the machine is tuned while the model trains, as in ``tune``; a parameter of the functions if
                one of them has that name.
            params: Hyperparameters; what is left out has its default.

        Returns:
            What the training function returns.

        Raises:
            SignatureError: A parameter is unknown, missing or of the wrong type.
        """
        self._redefined.warn(stacklevel=3)
        if "system" in self.signature.parameters:
            params |= {"system": system} if system is not None else {}
            system = None
        tuned = None
        if system is not None:
            from etude.system.asked import read_system

            tuned = read_system(system)
        returned, _ = call_plainly(self, self._checked(params), seed=seed, system=tuned)
        return returned

    @by_name
    def check(self, *, seed: int = 0, **params: Any) -> Any:
        """Run one batch through all three functions and say what was found.

        Loaders are cut to their first batch and ``run.epochs`` to one epoch; everything else happens as in a trial.

        Args:
            seed: The training seed.
            params: Hyperparameters; what is left out has its default.

        Returns:
            A ``Check``: print it.

        Raises:
            SignatureError: A parameter is unknown, missing or of the wrong type.
            Exception: Whatever the functions raise.
        """
        from etude.verbs.check import check

        self._redefined.warn(stacklevel=3)
        return check(self, self._checked(params), seed=seed)

    @by_name
    def tune(
        self,
        space: Mapping[str, object],
        *,
        trials: int | None = None,
        workers: int | tuple[int, int | None] | None = None,
        resources: Resources | str | None = None,
        ranks: int = 1,
        parallel: str | DDP = "ddp",
        batch: str = "global",
        partition: object = None,
        sampler: str | Sampler = "tpe",
        stopper: str | Stopper | Sequence[str | Stopper] | None = None,
        fidelity: str | None = None,
        budget: Sequence[float] | None = None,
        eta: int | None = None,
        seed: int = 0,
        start: Sequence[Mapping[str, Any]] = (),
        name: str | None = None,
        constraint: Callable[..., Any] | None = None,
        retries: int = 2,
        on_oom: str | None = None,
        timeout_s: float | None = None,
        grace_s: float = 10.0,
        reuse_child: bool = False,
        deadline_s: float | None = None,
        max_failures: int | None = None,
        max_cost: float | None = None,
        price_per_hour: float | None = None,
        mirror: str | os.PathLike[str] | None = None,
        keep: Keep | int | str | None = None,
        states: str | os.PathLike[str] | None = None,
        reuse: Search | str | os.PathLike[str] | Sequence[Search | str | os.PathLike[str]] | None = None,
        system: object = None,
        engine: object = None,
        wait: bool = True,
        progress: bool | None = None,
    ) -> Search:
        """Search for good hyperparameters: trials run side by side, each in a process of its own.

        The same call again goes on where the study is: what has ended is not run again, and a larger
        ``trials`` adds to it. The folder is ``etude-studies/<name>`` (``ETUDE_STUDIES`` moves it).

        Args:
            space: Name -> what the parameter may be: ``etude.uniform(0, 1)``, ``etude.loguniform``,
                ``etude.integers``, ``etude.choice``, ``etude.ordered``, a list (a choice) or a value (fixed).
            trials: How many configurations to try, those of earlier calls included. May be left out where the
                sampler comes to an end, as a grid does, and for one full set of brackets with Hyperband and a
                fidelity. Promoted trials count.
            workers: How many trials run at a time; the number of cores, or as many as fit with ``resources``, if left
                out. A range, as in ``(2, 16)``, waits for two workers before it begins, and takes up to sixteen as they
                come; ``(2, None)`` takes as many as there would be without it, and at least two.
            resources: What one trial needs: ``etude.Resources(cpus=2, gpus=0.5, memory_gb=4)``, or as text
                ``"cpus=2,gpus=0.5,memory_gb=4"``. Each trial sees its own GPUs, and no more trials run at a time than
                there is room for. ``"auto"`` learns what memory trials need while it goes. It is no part of the
                study's definition.
            ranks: How many processes train each trial together, with PyTorch. It is part of what a trial is.
                ``resources`` are then what each of them needs.
            parallel: How they do it: ``"ddp"``, each has the whole model, ``"fsdp"``, each has a part of it, or one of
                these with options: ``etude.DDP(evaluation="divided")``, ``etude.FSDP(block="DecoderLayer")``.
            batch: ``"global"``: the batch size that the data function asks for is that of all ranks together, so that
                the result is that of one rank; ``"per_rank"``: it is that of each.
            partition: Which rank trains which examples: ``etude.partitions.Stripes(warmup=10, interval=15)``, another
                one, one of your own, or a function of hyperparameters that returns one. Where it goes by importance,
                the training function has its loss from ``run.criterion``, and trains in ``run.epochs``.
            sampler: ``"tpe"``, ``"random"``, ``"grid"``, ``"qmc"``, ``"gp"``, ``"cmaes"`` or ``"nsga2"``, one of those
                with options (``etude.TPE(startup=20)``), or an object with ``tell(told)`` and ``suggest(request)``.
            stopper: ``"median"``, ``"median-best"``, ``"asha"``, ``"hyperband"``, ``"plateau"``, ``"divergence"``,
                ``"walltime"`` or ``"none"``, one of those with options (``etude.ASHA(eta=4)``), an object with
                ``decide(report, standing)``, or a list, of which the first decides that has something to say. By
                default the median rule; with several metrics, none.
            fidelity: The parameter that says how much a trial may cost, such as its number of epochs or its share of
                the data. With ``"asha"`` and ``"hyperband"`` trials then run with a small budget to their end, and
                the best are run with a larger one, from what they kept (``run.keep``) or from scratch; with other
                stoppers all have the largest.
            budget: The smallest and the largest value of the fidelity. Trials have the largest one, an ``eta``-th of
                it, and so on, as long as that is not below the smallest.
            eta: Each budget is so many times the one before, and one trial in so many is promoted; 3 if left out.
            seed: The seed of the search, and of the training of every trial.
            start: Configurations to try first; what they leave out has the function's default.
            name: Name of the study. Without one it is named by its definition, so an edit starts a new one.
            constraint: Asks by name for parameters (``**params``: for all) and says whether they go together; a
                str or False rules the configuration out, and another one is drawn, True or None lets it run. What
                is no part of a configuration comes as None. It is tried on some configurations before anything is
                launched.
            retries: How often a trial is run again whose process was killed or lost.
            on_oom: ``"retry"`` counts running out of memory as one of these losses. ``"retry_alone"`` runs such a
                trial once more with no other trial of the study on its machine, and gives it up if that is not
                enough; it is the default with ``resources="auto"``. The summary tells of it either way, since results
                then lean towards what needs little.
            timeout_s: Seconds after which a trial is ended and fails; no limit if left out.
            grace_s: Seconds that a trial has to see a stop, at its next report, before its process is ended.
            reuse_child: Let one process run trial after trial: faster, without isolation between trials.
            deadline_s: Seconds that the study may be worked on, all its runs together. When one of these limits is
                reached, what runs goes back into the queue and the search is returned, not complete; the same call
                with a larger limit goes on.
            max_failures: How many trials may fail, invalid ones not counted; one more ends the study.
            max_cost: What the workers may cost, all runs together, in the money of ``price_per_hour``.
            price_per_hour: What an hour of one worker costs, whether it has work or not.
            mirror: Where a copy of the study is kept up to date while it runs, under its name: a URL that fsspec
                understands (``"s3://bucket/studies"``), or a folder; ``ETUDE_MIRROR`` if left out. After the loss of
                this machine, ``etude resume <URL>/<name>`` goes on elsewhere.
            keep: Of how many trials the weights are kept, the best so far, where the function says what they are
                (``run.keep``); 3 if left out. ``etude.Keep(trials=5, epochs=("last", "best", 25))``, or as text
                ``"5,last,best,25"``, also says of which epochs.
            states: Where trials save what they keep (``run.keep``), if not in the study's folder: a URL that fsspec
                understands (``"s3://bucket/states"``), or a folder, which every worker can reach. It is said when the
                study begins, and cannot be another one later.
            reuse: Other studies of this experiment, as a search, a folder or a name, or a list of these. A trial that
                has finished there with the same code, packages, metrics, configuration and training seed is not run
                again: its outcome is taken, without its curve and its weights, and marked
                (``trial.reused_from``). It changes nothing about what this study is, and may be left out later.
            system: Whether the machine is tuned while models train: ``True``, or ``etude.System(knobs=[...],
                objective="time")``. Settings such as loader workers and threads are tried for an epoch each, and the
                best one stays; results stay the same, but for rounding. It is no part of the study's definition, unless
                a knob is named that changes what is trained.
            engine: What starts the workers: ``"local"``, ``"ray"``, ``"spark"``, or ``"cluster"`` for those that come
                by themselves; with options as text (``"ray(cpus=2)"``) or as an object (``etude.Ray(cpus=2)``);
                ``ETUDE_ENGINE``, or else this machine, if left out. ``etude.Simulated(curves=...)`` starts none, and
                shows in virtual time what the study would do; the functions are not called then. All of the call is
                the definition of a simulated study.
            wait: Return when the search has ended; else at once, with ``.wait()`` and ``.stop()``.
            progress: Show progress; by default if ``ETUDE_PROGRESS`` is not ``0``.

        Returns:
            The search: ``.best``, ``.trials``, ``.frame()``, ``.summary()``.

        Raises:
            ConfigError: The call cannot be carried out; nothing was launched.
            StudyError: The study's folder cannot be used.
            KeyboardInterrupt: Ctrl-C; the search wound down, and ``experiment.last`` holds it.
        """
        from etude.core.numbers import seed_of
        from etude.launching.call import Call
        from etude.launching.launch import Launch
        from etude.tune.fidelity import check_fidelity
        from etude.tune.matching import checked_space
        from etude.tune.question import search
        from etude.verbs.partitioned import check_ranks, counting

        self._redefined.warn(stacklevel=3)
        call = Call.read(
            workers=workers,
            resources=resources,
            name=name,
            retries=retries,
            on_oom=on_oom,
            timeout_s=timeout_s,
            grace_s=grace_s,
            reuse_child=reuse_child,
            deadline_s=deadline_s,
            max_failures=max_failures,
            max_cost=max_cost,
            price_per_hour=price_per_hour,
            mirror=mirror,
            keep=keep,
            states=states,
            engine=engine,
            trials=trials if isinstance(trials, int) else None,
            ranks=ranks,
            parallel=parallel,
            batch=batch,
            system=system,
        )
        check_ranks(partition, ranks)
        of = self._with(partition)
        check_fidelity(fidelity, of.signature)
        question = search(
            of,
            checked_space(space, of.signature, besides=() if fidelity is None else (fidelity,)),
            trials=trials,
            sampler=sampler,
            stopper=stopper,
            fidelity=fidelity,
            budget=budget,
            eta=eta,
            seed=seed_of(seed),
            start=start,
            constraint=constraint,
        )
        live = Launch(of, counting(question, partition), call, reuse=reuse).start()
        self.last = live.search
        if wait:
            live.wait(progress=progress)
        return live.search

    @by_name
    def components(self, *, at: TrialResult | Mapping[str, Any] | None = None, seed: int = 0) -> Listing:
        """Return everything that could be taken away: layers with their sizes, features of the data, settings.

        The model function and the data function are called here; the training function may train one batch.

        Args:
            at: The configuration: a trial (``search.best``), or parameters.
            seed: The training seed.

        Returns:
            A listing: print it.

        Raises:
            ConfigError: Nobody can tell what the model is called with.
            SignatureError: A parameter is unknown, missing or of the wrong type.
        """
        from etude.verbs.listed import look_at

        return look_at(self, self.checked(at, self.signature), seed=seed).listing

    @overload
    def ablate(
        self,
        components: str | Component | Iterable[str | Component],
        *,
        dry_run: Literal[True],
        **options: Unpack[AblateOptions],
    ) -> AblationDraft: ...

    @overload
    def ablate(
        self,
        components: str | Component | Iterable[str | Component],
        *,
        dry_run: Literal[False] = ...,
        **options: Unpack[AblateOptions],
    ) -> Ablation: ...

    @overload
    def ablate(
        self,
        components: str | Component | Iterable[str | Component],
        *,
        across: Mapping[str, Sequence[Any]] | None = ...,
        folds: int | None = ...,
        dry_run: Literal[True],
        **options: Unpack[AblateOptions],
    ) -> DraftAcross: ...

    @overload
    def ablate(
        self,
        components: str | Component | Iterable[str | Component],
        *,
        across: Mapping[str, Sequence[Any]] | None = ...,
        folds: int | None = ...,
        dry_run: Literal[False] = ...,
        **options: Unpack[AblateOptions],
    ) -> AblationAcross: ...

    @by_name
    def ablate(
        self,
        components: str | Component | Iterable[str | Component],
        *,
        at: TrialResult | Mapping[str, Any] | None = None,
        across: Mapping[str, Sequence[Any]] | None = None,
        folds: int | None = None,
        policy: str | Policy = "leave_one_out",
        seeds: int | str | UntilDecided | Sequence[int] = 10,
        seed: int = 0,
        controls: bool | None = None,
        stopper: str | Stopper | Sequence[str | Stopper] = "none",
        retune: int | None = None,
        space: Mapping[str, object] | None = None,
        sampler: str | Sampler | None = None,
        margin: float | None = None,
        level: float = 0.05,
        force: bool = False,
        on_refusal: Literal["raise", "skip"] = "raise",
        dry_run: bool = False,
        workers: int | tuple[int, int | None] | None = None,
        resources: Resources | str | None = None,
        ranks: int = 1,
        parallel: str | DDP | FSDP = "ddp",
        batch: str = "global",
        name: str | None = None,
        retries: int = 2,
        on_oom: str | None = None,
        timeout_s: float | None = None,
        grace_s: float = 10.0,
        reuse_child: bool = False,
        deadline_s: float | None = None,
        max_failures: int | None = None,
        max_cost: float | None = None,
        price_per_hour: float | None = None,
        mirror: str | os.PathLike[str] | None = None,
        keep: Keep | int | str | None = None,
        states: str | os.PathLike[str] | None = None,
        reuse: Search | str | os.PathLike[str] | Sequence[Search | str | os.PathLike[str]] | None = None,
        system: object = None,
        engine: object = None,
        wait: bool = True,
        progress: bool | None = None,
    ) -> Ablation | AblationDraft | AblationAcross | DraftAcross:
        """Take components away, one arm for each, and train every arm with every seed beside the whole.

        Models are built whole, and the component is then taken out, so that the arms of a seed share all initial
        weights that they have in common. Every arm is planned and tried in this process before anything is started,
        and the plan is shown first, on standard error.

        Args:
            components: What is taken away: ``"layer:conv2"``, ``"layers:~dropout"``, ``"between:mixed0..mixed1"``, the
                name of a hyperparameter, ``etude.setting``, ``etude.custom``, or a list (``etude.components``).
            at: The configuration of the whole: a trial (``search.best``), or parameters.
            across: Hyperparameters of the data function that say which data set it is, with the values of each:
                ``{"dataset": ["adult", "covertype"]}``. Every data set is an ablation of its own, one after the other.
            folds: So many folds of a cross-validation, of each data set: the data function takes ``fold``, from 0 on,
                and holds that part out; and ``folds``, if it likes. Every fold has the same seeds.
            policy: Which combinations: ``"leave_one_out"``, ``"pairs"``, ``"add_one_in"``, ``"full_factorial"``,
                ``"path"``, ``"shapley"``, or one of ``etude.policies``.
            seeds: How many training seeds, of a stream that no search draws from; or which. The same call with more
                of them goes on with the study. ``"until decided"``, or ``etude.until_decided(most=40)``: a seed more
                for each component that is open, as long as one is.
            seed: The seed of that stream.
            controls: Whether an arm whose model has another number of parameters gets a control: the whole, its layers
                narrowed evenly to the same number within 2 %, as an arm of its own, ``"size of ARM"``. By default those
                with ``repair="learned"``.
            stopper: As in ``tune``, and ``"none"`` by default: an arm that begins slowly would be stopped more often,
                and effects would lean towards those that begin fast.
            retune: Gives every arm, the whole included, a search of so many trials first, with a training seed of its
                own: what is compared is the best configuration of each. The first trial of each search has that of the
                whole. ``None`` compares all arms with that one.
            space: What these searches may vary, as in ``tune``; that of the search whose trial ``at=`` is, if left out.
                What an arm sets is not searched in it.
            sampler: Who proposes there, as in ``tune``; that of the same search if left out, or else ``"tpe"``.
            margin: How small a difference does not matter, in the metric's unit: verdicts need it to find that
                something does not matter.
            level: How often one verdict or more may be wrong, of all together.
            force: Run a plan that can decide nothing, because of too few seeds for so many components, all the same.
            on_refusal: What becomes of arms that cannot be: ``"raise"`` tells of all of them and starts nothing,
                ``"skip"`` trains the others.
            dry_run: Return what would be done, and start nothing.
            workers: How many trials run at a time, or a range: ``tune`` tells what these mean, as of all that follow.
            resources: What one trial needs, or ``"auto"``, as in ``tune``.
            ranks: How many processes train each trial together, as in ``tune``.
            parallel: How they do it: ``"ddp"``, ``"fsdp"``, or one of these with options, as in ``tune``.
            batch: Whether a batch size is that of all ranks together, ``"global"``, or of each, ``"per_rank"``.
            name: Name of the study, as in ``tune``; without one it is named by its definition.
            retries: How often a trial is run again whose process was killed or lost.
            on_oom: What becomes of a trial that ran out of memory: ``"retry"`` or ``"retry_alone"``, as in ``tune``.
            timeout_s: Seconds after which a trial is ended and fails; no limit if left out.
            grace_s: Seconds that a trial has to see a stop, at its next report, before its process is ended.
            reuse_child: Let one process run trial after trial: faster, without isolation between trials.
            deadline_s: Seconds that the study may be worked on, all its runs together, as in ``tune``.
            max_failures: How many trials may fail, invalid ones not counted; one more ends the study.
            max_cost: What the workers may cost, all runs together, in the money of ``price_per_hour``.
            price_per_hour: What an hour of one worker costs, whether it has work or not.
            mirror: Where a copy of the study is kept up to date while it runs: a URL or a folder, as in ``tune``.
            keep: Of how many trials the weights are kept, and of which epochs, as in ``tune``; 3 if left out.
            states: Where trials save what they keep, if not in the study's folder: a URL or a folder, as in ``tune``.
            reuse: Other ablations of this experiment, as in ``tune``: what both have in common is taken from them. A
                search can give nothing, since its trials took part in choosing the configuration.
            system: Whether the machine is tuned while models train, as in ``tune``; only by knobs that change no
                number, unless others are named.
            engine: What starts the workers, by name, as text with options, or as an object, as in ``tune``.
            wait: Return when all has ended; else at once, with ``.wait()`` and ``.stop()``.
            progress: Show the plan, and then progress; by default if ``ETUDE_PROGRESS`` is not ``0``.

        Returns:
            ``ablation.arms``, and all that a search has; with ``dry_run`` a draft: print it. With ``across`` or
            ``folds``, a mapping of data sets to their ablations, with verdicts of each, and ranks over all.

        Raises:
            ConfigError: A component cannot be taken away, or the call cannot be carried out; nothing was launched.
            StudyError: The study's folder cannot be used.
            KeyboardInterrupt: Ctrl-C; it wound down, and ``experiment.last`` holds it.
        """
        from dataclasses import replace
        from functools import partial

        from etude.ablate.until import read_until
        from etude.analyse.arms import check_margin
        from etude.analyse.power import check_level
        from etude.core.numbers import seed_of
        from etude.launching.call import Call
        from etude.launching.launch import Launch
        from etude.launching.progress import say_plan
        from etude.results.ablated import Ablation
        from etude.results.judged import deviation_of
        from etude.verbs.ablating import Draft
        from etude.verbs.ablation_draft import Judging, check_decides, check_refused
        from etude.verbs.ablation_seeds import read_seeds
        from etude.verbs.across import ablate_across
        from etude.verbs.asked import as_asked
        from etude.verbs.options import AblateOptions
        from etude.verbs.retuning import read_retune

        params = self.checked(at, self.signature)
        asked = read_retune(retune, space, sampler, at=at, experiment=self, seed=seed_of(seed))
        if asked is not None:
            space, sampler = asked.space, asked.sampler
        if across is not None or folds is not None:
            given = {name: value for name, value in locals().items() if name in AblateOptions.__annotations__}
            ablate = partial(self.ablate, components)
            return ablate_across(ablate, given, self.signature, across=across, folds=folds, dry_run=dry_run)
        self._redefined.warn(stacklevel=3)
        chose = at.seed if isinstance(at, TrialResult) else None
        draft = Draft(
            self,
            components,
            params,
            policy=policy,
            seeds=read_seeds(seeds, seed, chose=chose),
            controls=controls,
            stopper=stopper,
            judging=Judging(
                margin=check_margin(margin),
                level=check_level(level),
                until=read_until(seeds),
                deviation=deviation_of(self.last.trials) if self.last is not None else None,
            ),
            retune=asked,
        )
        drafted, forced = draft.draft(), ""
        if not dry_run:
            check_refused(drafted, on_refusal)
            forced = check_decides(drafted, force=force)
        call = Call.read(
            workers=workers,
            resources=resources,
            name=name,
            retries=retries,
            on_oom=on_oom,
            timeout_s=timeout_s,
            grace_s=grace_s,
            reuse_child=reuse_child,
            deadline_s=deadline_s,
            max_failures=max_failures,
            max_cost=max_cost,
            price_per_hour=price_per_hour,
            mirror=mirror,
            keep=keep,
            states=states,
            engine=engine,
            trials=drafted.trials,
            ranks=ranks,
            parallel=parallel,
            batch=batch,
            system=system,
        )
        question = as_asked(
            draft.question(drafted, forced=forced),
            components,
            at=at,
            policy=draft.policy,
            seeds=seeds,
            seed=seed,
            on_refusal=on_refusal,
            controls=controls,
            margin=margin,
            level=level,
            force=force,
        )
        launch = Launch(draft.experiment, question, call, result=Ablation, reuse=reuse)
        tuned = drafted.retuned is not None  # then it is not known which configurations are compared
        done = launch.finished_there() if tuned else launch.known_already(draft.trials(drafted))
        drafted = replace(drafted, done=done)
        if dry_run:
            return drafted
        say_plan(drafted, shown=progress)
        live = launch.start()
        self.last = live.search
        if wait:
            live.wait(progress=progress)
        ablation: Ablation = live.search  # type: ignore[assignment] # as was asked for
        return ablation

    @by_name
    def fit(
        self,
        *,
        at: TrialResult | Mapping[str, Any] | None = None,
        weights: object = None,
        on: Literal["train", "train+valid"] = "train",
        seed: int = 0,
        seeds: int | Sequence[int] | None = None,
        workers: int | tuple[int, int | None] | None = None,
        resources: Resources | str | None = None,
        ranks: int = 1,
        parallel: str | DDP = "ddp",
        batch: str = "global",
        partition: object = None,
        name: str | None = None,
        retries: int = 2,
        on_oom: str | None = None,
        timeout_s: float | None = None,
        mirror: str | os.PathLike[str] | None = None,
        keep: Keep | int | str | None = None,
        system: object = None,
        engine: object = None,
        wait: bool = True,
        progress: bool | None = None,
    ) -> Fit:
        """Train with one configuration, from random weights or from those of a trial.

        It is a study like others: in a process of its own, with a journal; the same call again goes on where it is.

        Args:
            at: The configuration: a trial (``search.best``), or parameters; defaults are used for what is left out.
            weights: What the model begins with: ``search.best.weights``, ``.weights.at(25)``, ``.weights.shrunk()``,
                ``etude.soup(search.top(3))``, the path of a safetensors file, or ``"random"``, the default. They are
                loaded into the model that ``model()`` gives first. Where shapes differ, what fits is loaded, and a
                note says what was and was not. Weights that know rows of the validation or the test part are refused.
                With ``"auto"``, or ``etude.Auto(...)``, short probes choose, and random weights are among what they
                choose from.
            on: ``"train"``; or ``"train+valid"`` for both parts of the data as one. The function gets no validation
                part then; what it measures on the test part may choose nothing, so that only the weights after the
                last epoch are kept, unless ``keep`` names others.
            seed: The training seed; the first one, with ``seeds``.
            seeds: How many trials with seeds of their own, or the seeds.
            workers: How many trials run at a time, or a range: ``tune`` tells what these mean, as of all that follow.
            resources: What one trial needs, or ``"auto"``, as in ``tune``.
            ranks: How many processes train each trial together, as in ``tune``.
            parallel: How they do it: ``"ddp"``, ``"fsdp"``, or one of these with options, as in ``tune``.
            batch: Whether a batch size is that of all ranks together, ``"global"``, or of each, ``"per_rank"``.
            partition: Which rank trains which examples, as in ``tune``.
            name: Name of the study, as in ``tune``; without one it is named by its definition.
            retries: How often a trial is run again whose process was killed or lost.
            on_oom: What becomes of a trial that ran out of memory: ``"retry"`` or ``"retry_alone"``, as in ``tune``.
            timeout_s: Seconds after which a trial is ended and fails; no limit if left out.
            mirror: Where a copy of the study is kept up to date while it runs: a URL or a folder, as in ``tune``.
            keep: Of how many trials the weights are kept, and of which epochs, as in ``tune``; 3 if left out.
            system: Whether the machine is tuned while models train, as in ``tune``. If left out, it is set as was
                best in the study of ``at``.
            engine: What starts the workers, as in ``tune``; a simulated one trains nothing, and is refused.
            wait: Return when all has ended; else at once, with ``.wait()`` and ``.stop()``.
            progress: Show progress; by default if ``ETUDE_PROGRESS`` is not ``0``.

        Returns:
            ``final.value``, ``final.model()``, ``final.save(path)``, and all that a search has.

        Raises:
            ConfigError: The call cannot be carried out; nothing was launched.
            StateError: The weights cannot be read, or do not fit the model at all.
            StudyError: The study's folder cannot be used.
            KeyboardInterrupt: Ctrl-C; it wound down, and ``experiment.last`` holds it.
        """
        from msgspec import structs

        from etude.core.events import LAST, USUAL
        from etude.core.keeping import read_keep
        from etude.fit.prepared import read_seeds
        from etude.launching.call import Call
        from etude.verbs.asked import chosen_by
        from etude.verbs.candidates import candidates, read_auto
        from etude.verbs.final import final
        from etude.verbs.guard import BOTH
        from etude.verbs.partitioned import check_ranks

        self._redefined.warn(stacklevel=3)
        listed = read_seeds(seeds, seed)
        auto = read_auto(weights, self.metrics.modes)
        if system is None and isinstance(at, TrialResult) and at.system:
            system = {"setting": at.system}
        given = [weights] if auto is None else [None, *candidates(auto, at)]
        if on == BOTH and (said := read_keep(keep)).epochs == USUAL.epochs:  # the best epoch would be best on test data
            keep = structs.replace(said, epochs=(LAST,))
        call = Call.read(
            workers=workers,
            resources=resources,
            name=name,
            retries=retries,
            on_oom=on_oom,
            timeout_s=timeout_s,
            grace_s=10.0,
            reuse_child=False,
            mirror=mirror,
            keep=keep,
            engine=engine,
            trials=len(listed),
            ranks=ranks,
            parallel=parallel,
            batch=batch,
            system=system,
        )
        check_ranks(partition, ranks)
        of = self._with(partition)
        live = final(
            of,
            self.checked(at, of.signature),
            given,
            call,
            seeds=listed,
            auto=auto,
            on=on,
            partition=partition,
            chosen=chosen_by(at),
        )
        fitted: Fit = live.search  # type: ignore[assignment] # as was asked for
        self.last = fitted
        if wait:
            live.wait(progress=progress)
        return fitted

    def forecast(self, *, trials: int | None = None, **options: Any) -> Forecast:
        """Say what a study of this experiment will take, from the last or newest study that it has.

        Args:
            trials: How many trials it will have; as many as that study if left out.
            options: What else ``etude.forecast`` takes: ``workers``, ``stopper``, ``price_per_hour``, ...

        Returns:
            The forecast: print it.

        Raises:
            ConfigError: The call cannot be, or there is no study to go by.
            StudyError: Too few of its trials ran to their end.
        """
        from etude.forecasting.forecast import forecast
        from etude.forecasting.found import newest_study_of

        known = self.last is not None and not self.last.simulated and self.last.verb == "tune"
        last = self.last if self.last is not None and known else newest_study_of(self)
        return forecast(last, trials=trials, **options)

    def checked(self, at: TrialResult | Mapping[str, Any] | None, signature: Signature | None = None) -> dict[str, Any]:
        """Return the parameters of a trial, or those given, by name.

        Args:
            at: What was given.
            signature: What the functions take, if that is not only what they take by themselves.

        Raises:
            ConfigError: It is neither.
            SignatureError: One is unknown, missing or of the wrong type.
        """
        if isinstance(at, TrialResult):
            return self._checked(at.params, signature)
        if at is not None and not isinstance(at, Mapping):
            told = "a study" if isinstance(at, Search) else brief(at)
            raise ConfigError(
                f"at= got {told}, which is no configuration. Pass a trial, at=search.best, or parameters."
            )
        return self._checked(dict(at or {}), signature)

    def _with(self, partition: object) -> Definition:
        """Return the definition with a partition; its own without one."""
        from etude.verbs.partitioned import Partitioned

        return self if partition is None else Partitioned(self, partition)

    def _checked(self, params: Mapping[str, Any], signature: Signature | None = None) -> dict[str, Any]:
        signature = signature or self.signature
        flat = signature.flat(params)
        signature.check(flat)
        return flat
