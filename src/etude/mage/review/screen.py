"""A person decides: one screen a variant, and a key for each thing that can be done. Enter alone does nothing.

What is shown comes from models and programs, so control characters and those that change the direction of text are
spelled out. An approval is of the patch and the verdict that were on the screen.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final, TextIO

from etude.core.errors import ConfigError
from etude.core.text import count, visible, visible_lines
from etude.mage.claiming import claimed
from etude.mage.facts import Facts
from etude.mage.loop.book import Record
from etude.mage.tree import Tree
from etude.mage.values import Value
from etude.mage.verdicts import Outcome, Verdict

RESET: Final = "\x1b[0m"
STYLES: Final = {"title": "\x1b[1m", "added": "\x1b[32m", "gone": "\x1b[31m", "hunk": "\x1b[36m", "alarm": "\x1b[33m"}
KEYS: Final = "[a]pprove  [r]eject with a note  [e]dit  [f]acts, all of them  [s]kip  [q]uit"
DESPITE: Final = "despite"
"""What has to be typed to approve what has not passed."""
MOST_ROWS: Final = 40


class Choice(StrEnum):
    """What a person chose."""

    APPROVE = "a"
    REJECT = "r"
    EDIT = "e"
    FACTS = "f"
    SKIP = "s"
    QUIT = "q"


class Decision(Value, frozen=True):
    """What a person decided of a variant.

    Attributes:
        choice: What.
        note: What they said.
        despite: Whether they approve what has not passed.
    """

    choice: Choice
    note: str = ""
    despite: bool = False


def screen(record: Record, name: str, *, coloured: bool = False, all_facts: bool = False) -> str:
    """Return what a person is shown of a variant.

    Args:
        record: What was prepared.
        name: The variant.
        coloured: Whether the terminal shows colours.
        all_facts: Whether rows are shown as well in which nothing changed.
    """
    variant, patch = record.variant(name), record.patch_of(name)
    standing, verdicts = record.standings[name], record.verdicts_of(name)
    lines = [_styled(f"── {name} ── {visible(variant.intent)}", "title", coloured)]
    lines += [f"   meaning: {visible(variant.meaning)}"] if variant.meaning else []
    lines += [f"   from the hint: {visible(variant.quote)}"] if variant.quote else []
    lines += [f"   known by: {visible(claimed(claim))}" for claim in variant.witnesses]
    if patch is not None:
        lines += ["", f"written by {visible(patch.author.name)}; patch {patch.digest[:12]}"]
        lines += [f"called with {visible(shlex.join(patch.arguments))}"] if patch.arguments else []
        lines += [f"tolerated: {visible(one)}" for one in patch.mended]
        lines += ["", *coloured_diff(patch.diff, coloured=coloured)]
        lines += [
            "",
            *table(changes(record.runs[0] if record.runs else None, record.facts.get(patch.digest), all_facts)),
        ]
    lines += ["", *told_verdicts(verdicts, coloured=coloured)]
    pairing = record.pairing_of(name)
    lines += [visible(pairing.text)] if pairing is not None else []
    lines += [f"note: {visible(note)}" for note in standing.notes]
    lines += ["", f"so far: {told_cost(record, name)}"]
    return "\n".join(lines)


def told_cost(record: Record, name: str) -> str:
    """Return what was spent so far, in words."""
    standing = record.standings[name]
    known = f"{record.usage[0]:,} tokens in, {record.usage[1]:,} out"
    unknown = f", and {count(record.unpriced, 'answer')} of unknown length" if record.unpriced else ""
    calls = f"{count(standing.calls, 'call')} for this variant, {record.requests:,} in all"
    return f"{calls}; {known}{unknown}"


def coloured_diff(diff: str, *, coloured: bool = False) -> list[str]:
    """Return the lines of a diff, with what is added and gone in colours."""
    lines = []
    for line in diff.split("\n"):
        if line == "" and diff.endswith("\n"):
            continue
        style = "hunk" if line.startswith("@@") else "added" if line.startswith("+") else "gone"
        plain = visible_lines(line)
        lines.append(_styled(plain, style, coloured) if line.startswith(("@@", "+", "-")) else plain)
    return lines


def told_verdicts(verdicts: Sequence[Verdict], *, coloured: bool = False) -> list[str]:
    """Return what the rungs say, with every reason and alarm."""
    lines = []
    for verdict in verdicts:
        lines.append(f"{verdict.rung.name.lower().replace('_', ' ')}: {verdict.outcome.value}")
        lines += [f"   {visible(reason.text)}" for reason in verdict.reasons]
        lines += [_styled(f"   alarm: {visible(alarm)}", "alarm", coloured) for alarm in verdict.alarms]
        lines += [f"   not run: {visible(rung).lower().replace('_', ' ')}" for rung in verdict.not_run]
    return lines or ["no verdict"]


def changes(base: Facts | None, facts: Facts | None, all_facts: bool = False) -> list[tuple[str, str, str]]:
    """Return rows of a fact before and after; only those that differ, unless all are wanted."""
    before, after = rows(base), rows(facts)
    names = list(dict.fromkeys((*before, *after)))
    found = [(name, before.get(name, ""), after.get(name, "")) for name in names]
    return [row for row in found if all_facts or row[1] != row[2]]


def rows(facts: Facts | None) -> dict[str, str]:
    """Return facts as rows: what -> how it was."""
    if facts is None:
        return {}
    found: dict[str, str] = {"ended": facts.ended.why, "steps": str(facts.steps)}
    for number, model in enumerate(facts.models):
        lead = f"model {number} " if len(facts.models) > 1 else ""
        found[f"{lead}parameters"] = f"{sum(_size(one.shape) for one in model.parameters.values()):,}"
        for name, one in model.parameters.items():
            dead = ", no gradient" if one.got_gradient is False else ""
            found[f"{lead}{name}"] = f"{list(one.shape)}{dead}"
        found |= {f"{lead}{path}()": f"{one.type}, {one.calls} calls" for path, one in model.modules.items() if path}
    for number, fit in enumerate(facts.fits):
        found[f"fit {number}"] = f"{fit.type}, {fit.rows} rows, {len(fit.columns)} columns"
        found[f"fit {number} columns"] = ", ".join(fit.columns)
    found |= {f"optimizer {n}": str([dict(group) for group in groups]) for n, groups in enumerate(facts.optimizers)}
    found["batches"] = "; ".join(str([list(shape) for shape in batch]) for batch in facts.batches)
    found["losses"] = ", ".join(f"{loss:.5g}" for loss in facts.losses)
    found |= {f"{name} calls": str(n) for name, n in facts.calls.items()}
    found |= {f"setting {name}": str(value) for name, value in facts.settings.items()}
    found |= {f"metric {name}": f"{value:.6g}" for name, value in facts.metrics.items()}
    found["seeds"] = ", ".join(facts.seeds)
    return {visible(name): visible(value) for name, value in found.items()}


def table(found: Sequence[tuple[str, str, str]], most: int | None = MOST_ROWS) -> list[str]:
    """Return rows of a fact before and after as aligned lines."""
    if not found:
        return ["no fact differs"]
    shown = found if most is None else found[:most]
    width = [max(len(title), *(len(row[i]) for row in shown)) for i, title in enumerate(("fact", "before", "after"))]
    width = [min(one, 60) for one in width]
    lines = [
        "  ".join(cell.ljust(w) for cell, w in zip(row, width, strict=True)).rstrip()
        for row in (("fact", "before", "after"), *shown)
    ]
    return [*lines, *([f"... and {len(found) - len(shown)} more"] if len(found) > len(shown) else [])]


# --- the terminal ---------------------------------------------------------------------------------


class Terminal:
    """Asks a person, one line at a time.

    Args:
        into: Where screens are written.
        read_line: Gives the next line that a person typed, with a prompt; raises EOFError at the end.
        coloured: Whether colours are shown.
    """

    def __init__(
        self,
        into: TextIO = sys.stdout,
        read_line: Callable[[str], str] = input,
        *,
        coloured: bool | None = None,
    ) -> None:
        self._into = into
        self._read_line = read_line
        self._coloured = coloured if coloured is not None else into.isatty() and "NO_COLOR" not in os.environ

    def decide(self, record: Record, name: str) -> Decision:
        """Show a variant, and return what a person decides; the end of their input is a quit."""
        self._show(screen(record, name, coloured=self._coloured))
        while True:
            try:
                typed = self._read_line(f"\n{KEYS}\n> ").strip().lower()
                choice = Choice(typed[:1]) if typed[:1] in set(Choice) and typed in _words() else None
                if choice is Choice.FACTS:
                    self._show(screen(record, name, coloured=self._coloured, all_facts=True))
                elif choice is Choice.APPROVE:
                    if (decision := self._approved(record, name)) is not None:
                        return decision
                elif choice is Choice.REJECT:
                    note = self._read_line("What is wrong? (empty: rejected for good) ")
                    return Decision(choice=choice, note=note.strip())
                elif choice is not None:
                    return Decision(choice=choice)
                else:
                    self._show("Nothing was chosen. Type one of the letters.")
            except EOFError:
                return Decision(choice=Choice.QUIT)

    def tell(self, text: str) -> None:
        """Show a person a line."""
        self._show(visible_lines(text))

    def _approved(self, record: Record, name: str) -> Decision | None:
        standing = record.standings[name]
        if standing.outcome is Outcome.PASSED:
            return Decision(choice=Choice.APPROVE)
        if standing.outcome not in (Outcome.FOR_A_PERSON, Outcome.INCONCLUSIVE):
            self._show("It has failed, and cannot be approved.")
            return None
        said = self._read_line(
            f"It is {standing.outcome.value}, which is no pass. Type {DESPITE} to approve it all the same: "
        )
        if said.strip().lower() != DESPITE:
            self._show("Not approved.")
            return None
        return Decision(choice=Choice.APPROVE, despite=True)

    def _show(self, text: str) -> None:
        self._into.write(f"{text}\n")
        self._into.flush()


def edited(tree: Tree, files: Iterable[str], *, environment: Mapping[str, str] = os.environ) -> Tree:
    """Let a person edit files of a tree in their editor, and return what came of it.

    Raises:
        ConfigError: There is no editor, or it failed; nothing was changed.
    """
    editor = environment.get("VISUAL") or environment.get("EDITOR")
    if not editor:
        raise ConfigError("There is no editor: neither VISUAL nor EDITOR is set. Set one, such as EDITOR=nano.")
    with tempfile.TemporaryDirectory(prefix="etude-mage-") as place:
        paths = {name: Path(place, name) for name in files}
        for name, path in paths.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(tree.files.get(name, b""))
        # As git does: an editor may be a command with arguments.
        done = subprocess.run(["/bin/sh", "-c", f'{editor} "$@"', editor, *map(str, paths.values())], check=False)
        if done.returncode:
            raise ConfigError(f"The editor {editor!r} ended with code {done.returncode}. Nothing was changed.")
        return tree.with_files({name: path.read_bytes() for name, path in paths.items() if path.exists()})


def _words() -> set[str]:
    return {word for name, choice in Choice.__members__.items() for word in (name.lower(), choice.value)}


def _styled(text: str, style: str, coloured: bool) -> str:
    return f"{STYLES[style]}{text}{RESET}" if coloured else text


def _size(shape: Sequence[int]) -> int:
    size = 1
    for one in shape:
        size *= one
    return size
