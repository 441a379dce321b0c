"""Asks a service of yours the tiny question and for one variant, and shows all that went out and came back.

It is run by hand alone, as ``make live BACKEND=anthropic:MODEL``, and costs what so many tokens cost. It was never run
against a live service here, only against a server on this machine with answers that we wrote (``test_mage_live``).
Where ``CI`` is set it asks this machine alone.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.mage_written import ENTRY, copied

if TYPE_CHECKING:
    from etude.mage.backends.protocol import Backend
    from etude.mage.loop.book import Record
    from etude.mage.sandbox.protocol import Sandbox
    from etude.mage.variants import Plan
    from etude.mage.verdicts import Rung

PROGRAM: Final = "mage_cnn"
"""The smallest of the paper's programs: one file, and images that are drawn."""
CHOICES: Final = {"conv2": "none", "fc1": "none"}
MOST_TOKENS: Final = 4_096
"""Of one answer; what we wrote for this variant has about 200."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run as a command; return 0 if an answer came and was looked at, whatever was found, else 1."""
    from etude.core.errors import EtudeError
    from etude.core.text import visible_lines
    from etude.mage.backends.naming import backend_of, check_ready
    from etude.mage.loop.at_hand import find_sandbox

    parser = _parser()
    options = parser.parse_args(arguments)
    if options.repairs < 0 or options.most_tokens < 1 or options.short_limit < 0:
        parser.error("--repairs and --short-limit are 0 or more, and --most-tokens is 1 or more.")
    with tempfile.TemporaryDirectory(prefix="etude-live-") as folder:
        study = Path(folder) / "study"
        try:
            backend = backend_of(options.backend, local_only=options.local_only or bool(os.environ.get("CI")))
            check_ready(backend)
            sandbox = find_sandbox(options.sandbox)  # before anything is sent
            calls, tokens = most_of(options.repairs, options.most_tokens)
            print(f"To {backend.name} at {backend.host}: {calls} questions at most, {tokens:,} tokens back at most.")
            record = ask_for_one(
                backend,
                Path(folder),
                study,
                sandbox=lambda: sandbox,
                repairs=options.repairs,
                most_tokens=options.most_tokens,
                end_s=options.short_limit,
            )
        except EtudeError as error:
            print("\n".join(visible_lines(line) for line in exchanged(study)))
            print(visible_lines(str(error)), file=sys.stderr)
            return 1
        print("\n".join(visible_lines(line) for line in (*exchanged(study), *fared(record))))
        found = summed_up(record, backend)
        print(json.dumps(found))
        return 0 if found["rung"] else 1


def most_of(repairs: int, most_tokens: int) -> tuple[int, int]:
    """Return how often is asked at most, and how many tokens all answers may have."""
    from etude.mage.asking.asker import SMALL

    return 2 + repairs, SMALL.most_tokens + (1 + repairs) * most_tokens


def ask_for_one(
    backend: Backend,
    place: Path,
    study: Path,
    *,
    sandbox: Callable[[], Sandbox],
    repairs: int = 0,
    most_tokens: int = MOST_TOKENS,
    end_s: float = 300.0,
) -> Record:
    """Ask whether somebody answers, then for the first variant of a small program; return what came of it.

    Args:
        backend: Who is asked.
        place: A folder for the program.
        study: Where all of it is written down.
        sandbox: Gives what programs run in.
        repairs: So often what failed goes back at most; there is one draft.
        most_tokens: So many tokens each answer may have.
        end_s: Seconds that a run to the end may take; 0 for none.

    Raises:
        BackendError: The tiny question was not answered; no program was run then.
        BudgetSpent: It was asked again so often that there is no room for more.
        BaselineError: The untouched program does not run.
    """
    from etude.core.errors import BaselineError
    from etude.mage.asking.budget import Budget, Limits
    from etude.mage.loop import at_hand, preparing
    from etude.mage.loop.aside import Aside
    from etude.mage.loop.book import Setup
    from etude.mage.loop.machine import Tries
    from etude.mage.loop.session import read, writing
    from etude.mage.loop.work import Work
    from etude.mage.plan import planning

    calls, tokens = most_of(repairs, most_tokens)
    budget = Budget(study=Limits(calls=calls, output=tokens))
    root = copied(PROGRAM, place)
    setup = Setup(root=str(root), entry=ENTRY, metric="metrics.json:accuracy", choices=CHOICES, short_s=end_s)
    project = preparing.look(root, entry=ENTRY)
    assert project.chosen is not None, "its entry is known"
    with writing(study) as book:
        preparing.begin(book, project, setup)
        assert book.record.setup is not None, "it has just begun"
        setup = book.record.setup
        tools = at_hand.tools_at_hand(
            book, setup, sandbox=sandbox, tier=sandbox().tier, backend=backend, budget=budget, say=_tell
        )
        tools = dataclasses.replace(tools, most_tokens=min(tools.most_tokens, most_tokens))
        assert tools.asks is not None, "somebody was named"
        assert tools.answers is not None, "somebody was named"
        Aside(book, tools.asks, tools.answers).see_whether_it_answers()
        tries = Tries(repairs=repairs, drafts=1)
        work = Work(book, tools, sent=project.chosen.sent, tries=tries, say=_tell)
        if why := work.measure():
            raise BaselineError(why)
        facts = book.record.runs[0]
        plan = planning.plan(book.record.tree, ENTRY, project.annotations, facts=facts, choices=CHOICES)
        work.plan(first_of(plan))
        work.approve_plan(list(work.standings), by="whoever ran make live")
        work.run()
    return read(study)


def first_of(plan: Plan) -> Plan:
    """Return a plan of its first variant alone."""
    import msgspec

    return msgspec.structs.replace(plan, variants=plan.variants[:1])


def exchanged(study: Path) -> Iterator[str]:
    """Give all that was asked and answered, as it stands in a study's journal: keys are in none of it."""
    import msgspec

    from etude.core.events import Prepared
    from etude.mage.backends.protocol import Reply, Request
    from etude.mage.loop.book import Did, told_usage
    from etude.store.journal import FILE, Journal

    if not (study / FILE).exists():
        return
    with contextlib.closing(Journal.read(study)) as journal:
        facts = [fact for fact in journal.facts_but_reports() if isinstance(fact, Prepared)]
    for fact in facts:
        what = fact.variant or "whether anybody answers"
        if fact.what == Did.ASKED:
            request = msgspec.convert(fact.body["request"], Request)
            yield f"\n══ sent: {what}; at most {request.most_tokens:,} tokens back"
            if request.system:
                yield f"── system\n{request.system}"
            for message in request.messages:
                yield f"── {message.role}\n{message.text}"
        elif fact.what == Did.ANSWERED:
            reply = msgspec.convert(fact.body["reply"], Reply)
            yield f"\n══ came back: {what}; {reply.stop.value}; {told_usage(reply.usage)}\n{reply.text}"


def fared(record: Record) -> Iterator[str]:
    """Give how the answer fared on the ladder."""
    from etude.mage.review.screen import told_verdicts

    for name, standing in record.standings.items():
        yield f"\n══ {name}: {standing.stage.value}, after {standing.calls} calls"
        if verdicts := record.verdicts_of(name):
            yield "\n".join(told_verdicts(verdicts))
        elif standing.evidence is not None:
            yield f"{_called(standing.evidence.rung)}: failed\n{standing.evidence.text}"
        elif standing.why:
            yield standing.why


def summed_up(record: Record, backend: Backend) -> dict[str, Any]:
    """Return it for a program; ``rung`` is the highest that was reached, and empty if no answer was judged."""
    [(name, standing)] = record.standings.items()
    reached = [one.rung for one in record.verdicts_of(name)]
    if not reached and standing.evidence is not None:
        reached = [standing.evidence.rung]
    return {
        "backend": backend.name,
        "variant": name,
        "requests": record.requests,
        "tokens_in": record.usage[0],
        "tokens_out": record.usage[1],
        "unpriced": record.unpriced,
        "stage": standing.stage.value,
        "outcome": standing.outcome.value if standing.outcome is not None else "",
        "rung": _called(max(reached)) if reached else "",
        "why": standing.why,
    }


def _called(rung: Rung) -> str:
    return rung.name.lower().replace("_", " ")


def _tell(text: str) -> None:
    from etude.core.text import visible_lines

    print(visible_lines(text), file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mage_live", description=__doc__)
    parser.add_argument(
        "--backend", required=True, help="who is asked: anthropic:MODEL, openai:MODEL, openai:MODEL@URL"
    )
    parser.add_argument("--repairs", type=int, default=0, help="so often what failed goes back (default: 0)")
    parser.add_argument("--most-tokens", type=int, default=MOST_TOKENS, help=f"of one answer (default: {MOST_TOKENS})")
    parser.add_argument("--sandbox", default="", help="what code runs in; bwrap by default")
    parser.add_argument(
        "--short-limit", type=float, default=300.0, help="seconds that a run to the end may take; 0 for none"
    )
    parser.add_argument("--local-only", action="store_true", help="refuse any host that is not this machine")
    return parser


if __name__ == "__main__":
    sys.exit(main())
