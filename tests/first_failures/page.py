"""The table of docs/first-failures.md, made of the mistakes that the tests make: ``python page.py`` writes it anew."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from mistakes import AFTERWARDS, ALL, CALLING, COMMANDS, DEFINING, ELSEWHERE, IN_TRIALS, Mistake

PAGE: Final = Path(__file__).parents[2] / "docs" / "first-failures.md"
BEGINS: Final = "<!-- made by tests/first_failures/page.py: from here -->"
ENDS: Final = "<!-- to here -->"

SHOWN_BY: Final = {
    id(DEFINING): "test_first_calls.py",
    id(CALLING): "test_first_calls.py",
    id(IN_TRIALS): "test_first_trials.py",
    id(AFTERWARDS): "test_first_trials.py",
    id(COMMANDS): "test_first_commands.py",
    id(ELSEWHERE): "test_first_commands.py",
}


def tables() -> str:
    """Return a heading and a table for each part of the way, as they stand on the page."""
    parts = []
    for heading, mistakes in ALL.items():
        test = SHOWN_BY[id(mistakes)]
        rows = "\n".join(map(_row, mistakes))
        parts.append(
            f"## {heading}\n\n| what you see | what happened | what to do |\n|---|---|---|\n{rows}\n\n"
            f"Shown by [{test}](../tests/first_failures/{test}).\n"
        )
    return "\n".join(parts)


def _row(mistake: Mistake) -> str:
    cells = (f"`{mistake.see}`", mistake.happened, mistake.do)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def written() -> str:
    """Return the page with its tables as they are now."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGINS)
    after = rest.partition(ENDS)[2]
    return f"{before}{BEGINS}\n\n{tables()}\n{ENDS}{after}"


if __name__ == "__main__":
    PAGE.write_text(written(), encoding="utf-8")
