"""The pages about papers take every item of them, name commands that there are, and show no figure nobody measured."""

from __future__ import annotations

import csv
import functools
import gzip
import inspect
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.pages import ROOT, as_script, check_command, etude_command, run
from tests.test_benchmarks import NAMES
from tests.test_docs import anchors

import etude

FOLDER = ROOT / "docs" / "papers"
BENCHMARKS = ROOT / "benchmarks"
CHECKOUT = {"PYTHONPATH": os.pathsep.join(map(str, (ROOT / "src", ROOT)))}
"""Has a process in another folder find us."""
HEAD = "| in the paper | what it shows | command | theirs | here |"
GIVEN_UP = ("cannot be", "missing", "nothing to reproduce")
"""What a row says that has no figure of ours, and no code."""
REASON = re.compile(r"\bmissing: \w+(?: \S+){4,}")
"""What a figure or a table that is missing says: why, in a few words at least."""
SHOWN = ("Figure", "Table")

ITEMS = {
    "training-functions": {"Figure": 2, "Table": 1},
    "maggy": {"Figure": 5, "Listing": 4, "Table": 2},
    "autoablation": {"Figure": 3, "Listing": 5, "Table": 2, "Future work": 3},
    "importance": {"Figure": 5, "Table": 6, "Future work": 2},
    "weights": {"Figure": 8, "Table": 5, "Algorithm": 1, "Future work": 4},
    "ablationmage": {"Figure": 3, "Listing": 4, "Experiment": 3, "Future work": 3},
    "ablator": {"Figure": 5, "Table": 1},
    "pipetune": {"Figure": 14, "Table": 3, "Algorithm": 1, "Future work": 2},
}
"""Page -> how many of each kind the paper has, counted in the papers themselves."""

MARK = "  # ABLATABLE_COMPONENT"
MARKED = f"""
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.3){MARK}
"""
SCRIPT = """
import etude


def train(run, lr: float = 0.1, epochs: int = 4):
    for epoch in run.epochs(epochs):
        run.report(score=1 - (lr - 0.3) ** 2 - 0.5 / (epoch + 1))


experiment = etude.Experiment(train, metric="score", mode="max")
"""
FILE = "experiment: script.py:experiment\nverb: tune\nspace: {lr: [0.1, 0.3]}\nsampler: grid\nname: filed\n"


@dataclass(frozen=True)
class Row:
    """One row of a page: which item, and what stands in its cells."""

    page: Path
    item: str
    command: str
    here: str

    def commands(self) -> list[str]:
        return re.findall(r"`([^`]+)`", self.command)

    def links(self) -> list[str]:
        return re.findall(r"\]\(([^)]+)\)", self.here)

    def __str__(self) -> str:
        return f"{self.page.name}, {self.item}"


def rows(stem: str) -> list[Row]:
    page = FOLDER / f"{stem}.md"
    table = page.read_text().partition(HEAD + "\n")[2].partition("\n\n")[0]
    found = []
    for line in table.splitlines()[1:]:
        cells = line.strip("| ").split(" | ")
        assert len(cells) == 5, f"{page.name}: a row has {len(cells)} cells: {line}"
        found.append(Row(page, cells[0], cells[2], cells[4]))
    return found


ALL = [row for stem in ITEMS for row in rows(stem)]


def part(page: str, anchor: str) -> str:
    """Return a page, or the part of it below the heading of that anchor."""
    if not anchor:
        return page
    lines = page.splitlines()
    levels = [len(line) - len(line.lstrip("#")) if line.startswith("#") else 0 for line in lines]
    parts = []
    for n, level in enumerate(levels):
        if level and anchor in anchors(lines[n]):
            end = next((m for m in range(n + 1, len(lines)) if 0 < levels[m] <= level), len(lines))
            parts += lines[n:end]
    return "\n".join(parts)


def not_measured(row: Row) -> list[str]:
    """Return the figures of ours in a row that stand on no page of results, or part of one, that the row links."""
    plain = re.sub(r"\]\([^)]*\)|`[^`]*`", "", row.here)
    plain = re.sub(r"\b(?:tables?|figures?|sections?|equations) \d+(?:(?: to | and )\d+)?|\b[A-Z]\w+\d+\b", "", plain)
    text = ""
    for link in row.links():
        file, _, anchor = link.partition("#")
        path = (row.page.parent / file).resolve()
        if path.parent == ROOT / "docs" / "results":
            text += part(path.read_text(), anchor)
    numbers = re.findall(r"\d+(?:[.,]\d+)*", plain)
    return [n for n in numbers if not re.search(rf"(?<![\d.,]){re.escape(n)}(?!\d|[.,]\d)", text)]


def commands(beginning: str) -> list[str]:
    """Return the different commands of all pages that begin so."""
    return sorted({c for row in ALL for c in row.commands() if c.startswith(beginning)})


def options_of(*sources: Path) -> set[str]:
    return {name for path in sources for name in re.findall(r'add_argument\(\s*"(--[\w-]+)"', path.read_text())}


def test_every_paper_has_a_page_and_stands_in_the_index() -> None:
    pages = {path.stem for path in FOLDER.glob("*.md")} - {"README"}
    assert pages == set(ITEMS)
    assert set(re.findall(r"\]\((\w[\w-]*)\.md\) \|$", (FOLDER / "README.md").read_text(), re.MULTILINE)) == pages


@pytest.mark.parametrize("stem", ITEMS)
def test_a_page_takes_every_item_of_its_paper(stem: str) -> None:
    found: dict[str, set[int]] = {}
    for row in rows(stem):
        for kind, first, last in re.findall(r"^(\D+?) (\d+)(?: to (\d+))?(?=,|$)", row.item):
            found.setdefault(kind, set()).update(range(int(first), int(last or first) + 1))
    for kind, count in ITEMS[stem].items():
        assert found.get(kind) == set(range(1, count + 1)), f"{stem}: {kind}"
    assert len({row.item for row in rows(stem)}) == len(rows(stem)), "an item has one row"
    none_named = bool(re.search(r"names\s+no\s+future\s+work", (FOLDER / f"{stem}.md").read_text()))
    assert none_named is not ("Future work" in ITEMS[stem])


@pytest.mark.parametrize("stem", ITEMS)
def test_a_row_has_a_command_or_code_or_says_why_not(stem: str) -> None:
    for row in rows(stem):
        code = re.findall(r"\]\(([^)#]*)(?:#[^)]*)?\)", row.command)
        if row.command == "no command":
            assert any(said in row.here for said in GIVEN_UP), f"{row} does not say why"
        elif code or row.command == "the code below":
            page = (row.page.parent / code[0]) if code and code[0] else row.page
            run = as_script(page.read_text()) or "<!-- run by tests/test_coming_from.py::" in page.read_text()
            assert run, f"{row}: no code of {page.name} is run"
        else:
            assert row.commands(), f"{row} has neither a command nor code"


def unfounded(row: Row) -> str:
    """Return what is wrong with a figure or a table that has no figure of ours, or whose command made none; or nothing.

    A row that is missing says why, and names no benchmark that was measured: its figure would be there, or another's.
    Else the benchmark that it names is on a page of results that it links, or it links a test, as what it names of ours
    does.
    """
    if "missing" in row.here and REASON.search(row.here) is None:
        return "it is missing, and does not say why"
    has_test = any("tests/" in link for link in row.links())
    given_up = any(said in row.here for said in GIVEN_UP)
    pages = {(row.page.parent / link.partition("#")[0]).resolve() for link in row.links()}
    told = " ".join(path.read_text() for path in pages if path.parent == ROOT / "docs" / "results")
    for name in re.findall(r"make bench NAME=(\w+)", row.command):
        if row.here.startswith("missing") and name in measured():
            return f"it is missing, and the command measures something else: {name} was measured"
        if not (given_up or has_test or re.search(rf"`{name}`|NAME={name}\b", told)):
            return f"{name} is on no page of results that it links"
    ours = row.commands() and all(command.startswith("etude ") for command in row.commands())
    if ours and not (given_up or has_test):
        return "no test is named for its command"
    return ""


@functools.cache
def measured() -> frozenset[str]:
    """Return which benchmarks have a line that was kept."""
    from benchmarks.page import kept

    return frozenset(line["benchmark"] for line in kept())


@pytest.mark.parametrize("stem", ITEMS)
def test_a_figure_or_a_table_comes_of_its_command_or_says_why_there_is_none(stem: str) -> None:
    wrong = {str(row): why for row in rows(stem) if row.item.startswith(SHOWN) and (why := unfounded(row))}
    assert not wrong


def test_a_row_whose_command_makes_something_else_would_be_found() -> None:
    page, linked = FOLDER / "pipetune.md", "[figures](../results/pipetune.md)"
    assert unfounded(Row(page, "Figure 1", "`make bench NAME=system_sizes`", f"7 of it ({linked})")) == ""
    assert "does not say why" in unfounded(Row(page, "Figure 1", "no command", "missing"))
    assert "does not say why" in unfounded(Row(page, "Figure 1", "no command", "missing as a figure: no cloud"))
    elsewhere = Row(page, "Figure 1", "`make bench NAME=gap`", f"7 of it ({linked})")
    assert unfounded(elsewhere) == "gap is on no page of results that it links"
    viewed = Row(page, "Figure 1", "`etude view STUDY`", "the [live view](../view.md) draws it")
    assert unfounded(viewed) == "no test is named for its command"
    other = "missing: no search of V2 was made beside busy jobs"
    assert "something else" in unfounded(Row(page, "Figure 5", "`make bench NAME=system_tenants`", other))
    assert unfounded(Row(page, "Figure 5", "no command", other)) == ""


def would_make(*words: str) -> str:
    """Return what make would carry out; it fails where there is no such target."""
    if shutil.which("make") is None:
        pytest.skip("there is no make here")
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(
        ["make", "-n", *words], cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.replace("\n", " ")


def test_a_target_that_is_not_there_would_be_found() -> None:
    with pytest.raises(AssertionError, match="nothing"):
        would_make("nothing")


@pytest.mark.parametrize("command", commands("make "))
def test_what_is_made_is_there_and_run_small(command: str) -> None:
    """Of other targets than benchmarks make says what it would do: `test-engines` installs Ray and Spark, and takes a
    job of its own in CI; `live` asks a service, which takes a key and money.
    """
    _, target, *given = shlex.split(command)
    planned = would_make(*shlex.split(command)[1:])
    if target != "bench":
        assert planned, f"make {target} would do nothing"
        return
    said = dict(word.split("=", 1) for word in given)
    name = said.pop("NAME")
    assert f"-m benchmarks.{name} " in planned + " "
    assert name in NAMES, f"no test runs {name}"
    common, itself = BENCHMARKS / "common.py", BENCHMARKS / f"{name}.py"
    options = {word for word in shlex.split(said.pop("ARGS", "")) if word.startswith("-")}
    assert options <= options_of(common, itself)
    assert not said


@pytest.mark.parametrize("command", commands("python "))
def test_a_script_is_there_with_its_options_and_run_small(command: str) -> None:
    _, first, *rest = shlex.split(command)
    if first == "-m":
        path = ROOT / (rest.pop(0).replace(".", "/") + ".py")
        naming = [row for row in ALL if command in row.commands()]
        assert all(any("tests/" in link for link in row.links()) for row in naming), "no test is named for it"
    else:
        path = ROOT / first
        tests = [ROOT / "tests" / name for name in ("test_examples.py", "test_examples_ablation.py")]
        assert any(f'"{path.name}"' in test.read_text() for test in tests), f"no test runs {first}"
    assert '__name__ == "__main__"' in path.read_text()
    given = {word for word in rest if word.startswith("--")}
    assert given <= options_of(path)


def test_the_pages_of_results_are_what_their_command_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import page

    there = page.RESULTS
    assert commands("python -m benchmarks.page")
    monkeypatch.setattr(page, "RESULTS", tmp_path)
    page.main()
    written = sorted(path.name for path in tmp_path.iterdir())
    assert "what-predicts-a-good-start.md" in written
    assert [name for name in written if (tmp_path / name).read_text() != (there / name).read_text()] == []


def test_what_takes_gpus_says_so_where_there_are_none(tmp_path: Path) -> None:
    (command,) = [command for command in commands("python ") if "--gpus" in command]
    script, *given = shlex.split(command)[1:]
    (tmp_path / "CIFAR10").mkdir()
    (tmp_path / "CIFAR10" / "test.npz").touch()
    done = run(sys.executable, str(ROOT / script), *given, cwd=tmp_path, CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 2
    assert "--gpus needs two GPUs or more, and there are 0" in done.stderr


@pytest.mark.parametrize("command", commands("etude "))
def test_a_command_of_ours_is_there_with_its_options(command: str) -> None:
    check_command(command)


def test_no_other_commands_are_named() -> None:
    known = ("make ", "python ", "etude ", "experiment.")
    assert not [c for row in ALL for c in row.commands() if not c.startswith(known)]
    for call in commands("experiment."):
        verb, arguments = call.removeprefix("experiment.").split("(", 1)
        asked = set(re.findall(r"(\w+)=", arguments))
        assert asked <= set(inspect.signature(getattr(etude.Experiment, verb)).parameters)


@pytest.mark.parametrize("stem", ITEMS)
def test_our_figures_stand_on_the_pages_that_a_row_links(stem: str) -> None:
    stray = {str(row): found for row in rows(stem) if (found := not_measured(row))}
    assert not stray, f"these figures stand nowhere on the pages, or parts of pages, that their rows link: {stray}"


def test_a_figure_that_nobody_measured_would_be_found() -> None:
    page, linked = FOLDER / "maggy.md", "([figures](../results/faults-and-scale.md#paper2))"
    assert not_measured(Row(page, "Table 1", "", f"0.330 of it, see table 7 {linked}")) == []
    assert not_measured(Row(page, "Table 1", "", f"0.331 of it, `n=3` {linked}")) == ["0.331"]
    assert not_measured(Row(page, "Table 1", "", "0.330 of it")) == ["0.330"], "nothing is linked"
    assert not_measured(Row(page, "Table 1", "", f"0.466 of it {linked}")) == ["0.466"], "it is not cut off"
    elsewhere = linked.replace("#paper2", "#driver")
    assert not_measured(Row(page, "Table 1", "", f"0.330 of it {elsewhere}")) == ["0.330"], "it is of another benchmark"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a script, a file, programs with marks and without, and a study with the name `small`."""
    folder = tmp_path_factory.mktemp("papers")
    (folder / "script.py").write_text(SCRIPT)
    (folder / "study.yaml").write_text(FILE)
    (folder / "marked").mkdir()
    (folder / "marked" / "train.py").write_text(MARKED)
    (folder / "plain").mkdir()
    (folder / "plain" / "train.py").write_text(MARKED.replace(MARK, ""))
    shutil.copytree(ROOT / "examples" / "mage_cnn", folder / "cnn")
    done = etude_command(
        "etude tune script.py:experiment lr='uniform(0, 1)' --trials 12 --workers 2 --name small", folder
    )
    assert done.returncode == 0, done.stderr
    return folder


def told(command: str, small: Path) -> str:
    done = etude_command(command.replace("STUDY", "small"), small)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def test_a_report_draws_the_best_so_far(small: Path) -> None:
    told("etude report STUDY --into out", small)
    assert "the line is the best value so far" in (small / "out" / "index.html").read_text()


def test_a_forecast_says_what_a_study_would_cost(small: Path) -> None:
    command = "etude forecast STUDY --trials 100 --price-per-hour 2"
    assert command in commands("etude ")
    assert "cost" in told(command, small)


@pytest.mark.parametrize(
    ("command", "where", "says"),
    [
        ("etude components script.py:experiment", "", "lr"),
        ("etude export STUDY --times", "", "memory_mb"),
        ("etude run study.yaml", "", "2 trials"),
        ("etude system show", "", "threads"),
        ("etude mage suggest .", "plain", f"+        self.drop = nn.Dropout(0.3){MARK}"),
        ("etude mage scan .", "marked", "drop"),
        (
            'etude mage preview . --entry "python train.py --seed {seed}" --backend anthropic:MODEL',
            "cnn",
            "to anthropic:MODEL at api.anthropic.com",
        ),
    ],
)
def test_a_command_of_a_row_runs_small(command: str, where: str, says: str, small: Path) -> None:
    assert command in commands("etude ")
    assert says in told(command, small / where)


def test_all_commands_of_ours_are_run_by_somebody() -> None:
    here = {"forecast", "components", "export", "run", "system", "mage suggest", "mage scan", "mage preview"}
    elsewhere = {"mage plan"}  # tests/test_coming_from.py
    asks = {
        "mage first-call",
        "mage write",
        "mage review",
        "mage explain",
    }  # tests/mage/test_whole_way.py and others: they take a sandbox
    named = {" ".join(c.split()[1:3] if c.startswith("etude mage") else c.split()[1:2]) for c in commands("etude ")}
    assert named == here | elsewhere | asks
    whole = (ROOT / "tests" / "mage" / "test_whole_way.py").read_text() + (
        ROOT / "tests/mage/test_mage_command.py"
    ).read_text()
    assert all(f'"{command.removeprefix("mage ")}"' in whole for command in asks)
    assert sys.version_info >= (3, 11)


@pytest.mark.thorough
def test_two_configurations_of_the_paper_are_trained_by_the_command_of_its_row(tmp_path: Path) -> None:
    np = pytest.importorskip("numpy")
    pytest.importorskip("torch")
    from benchmarks import paper2_curves

    many, draws = paper2_curves.IMAGES + paper2_curves.VALID, np.random.default_rng(0)
    for kind, head, values in (("images-idx3", 16, draws.integers(0, 256, many * 784)), ("labels-idx1", 8, many * [3])):
        with gzip.open(tmp_path / f"train-{kind}-ubyte.gz", "wb") as file:
            file.write(bytes(head) + bytes(values))
    assert "python -m benchmarks.paper2_curves" in commands("python ")
    found = tmp_path / "curves.jsonl"
    command = (sys.executable, "-m", "benchmarks.paper2_curves", "--trials", "2", "--out", str(found))
    done = run(*command, cwd=tmp_path, ETUDE_DATA=str(tmp_path), **CHECKOUT)
    assert done.returncode == 0, done.stderr
    trained = paper2_curves.records(found)
    assert paper2_curves.how(found)["made by"].endswith("--trials 2")
    assert [one["params"] for one in trained] == [one["params"] for one in paper2_curves.records()[:2]]
    for one in trained:
        assert len(one["seconds"]) == len(one["metrics"]["accuracy"]) == paper2_curves.EPOCHS
        assert min(one["seconds"]) > 0
        assert one["metrics"]["accuracy"][-1] == 1.0, "there is one class to be told"


HOW_TO = (ROOT / "docs" / "how-to" / "paper.md").read_text()


def shown_on_the_page(line: dict[str, Any]) -> None:
    """Fail if a figure of the page on reproducing is not the line's."""
    median = {row["name"]: f"{row['median']:,.{row['digits']}f}" for row in line["rows"]}
    shown = re.findall(r"^(étude: .+?)  +(\S+)", HOW_TO, re.MULTILINE)
    assert len(shown) == 4
    assert shown == [(name, median[name]) for name, _ in shown]
    of = {(number["what"], number["printed"]): number for number in line["details"]["étude"]["numbers"]}
    for what, printed in (("Random", "29.125"), ("HP Final", "12.75")):
        number = of[f"{what}: epochs to the target", printed]
        assert (number["where"], number["found"]) == ("table 1", float(printed))
        assert printed in HOW_TO


def test_the_figures_of_the_page_on_reproducing_are_those_that_were_kept() -> None:
    shown_on_the_page(json.loads((ROOT / "docs" / "results" / "lines" / "weights_paper5.json").read_text()))


@pytest.mark.thorough
def test_the_figure_of_the_page_on_reproducing_comes_out_again(tmp_path: Path) -> None:
    """From files as they were published: what was put together of them is taken apart again first."""
    from benchmarks.paper5.runs import FILE

    if not FILE.is_file():
        pytest.skip("the paper's runs are not here; the page says how to get them")
    with gzip.open(FILE, "rt", newline="") as lines:
        every = list(csv.DictReader(lines))
    for name in {row["source_file"] for row in every}:
        rows_of_it = [row for row in every if row["source_file"] == name]
        columns = [key for key in rows_of_it[0] if key != "source_file" and any(row[key] for row in rows_of_it)]
        (file := tmp_path / "PaperCSVs" / name).parent.mkdir(parents=True, exist_ok=True)
        with file.open("w", newline="") as out:
            table = csv.DictWriter(out, columns, extrasaction="ignore")
            table.writeheader()
            table.writerows(rows_of_it)
    [(module, folder, runs)] = re.findall(
        r"^\.venv/bin/python -m (benchmarks\.raw_runs) \S+/(PaperCSVs) (runs\.csv\.gz)$", HOW_TO, re.MULTILINE
    )
    done = run(sys.executable, "-m", module, folder, runs, cwd=tmp_path, **CHECKOUT)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"runs.csv.gz: {len(every)} runs\n"
    [(variable, name, arguments)] = re.findall(
        r'^(\w+)=\$PWD/runs\.csv\.gz make bench NAME=(\w+) ARGS="(.+)"$', HOW_TO, re.MULTILINE
    )
    command = (sys.executable, "-m", f"benchmarks.{name}", *shlex.split(arguments), "--work-dir", str(tmp_path))
    done = run(*command, cwd=tmp_path, **CHECKOUT, **{variable: str(tmp_path / runs)})
    assert done.returncode == 0, done.stderr
    shown_on_the_page(json.loads(done.stdout.splitlines()[-1]))


def test_what_was_not_published_is_not_put_together(tmp_path: Path) -> None:
    done = run(sys.executable, "-m", "benchmarks.raw_runs", "nowhere", "runs.csv.gz", cwd=tmp_path, **CHECKOUT)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        2,
        "python -m benchmarks.raw_runs: error: nowhere has no *.csv.",
    )
