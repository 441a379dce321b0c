"""What the commands of ``etude mage`` show, and with which exit code they end."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

import typer
from typer.core import TyperGroup

from etude.cli.shell import BY_A_PROGRAM, print_json, print_table
from etude.core.errors import BackendError, BaselineError, BudgetSpent, EtudeError, SandboxMissing
from etude.core.text import visible, visible_lines

if TYPE_CHECKING:
    from etude.mage.loop.book import Record
    from etude.mage.loop.preparing import Project
    from etude.mage.loop.standing import Standing
    from etude.mage.loop.work import Work


class MageCode(IntEnum):
    """How a command of the mage ended, for scripts."""

    OK = 0
    AWAITING = 3
    GAVE_UP = 4
    BUDGET = 5
    BACKEND = 6
    BASELINE = 7
    SANDBOX = 8


NOTHING_TO_MARK: Final = "Nothing was found that could be marked. Files that have marks already are left alone."
RAISE: Final = "Raise that limit (--max-calls, --max-tokens, --max-input, --max-cost, --max-seconds or --per-variant)"
HOW_A_TRIAL_GOES_BACK: Final = (
    "{name} waits for a person again. Have it written again, with that error: etude mage resume {study} --again {name}"
)
AGAIN: Final = (
    "What came to nothing can be written again, by somebody else, too: etude mage resume {study} --again {name}. Or "
    "hand in a copy of yours: etude mage write PATH --name {study} --from FOLDER --variant {name}"
)
HOW_TO_APPROVE: Final = (
    "Nobody is at a terminal, so nothing is asked: say the same at one, or with --approve policy.toml, which approves "
    "by rules (docs/mage.md has one)."
)
HOW_IT_GOES_ON: Final = {
    MageCode.BUDGET: f"{RAISE}, and it goes on: etude mage resume {{study}}",
    MageCode.BACKEND: "Once it can be asked again, it goes on: etude mage resume {study}",
}


class MageShell(TyperGroup):
    """Commands that leave with a code of their own where nobody can be asked, or there is no sandbox."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command, and turn what it raises into an exit code, and into a document for a program."""
        codes: dict[type[EtudeError], MageCode] = {
            BackendError: MageCode.BACKEND,
            BudgetSpent: MageCode.BUDGET,
            SandboxMissing: MageCode.SANDBOX,
            BaselineError: MageCode.BASELINE,
        }
        try:
            return super().invoke(ctx)
        except tuple(codes) as error:
            mend = [f"{RAISE}, and say it again."] if isinstance(error, BudgetSpent) else []
            told = " ".join([str(error), *getattr(error, "__notes__", ()), *mend])
            if ctx.meta.get(BY_A_PROGRAM):
                print_json({"error": told})
            typer.echo(visible_lines(told), err=True)
            raise typer.Exit(next(code for kind, code in codes.items() if isinstance(error, kind))) from None


def say(text: str) -> None:
    """Tell a person what happens, on standard error."""
    typer.echo(visible_lines(text), err=True)


def show(text: str) -> None:
    """Print what comes of a project: its texts may be anybody's, so what would move a terminal is spelled out."""
    print(visible_lines(text))


def show_diff(diff: str, *, as_json: bool) -> None:
    """Print proposed marks: spelled out for a person, and as they are for whoever applies them."""
    if as_json:
        print_json({"diff": diff})
    elif sys.stdout.isatty():
        show(diff.removesuffix("\n") or NOTHING_TO_MARK)
    else:
        print(diff.removesuffix("\n") or NOTHING_TO_MARK)


def show_waiting(record: Record, names: Sequence[str]) -> None:
    """Print the screens of variants that wait, for whoever has no terminal."""
    from etude.mage.review.screen import screen

    print("\n\n".join(screen(record, name) for name in names) or "No variant waits for a person.")
    if names:
        say(HOW_TO_APPROVE)


def tell(
    work: Work,
    record: Record,
    *,
    as_json: bool,
    study: str = "",
    is_plan: bool = False,
    more: Mapping[str, Any] | None = None,
) -> None:
    """Show how far each variant is, and leave with the code that says so.

    Args:
        work: Knows how far they are.
        record: What was prepared.
        as_json: Whether a program reads it.
        study: The study's name, to say how it goes on if it was broken off.
        is_plan: Whether only a plan was to be made.
        more: What is in the document for programs besides.
    """
    from etude.mage.loop.states import Stage

    standings = work.standings
    if as_json:
        found = {"variants": [plain(one) for one in standings.values()], "told": work.told(), "usage": record.usage}
        print_json({**(more or {}), **found})
    else:
        rows = [
            (one.variant, one.stage.value, str(one.calls), visible(one.why.split("\n")[0]))
            for one in standings.values()
        ]
        print_table(["variant", "stage", "calls", "why"], rows)
    code = code_of(standings, is_plan=is_plan)
    if study and code in HOW_IT_GOES_ON:
        say(HOW_IT_GOES_ON[code].format(study=study))
    given_up = [name for name, one in standings.items() if one.stage is Stage.GAVE_UP]
    if study and given_up:
        say(AGAIN.format(study=study, name=given_up[0]))
    if code:
        raise typer.Exit(code)


def code_of(standings: Mapping[str, Standing], *, is_plan: bool = False) -> MageCode:
    """Return the exit code for variants as they stand: the one that most needs somebody.

    Args:
        standings: The variants.
        is_plan: Whether only a plan was to be made: then one that is still to be written waits for nobody.
    """
    from etude.mage.loop.states import Stage

    codes = {
        MageCode.BASELINE: {Stage.BASELINE_BROKEN},
        MageCode.BACKEND: {Stage.BACKEND_DOWN},
        MageCode.BUDGET: {Stage.BUDGET_SPENT},
        MageCode.GAVE_UP: {Stage.GAVE_UP, Stage.REJECTED, Stage.UNCLEAR},
    }
    found = {standing.stage for standing in standings.values()}
    for code, stages in codes.items():
        if found & stages:
            return code
    if is_plan:
        return MageCode.AWAITING if found & {Stage.PLANNED, Stage.AWAITING_REVIEW} else MageCode.OK
    return MageCode.OK if found <= {Stage.ACCEPTED, Stage.HANDED_OVER, Stage.SHARED} else MageCode.AWAITING


def plain(value: Any) -> Any:
    """Return a value as plain data."""
    import msgspec

    return msgspec.to_builtins(value)


def plain_project(project: Project) -> dict[str, Any]:
    """Return a project as plain data."""
    return {
        "root": str(project.reading.root),
        "files": list(project.reading.tree),
        "annotations": [plain(one) for one in project.annotations],
        "remarks": [plain(one) for one in project.remarks],
        "left_out": project.left_out,
        "sent": list(project.chosen.sent) if project.chosen is not None else None,
    }
