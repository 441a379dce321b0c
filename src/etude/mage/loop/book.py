"""What the mage writes into the study's journal, and what that comes to when it is read.

Everything is a ``Prepared`` fact. Each one that moves a variant holds the variant's standing after it, so that folding
needs no rule and a journal reads the same after the rules have changed; going on is reading it. Whatever was sent,
answered, changed or seen is in the bodies: another machine can review, judge anew, export, and go on.

What looks like a key in the environment is taken out of whatever is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol, TypeVar

import msgspec

from etude.core.clock import Clock
from etude.core.errors import ConfigError
from etude.core.events import AnyFact, Prepared
from etude.mage.annotations import Annotation
from etude.mage.asking.budget import Budget
from etude.mage.backends.protocol import Reply, Usage
from etude.mage.facts import Facts
from etude.mage.judge.baseline import Pairing, pairing
from etude.mage.judge.completion import Completion
from etude.mage.loop.standing import Standing
from etude.mage.loop.states import Stage
from etude.mage.patch.blocks import Patch
from etude.mage.scrubbing import scrub_all
from etude.mage.tree import Tree, digest_of
from etude.mage.values import Value
from etude.mage.variants import Plan, Variant
from etude.mage.verdicts import Rung, Verdict

T = TypeVar("T")
SHORT_S: Final = 300.0
"""Seconds that a run to the end may take, where nobody says otherwise."""


class Did(StrEnum):
    """What was done."""

    BEGUN = "begun"
    SCANNED = "scanned"
    PLANNED = "planned"
    PLAN_APPROVED = "plan approved"
    MEASURED = "measured"
    ASKED = "asked"
    ANSWERED = "answered"
    PATCHED = "patched"
    CHECKED = "checked"
    PROBED = "probed"
    JUDGED = "judged"
    COMPLETED = "completed"
    REVIEWED = "reviewed"
    TAKEN_UP = "taken up"
    SPENT = "spent"
    EXPORTED = "exported"
    ABLATED = "ablated"
    HANDED_OVER = "handed over"
    ENDED = "ended"


class Whom(Value, frozen=True):
    """Somebody who is asked, as the user has named them.

    Attributes:
        name: Such as ``anthropic:MODEL``; empty for nobody.
        base_url: Where, if that was said beside the name.
        context: Tokens that the model takes, question and answer together; None for what a table says of it.
        most_output: Tokens that it gives; None as well.
    """

    name: str = ""
    base_url: str = ""
    context: int | None = None
    most_output: int | None = None


STEPS: Final = 3
"""So many steps are watched, unless somebody says otherwise."""


class Setup(Value, frozen=True):
    """How a study is prepared; what is empty nobody has said.

    Attributes:
        root: The project's folder.
        entry: How it is run.
        metric: Where its metric is: ``metrics.json:accuracy``, or the name that it prints.
        mode: ``max`` if larger is better, ``min`` if smaller is; without, larger is.
        tier: What generated code runs in; empty for the best that there is.
        seed: The seed of probes.
        steps: So many optimizer steps, or fits, are watched; None for as many as usual.
        tag: What sets contents apart from instructions in prompts.
        docs: Documents that are sent along: name -> text.
        columns: Columns of the data that may be named.
        choices: How components are meant that can be meant in several ways: component -> what goes along.
        planner: Who reads hints and documents; nobody if rules read the hints.
        writer: Who writes variants.
        local_only: Whether nothing of it may leave this machine.
        budget: What may be spent.
        repairs: Repairs of one draft, at most; None for as many as usual.
        most_bytes: So many bytes of files are sent at most; None for as many as usual.
        short: Arguments that are added to the entry where programs are run to their end: what makes that shorter;
            empty for none, None if nobody said.
        short_s: Seconds that such a run may take; 0 for no such runs, None for as many as usual.
    """

    root: str
    entry: str
    metric: str = ""
    mode: str = ""
    tier: str = ""
    seed: int = 0
    steps: int | None = None
    tag: str = ""
    docs: Mapping[str, str] = {}
    columns: tuple[str, ...] = ()
    choices: Mapping[str, str] = {}
    planner: Whom = Whom()
    writer: Whom = Whom()
    local_only: bool = False
    budget: Budget = Budget()
    repairs: int | None = None
    most_bytes: int | None = None
    short: str | None = None
    short_s: float | None = None

    @property
    def to_its_end(self) -> str:
        """How the program is run to its end."""
        return f"{self.entry} {self.short or ''}".strip()

    @property
    def end_s(self) -> float:
        """Seconds that a run to its end may take; 0 for no such runs."""
        return SHORT_S if self.short_s is None else self.short_s


class Approval(Value, frozen=True):
    """Somebody wants a variant as it stands.

    Attributes:
        by: Who, or which policy.
        patch: The digest of the patch.
        verdict: That of the verdict.
        note: What they said.
        despite: Whether the verdict is no pass, and they know.
    """

    by: str
    patch: str
    verdict: str
    note: str = ""
    despite: bool = False


def digest_of_variant(variant: Variant, base: str) -> str:
    """Return what tells a variant of a tree from another one of its name: what is wanted, and of which files."""
    wanted = [base, msgspec.to_builtins(variant, str_keys=False)]
    return digest_of(msgspec.msgpack.encode(wanted, order="deterministic"))


def digest_of_verdicts(verdicts: Iterable[Verdict]) -> str:
    """Return what an approval binds to."""
    return digest_of(msgspec.msgpack.encode([msgspec.to_builtins(v) for v in verdicts], order="deterministic"))


@dataclass
class Record:
    """What was prepared so far, as the journal tells it.

    Attributes:
        setup: How; None if nothing was begun.
        tree: The untouched files.
        left_out: Files that are no part of it, and why.
        annotations: What is marked in them.
        plan: What is wanted.
        runs: What the untouched program did in its first steps.
        whole: What it did when it was run to its end; None if it was not.
        standings: How far each variant is.
        patches: By digest.
        verdicts: What each rung says, by the digest of all of it.
        checked: What is said of a patch without running it, by its digest.
        facts: What the patched program did, by the patch's digest.
        completions: What it did when it was run to its end, by that digest.
        trials: What a trial of a patch has shown that failed, by its digest, until it is to be written again.
        failed: The patches of which a trial has ever failed, as somebody was told.
        replies: By the digest of the request.
        answers: The newest answer for each variant.
        approvals: The newest of each variant.
        ablations: By name, the digests of the patches that each was begun with, by variant.
        usage: Tokens in and out, as far as services told them.
        requests: How often somebody was asked, whose answer was not in the journal.
        spent: What was spent by each variant, as it was written down last.
        unpriced: Answers of which nobody told how many tokens they took.
        ended: Why it ended last, if nothing came after that.
    """

    setup: Setup | None = None
    tree: Tree = field(default_factory=Tree)
    left_out: dict[str, str] = field(default_factory=dict)
    annotations: tuple[Annotation, ...] = ()
    plan: Plan | None = None
    runs: tuple[Facts, ...] = ()
    whole: Completion | None = None
    standings: dict[str, Standing] = field(default_factory=dict)
    patches: dict[str, Patch] = field(default_factory=dict)
    verdicts: dict[str, tuple[Verdict, ...]] = field(default_factory=dict)
    checked: dict[str, tuple[Verdict, ...]] = field(default_factory=dict)
    facts: dict[str, Facts] = field(default_factory=dict)
    completions: dict[str, Completion] = field(default_factory=dict)
    trials: dict[str, Verdict] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    replies: dict[str, Reply] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)
    approvals: dict[str, Approval] = field(default_factory=dict)
    ablations: dict[str, dict[str, str]] = field(default_factory=dict)
    usage: tuple[int, int] = (0, 0)
    requests: int = 0
    spent: Any = None
    unpriced: int = 0
    ended: str = ""

    @classmethod
    def of(cls, facts: Iterable[AnyFact]) -> Record:
        """Return what facts come to."""
        record = cls()
        for fact in facts:
            if isinstance(fact, Prepared):
                record.apply(fact)
        return record

    def variant(self, name: str) -> Variant:
        """Return a variant that is wanted.

        Raises:
            ConfigError: There is none of that name; the message says which there are.
        """
        planned = self.plan.variants if self.plan is not None else ()
        found = next((variant for variant in planned if variant.name == name), None)
        if found is None:
            names = ", ".join(variant.name for variant in planned) or "none"
            raise ConfigError(f"There is no variant {name!r} in the plan. There are: {names}.")
        return found

    def patch_of(self, name: str) -> Patch | None:
        """Return the patch that a variant stands with."""
        standing = self.standings.get(name)
        return self.patches.get(standing.patch) if standing is not None else None

    def verdicts_of(self, name: str) -> tuple[Verdict, ...]:
        """Return what the rungs say of it."""
        standing = self.standings.get(name)
        return self.verdicts.get(standing.verdict, ()) if standing is not None else ()

    def accepted(self) -> dict[str, Patch]:
        """Return the patches that are approved as they stand, by variant, in the plan's order."""
        found = {}
        for variant in self.plan.variants if self.plan is not None else ():
            if variant.serves:
                continue  # it is no variant by itself
            standing, patch = self.standings.get(variant.name), self.patch_of(variant.name)
            if standing is not None and patch is not None and standing.stage in (Stage.ACCEPTED, Stage.HANDED_OVER):
                found[variant.name] = patch
        return found

    def pairing_of(self, name: str) -> Pairing | None:
        """Return whether equal seeds pair a variant's runs with the untouched program's; None if it was not run."""
        patch = self.patch_of(name)
        facts = self.facts.get(patch.digest) if patch is not None else None
        return pairing(self.runs[0], facts) if self.runs and facts is not None else None

    def apply(self, fact: Prepared) -> None:
        """Fold one fact in."""
        body = fact.body
        self.ended = ""
        for standing in body.get("standings", ()):
            read = _read(standing, Standing)
            self.standings[read.variant] = read
        self.spent = body.get("spent", self.spent)
        if (fold := _FOLDS.get(fact.what)) is not None:
            fold(self, fact.variant, fact.body)

    def _begun(self, _: str, body: Mapping[str, Any]) -> None:
        self.setup = _read(body["setup"], Setup)

    def _scanned(self, _: str, body: Mapping[str, Any]) -> None:
        tree = Tree(dict(body["files"]))
        if tree.digest != self.tree.digest:
            self.runs, self.whole = (), None  # it was another program that ran
        self.tree = tree
        self.left_out = dict(body.get("left_out", {}))
        self.annotations = tuple(_read(one, Annotation) for one in body.get("annotations", ()))

    def _planned(self, _: str, body: Mapping[str, Any]) -> None:
        self.plan = _read(body["plan"], Plan)
        wanted = {variant.name for variant in self.plan.variants}
        self.standings = {name: standing for name, standing in self.standings.items() if name in wanted}

    def _measured(self, _: str, body: Mapping[str, Any]) -> None:
        self.runs = tuple(_read(run, Facts) for run in body["runs"])

    def _patched(self, _: str, body: Mapping[str, Any]) -> None:
        if "patch" in body:
            patch = _read(body["patch"], Patch)
            self.patches[patch.digest] = patch

    def _checked(self, _: str, body: Mapping[str, Any]) -> None:
        if "verdicts" in body:
            self.checked[body["patch"]] = tuple(_read(one, Verdict) for one in body["verdicts"])

    def _probed(self, _: str, body: Mapping[str, Any]) -> None:
        if "facts" in body:
            self.facts[body["patch"]] = _read(body["facts"], Facts)

    def _judged(self, _: str, body: Mapping[str, Any]) -> None:
        if "verdicts" in body:
            verdicts = tuple(_read(one, Verdict) for one in body["verdicts"])
            self.verdicts[body["digest"]] = verdicts
            self.trials |= {one.patch: one for one in verdicts if one.rung is Rung.TRIAL}
            self.failed |= self.trials.keys()

    def _completed(self, name: str, body: Mapping[str, Any]) -> None:
        if "completion" in body:
            read = _read(body["completion"], Completion)
            if name:
                self.completions[body["patch"]] = read
            else:
                self.whole = read
        self._judged(name, body)

    def _taken_up(self, _: str, body: Mapping[str, Any]) -> None:
        self.trials.pop(str(body.get("forgets", "")), None)

    def _reviewed(self, name: str, body: Mapping[str, Any]) -> None:
        if body.get("approval") is not None:
            self.approvals[name] = _read(body["approval"], Approval)

    def _ablated(self, _: str, body: Mapping[str, Any]) -> None:
        self.ablations[str(body["ablation"])] = dict(body["patches"])

    def _ended(self, _: str, body: Mapping[str, Any]) -> None:
        self.ended = str(body.get("why", ""))

    def _answered(self, name: str, body: Mapping[str, Any]) -> None:
        reply = _read(body["reply"], Reply)
        self.replies[body["digest"]] = reply
        self.answers[name] = reply.text
        if body.get("from_cache"):
            return
        self.requests += 1
        if reply.usage.input is None and reply.usage.output is None:
            self.unpriced += 1
        self.usage = (self.usage[0] + (reply.usage.input or 0), self.usage[1] + (reply.usage.output or 0))


_FOLDS: Mapping[str, Callable[[Record, str, Mapping[str, Any]], None]] = {
    Did.BEGUN: Record._begun,
    Did.SCANNED: Record._scanned,
    Did.PLANNED: Record._planned,
    Did.MEASURED: Record._measured,
    Did.ANSWERED: Record._answered,
    Did.PATCHED: Record._patched,
    Did.CHECKED: Record._checked,
    Did.PROBED: Record._probed,
    Did.JUDGED: Record._judged,
    Did.COMPLETED: Record._completed,
    Did.ABLATED: Record._ablated,
    Did.REVIEWED: Record._reviewed,
    Did.TAKEN_UP: Record._taken_up,
    Did.ENDED: Record._ended,
}
"""What each kind of fact comes to; of a kind that a later version writes, nothing."""


class Writable(Protocol):
    """A journal that may be written."""

    def append(self, facts: Iterable[AnyFact]) -> None:
        """Append facts in one transaction."""
        ...

    def facts_but_reports(self) -> Iterable[AnyFact]:
        """Yield what is in it."""
        ...


class Book:
    """Writes what is done into a journal, and knows what that comes to.

    Args:
        journal: The study's journal, whose lease is ours.
        clock: Tells when.
        secrets: Texts that are never written.
    """

    def __init__(self, journal: Writable, clock: Clock, *, secrets: Iterable[str] = ()) -> None:
        self._journal = journal
        self._clock = clock
        self._secrets = sorted(secrets, key=len, reverse=True)
        self.record = Record.of(journal.facts_but_reports())

    def write(self, did: Did, variant: str = "", **body: Any) -> None:
        """Write down that something was done; it is part of the record afterwards.

        Raises:
            StudyInUseError: Somebody else has taken the study over; nothing was written.
        """
        plain = msgspec.to_builtins(body, builtin_types=(bytes,), enc_hook=str)
        fact = Prepared(
            at=self._clock.now_s(),
            what=did.value,
            variant=variant,
            body=scrub_all(plain, self._secrets),
        )
        self._journal.append([fact])
        self.record.apply(fact)

    def refuse_secrets(self, files: Mapping[str, bytes]) -> None:
        """Refuse files that hold a key which is in the environment: they would be written down, and sent.

        Raises:
            ConfigError: One does.
        """
        for path, content in files.items():
            if any(secret.encode() in content for secret in self._secrets):
                raise ConfigError(
                    f"{path} contains the value of an environment variable that looks like a key. It would be written "
                    "into the journal, and sent. Take it out of the file, and read it from the environment."
                )


class Answers:
    """The answers in a journal, as a cache: a question that was answered once costs nothing again.

    Args:
        book: Where they are, and go.
    """

    def __init__(self, book: Book) -> None:
        self._book = book
        self.variant = ""
        """For whom is asked now."""

    def get(self, digest: str) -> Reply | None:
        """Return the answer to a request; None if it was never answered."""
        return self._book.record.replies.get(digest)

    def put(self, digest: str, reply: Reply) -> None:
        """Write an answer down."""
        self._book.write(Did.ANSWERED, self.variant, digest=digest, reply=_kept(reply))


def told_usage(usage: Usage) -> str:
    """Return what a question cost, in words; what is not known is not 0."""
    if usage.input is None and usage.output is None:
        return "tokens unknown"
    cached = f", {usage.cached:,} of them cached" if usage.cached else ""
    known = [f"{n:,} {word}" for n, word in ((usage.input, f"in{cached}"), (usage.output, "out")) if n is not None]
    return f"tokens: {', '.join(known)}"


def _kept(reply: Reply) -> Reply:
    """Return a reply without its bytes: the text is what was made of them, and headers may be among them."""
    return msgspec.structs.replace(reply, raw=None)


def _read(value: Any, kind: type[T]) -> T:
    return msgspec.convert(value, kind, strict=False)
