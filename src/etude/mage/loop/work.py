"""The shell of the loop: it carries out what the machine decides, and writes everything down.

What is about to be asked is written before it is asked; what was answered, before it is used. So a study that was
killed at any moment goes on from its journal, and no answer that was paid for is asked for again.

All that touches the world is handed in, as ``Tools``.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

import msgspec

from etude.core.errors import BackendError, BudgetSpent, ConfigError, EtudeError
from etude.core.text import count
from etude.mage.asking import prompts
from etude.mage.asking.asker import Asker
from etude.mage.asking.evidence import Evidence, of_reasons, of_verdict
from etude.mage.asking.retrying import told_of_limit
from etude.mage.backends.capabilities import MOST_TOKENS
from etude.mage.backends.protocol import Reply, Request, StopReason
from etude.mage.facts import Facts
from etude.mage.judge.baseline import Baseline
from etude.mage.judge.completion import Completion, why_broken, why_not_run
from etude.mage.loop import events as loop
from etude.mage.loop import ladder
from etude.mage.loop.book import Answers, Approval, Book, Did, digest_of_variant, digest_of_verdicts
from etude.mage.loop.ladder import worst
from etude.mage.loop.machine import Machine, Tries
from etude.mage.loop.standing import Standing
from etude.mage.loop.states import ENDS, Stage
from etude.mage.patch.blocks import Author, Block, Patch
from etude.mage.patch.making import with_arguments
from etude.mage.tree import Tree
from etude.mage.variants import Plan, Route, Variant
from etude.mage.verdicts import Outcome, Reason, Rung, Verdict

FOR_ONE: Final = frozenset({"too large", "bad request"})
"""Failures of a backend that are about one question, and not about all."""
BASELINE_RUNS: Final = 2


class Written(Protocol):
    """What was read of an answer."""

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The changes."""
        ...

    @property
    def cannot(self) -> str | None:
        """Why there are none, if whoever was asked says so."""
        ...


Told_co = TypeVar("Told_co", covariant=True)


class Run(Protocol[Told_co]):
    """Runs a program, and tells what it did."""

    def __call__(self, tree: Tree, arguments: Sequence[str] = (), /) -> Told_co:
        """Run a tree, with arguments besides those of its entry."""
        ...


@dataclass(frozen=True)
class Tools:
    """What the loop works with.

    Attributes:
        write_by_rule: Variant, tree, facts of the baseline -> blocks, or None where no rule is sure.
        read_reply: An answer's text, whether it was cut off, and its limit -> what it says.
        make_patch: Tree, blocks, author, names of definitions that may go -> a patch.
        patched: Tree, patch -> tree.
        check: Tree, patch, variant -> what can be said without running it.
        probe: Tree, arguments besides -> what the program did.
        compare: What the untouched program did, twice or more -> the baseline.
        judge_first_step: Facts -> whether it came so far.
        judge: Variant, baseline, facts, patch -> whether it is what was wanted.
        complete: The same, where it is run to its end; None if no program is.
        grammar: How a change is written.
        asks: Who is asked; None for nobody.
        answers: Where answers are kept, which has to be told for whom is asked.
        name: What they are called in the journal.
        apart: Whether what is run can do no harm, so that doubtful changes may run before a person has seen them.
        most_tokens: So many tokens an answer may have.
    """

    write_by_rule: Callable[[Variant, Tree, Facts | None], tuple[Block, ...] | None]
    read_reply: Callable[..., Written]
    make_patch: Callable[..., Patch]
    patched: Callable[[Tree, Patch], Tree]
    check: Callable[[Tree, Patch, Variant], Sequence[Verdict]]
    probe: Run[Facts]
    compare: Callable[[Sequence[Facts]], Baseline]
    judge_first_step: Callable[[Facts], Verdict]
    judge: Callable[..., Verdict]
    complete: Run[Completion] | None = None
    grammar: str = ""
    asks: Asker | None = None
    answers: Answers | None = None
    name: str = ""
    apart: bool = True
    most_tokens: int = MOST_TOKENS


class Work:
    """Brings variants from a plan to a verdict.

    Args:
        book: Where it is written.
        tools: What it is done with.
        sent: Files whose contents are sent.
        tries: How often is tried.
        approve: Approves a variant without a person, or does not; it may say why not by the returned text.
        say: Tells a person what happens.
    """

    def __init__(
        self,
        book: Book,
        tools: Tools,
        *,
        sent: Sequence[str] = (),
        tries: Tries = Tries(),  # noqa: B008 - it is frozen
        approve: Callable[[str], Approval | str] | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._book = book
        self.tools = tools
        self._sent = tuple(sent)
        self._approve = approve
        self._say = say
        tries = msgspec.structs.replace(tries, writer=tries.writer and tools.asks is not None)
        record = book.record
        self._tries = tries
        self._machine = Machine(record.standings.values(), tries, has_baseline=bool(record.runs))
        self._queue: deque[loop.Command] = deque()
        self._baseline: Baseline | None = None
        self._limit: BackendError | None = None
        self._broken = ""

    @property
    def standings(self) -> Mapping[str, Standing]:
        """How far each variant is."""
        return self._machine.standings

    # --- what people do ---------------------------------------------------------------------------

    def plan(self, plan: Plan) -> None:
        """Write down what is wanted; variants that are wanted as before stay as they are."""
        before = dict(self._machine.standings)
        for variant in plan.variants:
            unclear = "It can be read in several ways: " + "; ".join(variant.unclear) if variant.unclear else ""
            digest = digest_of_variant(variant, plan.base)
            self._machine.handle(
                loop.Planned(
                    variant=variant.name,
                    digest=digest,
                    route=variant.route,
                    unclear=unclear,
                    shares=variant.shares,
                )
            )
        self._book.write(Did.PLANNED, plan=plan, standings=self._changed(before))

    def approve_plan(self, names: Iterable[str], *, by: str) -> None:
        """Let variants be written as they are planned; those that are further already are left alone."""
        for name in names:
            if self.standings[name].stage is Stage.PLANNED:
                self._happened(loop.PlanApproved(variant=name), Did.PLAN_APPROVED, name, by=by)

    def hand_in(self, name: str, patch: Patch) -> None:
        """Take a patch that a person has written: it goes through the same rungs."""
        self._happened(loop.HandedIn(variant=name, patch=patch.digest), Did.PATCHED, name, patch=patch)

    def accept(self, name: str, approval: Approval) -> None:
        """Write down that somebody approves a variant.

        Raises:
            TransitionError: It is not what was approved any more.
        """
        accepted = loop.Accepted(variant=name, patch=approval.patch, verdict=approval.verdict, despite=approval.despite)
        self._happened(accepted, Did.REVIEWED, name, approval=approval)

    def reject(self, name: str, note: str, *, by: str) -> None:
        """Write down that somebody does not approve a variant; with a note it is mended."""
        self._happened(loop.Rejected(variant=name, note=note), Did.REVIEWED, name, approval=None, note=note, by=by)

    def try_again(self, name: str) -> None:
        """Have a variant written again that came to nothing, or one of which a trial failed, with its error.

        It is asked for as if nobody had been asked yet, and what a trial of its patch has shown is not held against
        that any more.

        Raises:
            ConfigError: It is neither.
        """
        record = self._book.record
        failed = ladder.trial_that_failed(record.verdicts_of(record.variant(name).name))
        stage, patch = self.standings[name].stage, record.patch_of(name)
        if stage is not Stage.GAVE_UP and not (stage is Stage.AWAITING_REVIEW and failed):
            raise ConfigError(
                f"{name} is {stage.value}: it did not come to nothing, and no trial of it failed. What was broken off "
                "goes on by itself; what waits for a person is sent back with a note in `etude mage review STUDY`."
            )
        note = failed if stage is Stage.AWAITING_REVIEW else ""
        forgets = patch.digest if patch is not None else ""
        self._happened(loop.TriedAgain(variant=name, note=note), Did.TAKEN_UP, name, forgets=forgets)

    def handed_over(self, names: Iterable[str], *, ablation: str) -> None:
        """Write down that variants are part of an ablation, with all that somebody would want to know of them there."""
        for name in names:
            standing, approval = self.standings[name], self._book.record.approvals.get(name)
            if standing.stage is Stage.ACCEPTED:
                told = {
                    "verdict": standing.verdict,
                    "approval": approval,
                    "pairing": self._book.record.pairing_of(name),
                }
                self._happened(loop.HandedOver(variant=name), Did.HANDED_OVER, name, ablation=ablation, **told)

    def trial_failed(self, name: str, why: str) -> None:
        """Write down that a trial of a variant failed, which voids its approval: it waits for a person again."""
        verdicts = ladder.with_trial(self._book.record.verdicts_of(name), self._patch(name), ladder.of_trial(why))
        digest = digest_of_verdicts(verdicts)
        event = loop.TrialFailed(variant=name, verdict=digest, outcome=worst(verdicts), why=why)
        self._happened(event, Did.JUDGED, name, digest=digest, verdicts=list(verdicts))

    def judge_anew(self, name: str, verdicts: Sequence[Verdict]) -> None:
        """Write down what today's judge says; another verdict voids an approval."""
        digest, outcome = digest_of_verdicts(verdicts), worst(verdicts)
        event = loop.JudgedAnew(variant=name, verdict=digest, outcome=outcome)
        self._happened(event, Did.JUDGED, name, digest=digest, verdicts=list(verdicts))

    # --- the loop ---------------------------------------------------------------------------------

    def measure(self) -> str:
        """Run the untouched program, unless that was done; return why it does not run, and nothing if it does.

        A plan is better made afterwards: then it is known which shapes neighbours have, and what each reading costs.
        """
        if self._book.record.runs:
            return self._complete_baseline(anew=True)
        self._measure()
        return "" if self._book.record.runs else self._broken

    def run(self, *, take_up: bool = True) -> None:
        """Work until each variant has ended or waits for a person.

        Args:
            take_up: Whether to go on as well with variants for which the budget was spent, nobody could be asked, or
                the untouched program did not run; and with those that wait, and could be run to their end by now.

        Raises:
            StudyInUseError: Somebody else has taken the study over.
        """
        for name in self.standings if take_up else ():
            if self._is_taken_up(name):
                self._happened(loop.TakenUp(variant=name), Did.TAKEN_UP, name)
        self._queue.clear()
        self._queue.extend(self._machine.resume())
        while self._queue:
            command = self._queue.popleft()
            if self._machine.wants(command):
                self._carry_out(command)
        if self._limit is not None:
            waiting = sum(standing.stage is Stage.BACKEND_DOWN for standing in self.standings.values())
            self._say(told_of_limit(self._limit, done=len(self.standings) - waiting, waiting=waiting))
        for told in self.told_left_out():
            self._say(told)
        self._book.write(Did.ENDED, why=self.told(), standings=list(self.standings.values()))

    def told(self) -> str:
        """Return how far all of it is, in a sentence."""
        stages = [standing.stage for standing in self.standings.values()]
        parts = [f"{stages.count(stage)} {stage.value}" for stage in dict.fromkeys(stages)]
        course = f"{count(len(stages), 'variant')}: {', '.join(parts) or 'none'}."
        return " ".join([course, *self.told_left_out()])

    def told_left_out(self) -> list[str]:
        """Return in sentences which variants were not run to their end, and why, each reason once."""
        names: dict[str, list[str]] = {}
        for name in self.standings:
            if why := ladder.left_out(self._book.record.verdicts_of(name)):
                names.setdefault(why, []).append(name)
        return [f"Not run to its end: {', '.join(of)}. {why}" for why, of in names.items()]

    def _is_taken_up(self, name: str) -> bool:
        record, stage = self._book.record, self.standings[name].stage
        if stage is not Stage.AWAITING_REVIEW:
            return stage in (Stage.BUDGET_SPENT, Stage.BACKEND_DOWN, Stage.BASELINE_BROKEN)
        patch = record.patch_of(name)
        if patch is None or self.tools.complete is None or patch.digest not in record.facts:
            return False
        return ladder.needs_baseline_run(record) or ladder.needs_run(record, patch)

    def _carry_out(self, command: loop.Command) -> None:
        match command:
            case loop.MeasureBaseline():
                self._measure_and_say()
            case loop.Draft(variant=name, route=Route.RULE):
                self._write_by_rule(name)
            case loop.Draft(variant=name, route=Route.SHARED):
                self._share(name)
            case loop.Draft(variant=name):
                self._ask(name)
            case loop.Check(variant=name):
                self._check(name)
            case loop.Probe(variant=name):
                self._probe(name)
            case loop.Judge(variant=name):
                self._judge(name)
            case loop.Complete(variant=name):
                self._complete(name)
            case loop.Review(variant=name):
                self._review(name)

    def _measure_and_say(self) -> None:
        """Run the untouched program where nobody else tells why it does not run."""
        self._measure()
        if self._broken:
            self._say(self._broken)

    def _measure(self) -> None:
        """Run the untouched program, at least twice."""
        tree, runs, base = self._book.record.tree, list[Facts](), None
        while base is None or len(runs) < max(BASELINE_RUNS, base.wanted):
            self._say(f"baseline: run {len(runs) + 1} of the untouched program")
            runs.append(self.tools.probe(tree))
            try:  # one that fails is told after the first run
                base = self.tools.compare(runs if len(runs) > 1 else runs * 2)
            except EtudeError as error:
                self._baseline_broke(str(error), runs)
                return
        self._baseline = base
        if base.text:
            self._say(base.text)
        if why := self._complete_baseline(anew=True):
            self._baseline_broke(why, runs)
            return
        self._happened(loop.BaselineHeld(), Did.MEASURED, runs=runs)

    def _complete_baseline(self, *, anew: bool = False) -> str:
        """Run the untouched program to its end, unless that was done; return why it is of no use there, if it is not.

        Whoever calls it tells that.

        Args:
            anew: Whether to do it again where it was of no use: its data may be there by now.
        """
        record, complete = self._book.record, self.tools.complete
        if complete is None or record.setup is None or not record.setup.end_s:
            return ""
        useless = anew and record.whole is not None and bool(why_broken(record.whole))
        if useless or ladder.needs_baseline_run(record):
            self._say(f"baseline: running it to its end, for {record.setup.end_s:g} s at most")
            whole = complete(record.tree)
            self._book.write(Did.COMPLETED, completion=whole)
            took = (
                f"baseline: it came to its end in {whole.facts.wall_s:.1f} s, and each variant may take as long, once"
            )
            if not why_broken(whole):
                self._say(why_not_run(whole) or took)
        return why_broken(record.whole) if record.whole is not None else ""

    def _baseline_broke(self, why: str, runs: Sequence[Facts]) -> None:
        self._broken = why
        self._happened(loop.BaselineBroke(why=why), Did.MEASURED, runs=[], failed=list(runs), why=why)

    @property
    def _base(self) -> Baseline:
        """What the untouched program does: of a study that goes on, made of what it did then."""
        if self._baseline is None:
            self._baseline = self.tools.compare(self._book.record.runs)
        return self._baseline

    def _write_by_rule(self, name: str) -> None:
        record, variant = self._book.record, self._book.record.variant(name)
        blocks = self.tools.write_by_rule(variant, record.tree, record.runs[0] if record.runs else None)
        if blocks is None:
            why = "No rule is sure how to write it, and nobody is there who could be asked."
            self._happened(loop.CannotBeWritten(variant=name, why=why), Did.PATCHED, name, why=why)
            return
        self._make(name, blocks, Author(name="rule"))

    def _share(self, name: str) -> None:
        """Take the change that a variant shares with others, with its own arguments."""
        record, variant = self._book.record, self._book.record.variant(name)
        change = record.patch_of(variant.shares)
        assert change is not None, "a change that serves others is there"
        patch = with_arguments(change, variant.arguments)
        self._happened(loop.Patched(variant=name, patch=patch.digest), Did.PATCHED, name, patch=patch)

    def _ask(self, name: str) -> None:
        asks, standing = self.tools.asks, self.standings[name]
        assert asks is not None, "the machine asks nobody where nobody is"
        question = self.question(name)
        doing = "repair" if standing.evidence is not None else "draft"
        self._say(f"{name}: {doing} (call {standing.calls + 1})")
        self._happened(loop.Asked(variant=name), Did.ASKED, name, request=question, backend=self.tools.name)
        try:
            if self.tools.answers is not None:
                self.tools.answers.variant = name
            nth = standing.again * self._tries.drafts + max(0, standing.draft - 1)  # none is answered by an earlier one
            answer = asks.ask(question, variant=name, nth=nth)
        except BackendError as error:
            if error.code == "spend limit":
                self._limit = error  # what is left to do is told when the others are as far as they come
            else:
                self._say(str(error))
            failed = loop.BackendFailed(variant=name, why=str(error), whole=error.code not in FOR_ONE)
            self._happened(failed, Did.ENDED, name, why=str(error), **self._spent())
            return
        except BudgetSpent as error:
            self._say(str(error))
            spent = loop.BudgetEnded(variant=name, why=str(error), whole=not error.variant)
            self._happened(spent, Did.ENDED, name, why=str(error), **self._spent())
            return
        self._read(name, answer.reply)

    def question(self, name: str) -> Request:
        """Return what would be asked for a variant as it stands now."""
        record, standing = self._book.record, self.standings[name]
        setup = record.setup
        assert setup is not None, "a study that is written has begun"
        shared = prompts.shared_of(
            record.tree,
            self._sent,
            tag=setup.tag,
            entry=setup.entry,
            docs=setup.docs,
            base=record.runs[0] if record.runs else None,
        )
        evidence = standing.evidence
        blocks = self._blocks_before(name) if evidence is not None else ()
        return prompts.request(
            shared,
            record.variant(name),
            grammar=self.tools.grammar,
            notes=standing.notes,
            evidence=evidence,
            before=record.answers.get(name, "") if evidence is not None else "",
            touched=prompts.touched_by(record.tree, blocks),
            most_tokens=self.tools.most_tokens,
        )

    def _blocks_before(self, name: str) -> tuple[Block, ...]:
        with contextlib.suppress(EtudeError):
            return self.tools.read_reply(self._book.record.answers.get(name, "")).blocks
        return ()

    def _read(self, name: str, reply: Reply) -> None:
        """Make a patch of an answer."""
        cut_off = reply.stop is StopReason.CUT_OFF
        if reply.stop is StopReason.REFUSED:
            why = f"{self.tools.name or 'Whoever was asked'} refused to answer."
            self._happened(loop.CannotBeWritten(variant=name, why=why), Did.PATCHED, name, why=why, **self._spent())
            return
        try:
            written = self.tools.read_reply(reply.text, cut_off=cut_off, most_tokens=self.tools.most_tokens)
        except EtudeError as error:
            self._failed(name, of_reasons(Rung.REPLY, reasons_of(error)), Did.PATCHED)
            return
        if written.cannot:
            why = f"Not written: {written.cannot}"
            self._happened(loop.CannotBeWritten(variant=name, why=why), Did.PATCHED, name, why=why, **self._spent())
            return
        self._make(name, written.blocks, Author(name=reply.model or self.tools.name, request=reply.request))

    def _make(self, name: str, blocks: Sequence[Block], author: Author) -> None:
        # A file that the plan does not name is for a person to allow, so it is no reason not to apply the patch: the
        # rung of policies tells it.
        record = self._book.record
        try:
            patch = self.tools.make_patch(record.tree, tuple(blocks), author=author, lost_ok=record.variant(name).goes)
        except EtudeError as error:
            rung = getattr(error, "rung", Rung.APPLY)
            self._failed(name, of_reasons(rung, reasons_of(error)), Did.PATCHED)
            return
        event = loop.Patched(variant=name, patch=patch.digest)
        self._happened(event, Did.PATCHED, name, patch=patch, **self._spent())

    def _check(self, name: str) -> None:
        record, patch = self._book.record, self._patch(name)
        verdicts = tuple(self.tools.check(record.tree, patch, record.variant(name)))
        failed = next((verdict for verdict in verdicts if verdict.outcome is Outcome.FAILED), None)
        if failed is not None:
            self._failed(name, of_verdict(failed), Did.CHECKED, patch=patch.digest, verdicts=verdicts)
            return
        self._happened(loop.Checked(variant=name), Did.CHECKED, name, patch=patch.digest, verdicts=verdicts)

    def _probe(self, name: str) -> None:
        record, patch = self._book.record, self._patch(name)
        doubtful = worst(record.checked.get(patch.digest, ())) is Outcome.FOR_A_PERSON
        if doubtful and not self.tools.apart:
            self._happened(loop.Probed(variant=name), Did.PROBED, name, patch=patch.digest)  # not run: see _judge
            return
        self._say(f"{name}: running it")
        facts = self.tools.probe(self.tools.patched(record.tree, patch), patch.arguments)
        first = self.tools.judge_first_step(facts)
        if first.outcome is Outcome.FAILED:
            self._failed(name, of_verdict(first, ended=facts.ended), Did.PROBED, patch=patch.digest, facts=facts)
            return
        self._happened(loop.Probed(variant=name), Did.PROBED, name, patch=patch.digest, facts=facts)

    def _judge(self, name: str) -> None:
        record, patch = self._book.record, self._patch(name)
        verdicts = self._with_trial(self.judged_now(record.variant(name), patch), patch)
        failed = next((verdict for verdict in verdicts if verdict.outcome is Outcome.FAILED), None)
        digest = digest_of_verdicts(verdicts)
        if failed is not None:
            facts = record.facts.get(patch.digest)
            ended = facts.ended if facts is not None else None
            self._failed(name, of_verdict(failed, ended=ended), Did.JUDGED, digest=digest, verdicts=verdicts)
            return
        event = loop.Judged(variant=name, patch=patch.digest, verdict=digest, outcome=worst(verdicts))
        self._happened(event, Did.JUDGED, name, digest=digest, verdicts=verdicts)

    def judged_now(self, variant: Variant, patch: Patch) -> tuple[Verdict, ...]:
        """Return what the rungs up to GONE say of a patch whose facts are in the journal."""
        tools = self.tools
        return ladder.first_rungs(
            self._book.record,
            variant,
            patch,
            self._base,
            judge_first_step=tools.judge_first_step,
            judge=tools.judge,
        )

    def _with_trial(self, verdicts: Sequence[Verdict], patch: Patch) -> tuple[Verdict, ...]:
        """Return verdicts with what a trial of the patch has shown, whoever wrote it and whenever that was."""
        return ladder.with_trial(verdicts, patch, self._book.record.trials.get(patch.digest))

    def _complete(self, name: str) -> None:
        """Run the patched program to its end, where that can be, and judge how it came there."""
        record, patch, complete = self._book.record, self._patch(name), self.tools.complete
        variant = record.variant(name)
        self._complete_baseline()
        if complete is not None and ladder.needs_run(record, patch):
            self._say(f"{name}: running it to its end")
            completion = complete(self.tools.patched(record.tree, patch), patch.arguments)
            self._book.write(Did.COMPLETED, name, patch=patch.digest, completion=completion)
        end = ladder.to_the_end(record, variant, patch, self._base)
        verdicts = self._with_trial(ladder.with_end(self.judged_now(variant, patch), end), patch)
        digest = digest_of_verdicts(verdicts)
        if end.outcome is Outcome.FAILED:
            ended = record.completions[patch.digest].facts.ended
            self._failed(name, of_verdict(end, ended=ended), Did.COMPLETED, digest=digest, verdicts=verdicts)
            return
        event = loop.Completed(variant=name, patch=patch.digest, verdict=digest, outcome=worst(verdicts))
        self._happened(event, Did.COMPLETED, name, digest=digest, verdicts=verdicts)

    def _review(self, name: str) -> None:
        if self._approve is None:
            return
        answer = self._approve(name)
        if isinstance(answer, Approval):
            self.accept(name, answer)
            self._say(f"{name}: approved by {answer.by}")
        else:
            self._say(f"{name}: waits for a person: {answer}")

    # --- writing it down --------------------------------------------------------------------------

    def _failed(self, name: str, evidence: Evidence, did: Did, **body: Any) -> None:
        standing = self.standings[name]
        patch = standing.patch if standing.stage is not Stage.DRAFTING else ""
        self._say(f"{name}: {evidence.text.splitlines()[0] if evidence.text else 'failed'}")
        event = loop.Failed(variant=name, evidence=evidence, patch=patch)
        self._happened(event, did, name, failed=evidence, **{**self._spent(), **body})

    def _happened(self, event: loop.Event, did: Did, variant: str = "", **body: Any) -> None:
        before = dict(self._machine.standings)
        commands = self._machine.handle(event)
        self._book.write(did, variant, standings=self._changed(before), **body)
        self._queue.extend(commands)

    def _changed(self, before: Mapping[str, Standing]) -> list[Standing]:
        return [standing for name, standing in self._machine.standings.items() if before.get(name) != standing]

    def _spent(self) -> dict[str, Any]:
        """Return what was spent so far, as it is written down."""
        return {"spent": self.tools.asks.spent} if self.tools.asks is not None else {}

    def _patch(self, name: str) -> Patch:
        patch = self._book.record.patch_of(name)
        assert patch is not None, f"{name} is looked at, and so it has a patch"
        return patch


def reasons_of(error: EtudeError) -> tuple[Reason, ...]:
    """Return why a reply or a patch was refused."""
    found = getattr(error, "reasons", None) or getattr(error, "reason", None)
    if isinstance(found, Reason):
        return (found,)
    return tuple(found) if found else (Reason(text=str(error)),)


def is_done(standing: Standing) -> bool:
    """Say whether a variant needs nothing more: it is accepted, serves others, or ended for good."""
    return standing.stage in (Stage.ACCEPTED, Stage.SHARED) or standing.stage in ENDS
