"""Makes the pages of results from what the benchmarks printed: ``python -m benchmarks.page``."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks import contexts, moving_lines
from benchmarks.autoablation import page as autoablation
from benchmarks.figure import figure, sooner
from benchmarks.golden import page as golden_page
from benchmarks.golden import tablator_page
from benchmarks.live import predicts_page
from benchmarks.paper4 import overheads
from benchmarks.paper4 import page as paper4_page
from benchmarks.paper5 import page as paper5_page
from benchmarks.pipetune import page as pipetune_page
from benchmarks.writing import commit
from benchmarks.zoo import page as zoo_page

RESULTS: Final = Path(__file__).parents[1] / "docs" / "results"
LINES: Final = RESULTS / "lines"
"""Holds the last line that each benchmark printed, in files of any name."""

PAGES: Final = {
    "moving": ("Moving a script, and one function everywhere, measured", ("moving_lines", "contexts", "first_study")),
    "search-on-one-machine": (
        "Search on one machine, measured",
        ("handout", "stragglers", "startup", "gap", "reports", "stopping", "quality"),
    ),
    "faults-and-scale": (
        "Faults, and thousands of workers, measured",
        ("chaos", "driver", "simulate", "fidelity", "asynchrony", "paper2"),
    ),
    "weights-prefix": ("Common beginnings, measured", ("weights_prefix",)),
    "ranks": ("Several ranks, measured", ("parallel_equal", "parallel_step", "parallel_elastic", "parallel_fails")),
    "removal": ("Models taken apart, measured", ("removal_zoo", "removal_cost")),
    "ablation": ("Ablations, measured", ("ablate_scaling", "ablate_pairing")),
    "workers-elsewhere": ("Workers on other machines, measured", ("server", "engines")),
    "weights": (
        "Weights that outlive their trial, measured",
        ("weights_live", "weights_storage", "weights_stall"),
    ),
    "verdicts": (
        "Verdicts, measured",
        ("verdicts_null", "verdicts_power", "verdicts_racing", "verdicts_margin", "verdicts_designs"),
    ),
    "threats": ("Threats to validity, measured", ("ablator_rq2",)),
    "report": ("The report of a study, measured", ("report_size", "report_time")),
    "view": ("The live view of a study, measured", ("view",)),
    "importance": (
        "What importance costs, and what partitions save, measured",
        (
            *("importance_exact", "importance_overhead", "importance_repartition", "importance_moved", "importance_io"),
            "importance_verdict",
        ),
    ),
    "system": (
        "Machines tuned while models train, measured",
        (
            *("system_lossless", "system_overhead", "system_regret", "system_pipetune", "system_tenants"),
            *("system_recognise", "system_sizes", "system_crowded"),
        ),
    ),
    "mage": (
        "Ablations of code that nobody parametrised, measured",
        ("mage_judged", "mage_scan", "mage_tokens", "mage_requests", "mage_limits"),
    ),
}
"""Page -> its title, and the benchmarks on it."""

DRAWN: Final[Mapping[str, Mapping[str, tuple[str, Callable[[Mapping[str, Any]], str]]]]] = {
    "asynchrony": {"asynchrony.svg": ("what is left of the time", figure)},
    "paper2": {
        "paper2.svg": ("what is left of the time", figure),
        "paper2-best.svg": ("best accuracy so far over time", sooner),
    },
}
"""Benchmarks with figures beside their rows: file -> what it shows, and what draws it."""

BESIDE: Final = {
    "contexts": contexts.beside,
    "importance_repartition": overheads.beside,
    "moving_lines": moving_lines.beside,
    "removal_zoo": zoo_page.beside,
}
"""Benchmarks whose rows have something beside them, and what writes it."""

WRITTEN: Final = {
    "autoablation_inception": autoablation.inception,
    "autoablation_mnist": autoablation.mnist,
    "autoablation_titanic": autoablation.titanic,
    "partitions_paper4": paper4_page.files,
    "tablator": tablator_page.files,
    "verdicts_golden": golden_page.files,
    "weights_paper5": paper5_page.files,
}
"""Benchmarks with a page of their own, and what writes it."""

JOINED: Final[Mapping[tuple[str, ...], Callable[..., dict[str, str]]]] = {
    predicts_page.NEEDED: predicts_page.files,
    pipetune_page.NEEDED: pipetune_page.files,
}
"""Benchmarks that have a page together, and what writes it from a line of each. Without one there is no page."""

HEAD: Final = """# {title}

Made by `python -m benchmarks.page` from the [last line that each benchmark printed](lines); [what is measured, and
how](../../benchmarks/README.md). A probe of 1 says that the machine was quiet.
"""


def pages(results: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the pages that there are results for: name -> text."""
    of: dict[str, list[Mapping[str, Any]]] = {}
    for result in results:
        of.setdefault(result["benchmark"], []).append(result)
    made = {}
    for name, (title, benchmarks) in PAGES.items():
        shown = [section(result) for benchmark in benchmarks for result in of.get(benchmark, ())]
        if shown:
            made[name] = "\n".join([HEAD.format(title=title), *shown])
    return made


def section(result: Mapping[str, Any]) -> str:
    """Return the part of a page about one benchmark."""
    machine = result["machine"]
    lines = [
        f"## `{result['benchmark']}`",
        "",
        f"Commit {commit(result)}, {machine['cores']} cores ({machine['cpu']}), Python {machine['python']}.",
        "",
        "| | median | least | most | unit | runs | probe |",
        "|---|---|---|---|---|---|---|",
    ]
    for nth, (file, (told, _)) in enumerate(DRAWN.get(result["benchmark"], {}).items()):
        at = 3 + 2 * nth
        lines[at:at] = ["", f"![{told}]({file})"]
    for row in result["rows"]:
        numbers = " | ".join(f"{row[key]:,.{row['digits']}f}" for key in ("median", "min", "max"))
        lines.append(f"| {row['name']} | {numbers} | {row['unit']} | {row['runs']} | {row['probe']:.2f} |")
    if result["targets"]:
        lines += ["", "| target | | measured | |", "|---|---|---|---|"]
    for target in result["targets"]:
        met = "met" if target["met"] else "**missed**"
        lines.append(f"| {target['what']} | {target['target']} | {target['measured']:,.4g} | {met} |")
    if write := BESIDE.get(result["benchmark"]):
        lines += ["", "\n".join(write(result)).rstrip()]
    if note := _note(result["benchmark"]):
        lines += ["", " ".join(note.split())]
    return "\n".join([*lines, ""])


def _note(benchmark: str) -> str:
    """Return what a benchmark says of how to read it."""
    known = {name for _, names in PAGES.values() for name in names}
    if benchmark not in known:
        return ""
    note: str = importlib.import_module(f"benchmarks.{benchmark}").BENCHMARK.note
    return note


def kept() -> list[Mapping[str, Any]]:
    """Read the lines that were kept."""
    return [json.loads(path.read_text().strip().splitlines()[-1]) for path in sorted(LINES.glob("*.json"))]


def files(results: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return all that is made of the results: name of the file -> its content."""
    drawn = {file: draw(r) for r in results for file, (_, draw) in DRAWN.get(r["benchmark"], {}).items()}
    written = {name: text for r in results if (write := WRITTEN.get(r["benchmark"])) for name, text in write(r).items()}
    line = {result["benchmark"]: result for result in results}
    for needed, join in JOINED.items():
        if all(name in line for name in needed):
            written |= join(*(line[name] for name in needed))
    return {f"{name}.md": text for name, text in pages(results).items()} | drawn | written


def main() -> None:
    """Write the pages and their figures."""
    for name, text in files(kept()).items():
        (RESULTS / name).write_text(text)


if __name__ == "__main__":
    main()
