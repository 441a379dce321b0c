"""How many lines change when a PyTorch script moves here, to be searched, ablated and trained on two ranks.

The scripts lie in ``moving_scripts``, each beside the same one moved, and all of them are run. What is counted:

- Lines of code. Those that are blank, or hold a comment alone, do not count.
- ``difflib`` compares both files line by line, indentation included. A line that takes another's place is *changed*,
  and counts once; where more lines come than go, the rest are *added*; where fewer come, the rest are *removed*.
- ``lines`` is changed and added together, which is what somebody has to write: those that a diff shows with a plus.
  Of these, ``only_indented`` are those that are not among them where indentation is left out of both files.

Formatting is that of the whole project, so no line holds two statements.
"""

from __future__ import annotations

import difflib
import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

from benchmarks.common import Benchmark, Cell, Quantity, Result, Target
from benchmarks.writing import paragraph

SCRIPTS: Final = Path(__file__).parent / "moving_scripts"
PAIRS: Final[Mapping[str, tuple[str, str]]] = {
    "functions": ("functions", "functions_moved"),
    "functions, with run.epochs and run.keep": ("functions", "functions_kept"),
    "functions that the loop calls itself": ("inside", "inside_moved"),
    "flat": ("flat", "flat_moved"),
}
"""What is moved -> its script, and the same one moved."""
TARGET: Final = 8
"""Lines that may be changed or added where model, data and loop are functions."""
TRIALS: Final = 8
"""What each moved script asks of its search."""
ARMS: Final = ("base", "layer:1", "dropout")
"""What each moved script trains in its ablation."""
SEEDS: Final = 7
"""How often each of these."""
RANKS: Final = 2
"""On how many each moved script trains at the end."""


class Count(NamedTuple):
    """What it takes to make one script of another.

    Attributes:
        changed: Lines that are others.
        added: Lines that come in.
        removed: Lines that go, and none takes their place.
    """

    changed: int
    added: int
    removed: int

    @property
    def lines(self) -> int:
        """How many lines somebody has to write."""
        return self.changed + self.added


def code(text: str) -> list[str]:
    """Return the lines of a script that count."""
    return [line.rstrip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def count(before: Sequence[str], after: Sequence[str]) -> Count:
    """Compare two scripts, line by line."""
    changed = added = removed = 0
    for _, i, to_i, j, to_j in _others(before, after):
        gone, come = to_i - i, to_j - j
        changed += min(gone, come)
        added += max(0, come - gone)
        removed += max(0, gone - come)
    return Count(changed, added, removed)


def _others(before: Sequence[str], after: Sequence[str]) -> Sequence[tuple[str, int, int, int, int]]:
    steps = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return [step for step in steps if step[0] != "equal"]


def counted(original: str, moved: str) -> Result:
    """Return the counts of two scripts by their names: all that is said of them without running either."""
    before, after = (code((SCRIPTS / f"{name}.py").read_text(encoding="utf-8")) for name in (original, moved))
    found = count(before, after)
    without = count([line.lstrip() for line in before], [line.lstrip() for line in after])
    return {
        "original": len(before),
        "lines": found.lines,
        "only_indented": found.lines - without.lines,
        **found._asdict(),
    }


def cells(small: bool) -> Sequence[Cell]:
    pairs = list(PAIRS.items())[: 1 if small else None]
    return [Cell(f"étude, {what}", {"original": original, "moved": moved}) for what, (original, moved) in pairs]


def work(args: Mapping[str, Any], place: Path) -> Result:
    original, moved = args["original"], args["moved"]
    found = counted(original, moved)
    said = accuracy_of(original, place / "before")
    final = accuracy_of(moved, place / "after")
    studies = studied(place / "after")
    _hold(final == studies["fit"].value, f"{moved}.py says {final}, and its fit came to {studies['fit'].value}")
    called = plainly(moved, place / "after", studies["tune"].best)
    _hold(called == said, f"{original}.py says {said}, and the function of {moved}.py returned {called}")
    return {
        **found,
        "accuracy": said,
        "accuracy_moved": called,
        "trials": sum(len(study.trials) for study in studies.values()),
        "ranks": RANKS,
        "details": {verb: study.counts() for verb, study in studies.items()},
    }


def accuracy_of(script: str, place: Path) -> float:
    """Run a script in an empty folder, as its user does, and return the number in its last line."""
    place.mkdir()
    shutil.copy(SCRIPTS / f"{script}.py", place)
    environment = {name: value for name, value in os.environ.items() if name != "ETUDE_STUDIES"}
    command = [sys.executable, f"{script}.py"]
    done = subprocess.run(command, cwd=place, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    _hold(done.returncode == 0, f"{script}.py ended with code {done.returncode}")
    return float(done.stdout.split()[-1])


def studied(place: Path) -> dict[str, Any]:
    """Return the studies that a moved script has left, by verb, and see that there is in each what it asked for."""
    import etude

    found = [etude.open(folder) for folder in sorted((place / "etude-studies").iterdir())]
    studies = {study.verb: study for study in found}
    _hold(sorted(studies) == ["ablate", "fit", "tune"] and len(found) == 3, f"the studies are {found}")
    search, ablation, final = studies["tune"], studies["ablate"], studies["fit"]
    assert isinstance(ablation, etude.Ablation)
    ends = search.counts()
    _hold(ends.get("finished", 0) > 0 and sum(ends.values()) == TRIALS, f"the search has {ends}")
    _hold(set(ends) <= {"finished", "stopped"}, f"the search has {ends}")
    arms = {arm.name: len(arm.values) for arm in ablation.arms}
    _hold(arms == dict.fromkeys(ARMS, SEEDS), f"the arms are {arms}")
    _hold(ablation.counts() == {"finished": len(ARMS) * SEEDS}, f"the ablation has {ablation.counts()}")
    _hold(final.counts() == {"finished": 1}, f"the fit has {final.counts()}")
    logs = sorted(final.trials[0].folder.rglob("log.txt"))
    epochs = [path.read_text(encoding="utf-8").count("epoch ") for path in logs]
    _hold(len(epochs) == RANKS and min(epochs) == max(epochs) > 0, f"the ranks of the fit have printed {epochs} epochs")
    return studies


def plainly(moved: str, place: Path, best: Any) -> float:
    """Call the function of a moved script as its original called its own, and return what came of it.

    A trial of the search is done again by a plain call, and has to come to the same number, too.
    """
    import torch

    sys.path.insert(0, str(place))
    script = importlib.import_module(moved)
    again = script.experiment.run(**best.params, seed=best.seed)
    last: dict[str, float] = {}
    run = SimpleNamespace(report=last.update, epochs=range, keep=lambda **things: None)
    _hold(again is None or again == best.value, f"trial {best.number} has {best.value}, and a plain call {again}")
    torch.manual_seed(0)
    returned = script.train(script.make_model, script.make_data, run)
    return last["accuracy"] if returned is None else float(returned)


def beside(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield what changes in the script in functions, as a diff."""
    original, moved = (f"{name}.py" for name in PAIRS["functions"])
    before, after = ((SCRIPTS / name).read_text(encoding="utf-8").splitlines() for name in (original, moved))
    diff = difflib.unified_diff(before, after, original, moved, n=1, lineterm="")
    yield paragraph("What changes where model, data and loop are functions, blank lines included:")
    yield "\n".join(["```diff", *(line.rstrip() for line in diff), "```\n"])


def _hold(holds: bool, otherwise: str) -> None:
    if not holds:
        raise SystemExit(f"A script does not do what is counted: {otherwise}.")


BENCHMARK: Final = Benchmark(
    name="moving_lines",
    cells=cells,
    work=work,
    quantities=(
        Quantity("original", "lines", 0),
        Quantity("lines", "lines", 0),
        Quantity("changed", "lines", 0),
        Quantity("added", "lines", 0),
        Quantity("removed", "lines", 0),
        Quantity("only_indented", "lines", 0),
        Quantity("accuracy", "", 4),
        Quantity("accuracy_moved", "", 4),
        Quantity("trials", "", 0),
        Quantity("ranks", "", 0),
    ),
    targets=(
        Target("changed or added, a script in functions", "étude, functions: lines", TARGET, "lines", at_least=False),
    ),
    note=(
        "original: lines of the script. lines: those that are changed or added; of these, only_indented are "
        "others by their indentation alone. Blank lines and comments count nowhere. All scripts are run. A moved "
        "one has to leave a search, an ablation of three arms with seven seeds and a fit on two ranks, and its "
        "function, called as the original calls its own, has to come to the original's number. Of the eight lines "
        "one is the report, without which no trial could be stopped early; a function that returns its metric may "
        "leave it out. One more holds two calls, model() and data(), as everywhere in these docs. What lets a "
        "killed training go on, run.epochs and run.keep, is two lines more. One run is enough."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
