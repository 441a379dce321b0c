"""Makes the page of results from what the benchmarks printed: ``python -m benchmarks.page out/*.txt``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

HEAD = """# Search on one machine, measured

Made by `python -m benchmarks.page` from the last line that each benchmark printed; [what is measured, and
how](../../benchmarks/README.md). A probe of 1 says that the machine was quiet.
"""


def page(results: Iterable[Mapping[str, Any]]) -> str:
    """Return the page for some results, in the order in which they are given."""
    return "\n".join([HEAD, *(section(result) for result in results)])


def section(result: Mapping[str, Any]) -> str:
    """Return the part of the page about one benchmark."""
    machine = result["machine"]
    lines = [
        f"## `{result['benchmark']}`",
        "",
        f"Commit {result['commit']}, {machine['cores']} cores ({machine['cpu']}), Python {machine['python']}.",
        "",
        "| | median | least | most | unit | runs | probe |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in result["rows"]:
        numbers = " | ".join(f"{row[key]:,.{row['digits']}f}" for key in ("median", "min", "max"))
        lines.append(f"| {row['name']} | {numbers} | {row['unit']} | {row['runs']} | {row['probe']:.2f} |")
    lines += ["", "| target | | measured | |", "|---|---|---|---|"]
    for target in result["targets"]:
        met = "met" if target["met"] else "**missed**"
        lines.append(f"| {target['what']} | {target['target']} | {target['measured']:,.4g} | {met} |")
    return "\n".join([*lines, ""])


def main(files: Iterable[str]) -> None:
    """Print the page for files that hold what benchmarks printed."""
    results = [json.loads(Path(file).read_text().strip().splitlines()[-1]) for file in files]
    print(page(results), end="")


if __name__ == "__main__":
    main(sys.argv[1:])
