"""Commands and files on pages are those that there are; what can be run against a small study is run."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
import urllib.request
from pathlib import Path

import pytest
import yaml
from tests.pages import FENCE, PAGES, ROOT, as_script, check_command, etude_command, run

import etude
from etude.mage.review.approving import read_policy

READMES = sorted([*ROOT.glob("examples/**/*.md"), *ROOT.glob("benchmarks/**/*.md")])
TODAY = [page for page in [*PAGES, *READMES] if page.name != "CHANGELOG.md"]
"""Pages that say what there is; the changelog says what there was."""
MAKEFILE = (ROOT / "Makefile").read_text()
SHELLS = ("console", "bash")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path, *languages: str) -> list[str]:
    return [found[2] for found in FENCE.finditer(page.read_text()) if found[1] in languages]


def typed(block: str) -> list[str]:
    """Return the commands in a block, each on one line, without variables before it, `$` and remarks.

    Of `ssh` it is what is told to the other machine; what is written into a file (`<<`) is no command.
    """
    plain = re.sub(r"<<'(\w+)'\n.*?^\1$", "", block, flags=re.MULTILINE | re.DOTALL).replace("\\\n", " ")
    found = []
    for line in plain.splitlines():
        words = shlex.shlex(line.removeprefix("$ "), posix=False, punctuation_chars=";&|")
        words.whitespace_split, words.commenters = True, "#"
        parts: list[list[str]] = [[]]
        for word in words:
            if set(word) <= set(";&|"):
                parts.append([])
            else:
                parts[-1].append(word)
        for part in parts:
            while part and (part[0] == "exec" or re.match(r"[A-Z_]+=", part[0])):
                del part[0]
            if part and part[0] == "ssh":
                found += typed(shlex.split(" ".join(part))[2])
            elif part:
                found.append(" ".join(part))
    return found


def of_page(page: Path) -> list[str]:
    return [command for block in blocks(page, *SHELLS) for command in typed(block)]


def in_prose(page: Path, word: str) -> list[str]:
    found = re.findall(rf"`({word} [a-z][^`]*)`", FENCE.sub("", page.read_text()))
    return [" ".join(command.split()) for command in found]


def check_made(command: str) -> None:
    """Fail if a target of `make`, or what it is given, is not there."""
    targets = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
    for word in shlex.split(command)[1:]:
        name, given, _ = word.partition("=")
        if given:
            assert f"$({name})" in MAKEFILE or re.search(rf"^{name} \?=|ifdef {name}$", MAKEFILE, re.MULTILINE), command
        else:
            assert name in targets, f"{command!r}: there is no target {name!r}"


@pytest.mark.parametrize("page", TODAY, ids=name_of)
def test_what_a_page_says_to_type_is_there(page: Path) -> None:
    for command in of_page(page):
        program, *rest = shlex.split(command)
        if program == "etude":
            check_command(command, whole=True)
        elif program == "make":
            check_made(command)
        elif program == "pip":
            for extra in re.findall(r"etude\[([a-z\d,_]+)\]", command):
                known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
                assert set(extra.split(",")) <= set(known), command
        elif program in ("cp", "python"):
            for word in rest:
                assert not word.startswith(("examples/", "benchmarks/")) or (ROOT / word).exists(), command
    for command in in_prose(page, "etude"):
        check_command(command)
    for command in in_prose(page, "make"):
        check_made(command)


def test_commands_are_told_apart() -> None:
    block = """
$ export KEY=...         # or another; etude nothing
$ A=1 etude ls && make test; etude show \\
      digits | less
$ ssh there 'chmod 600 it; etude worker --credentials it'
kubectl apply -f - <<'END'
etude: nothing
END
"""
    assert typed(block) == [
        *("export KEY=...", "etude ls", "make test", "etude show digits", "less", "chmod 600 it"),
        *("etude worker --credentials it", "kubectl apply -f -"),
    ]


@pytest.mark.parametrize(
    "command", ["etude nothing", "etude show", "etude ls --nothing", "etude tune a lr=1 --trials x"]
)
def test_a_command_that_is_not_there_would_be_found(command: str) -> None:
    with pytest.raises(Exception, match=r"no command|[Mm]issing|[Nn]o such option|integer"):
        check_command(command, whole=True)
    with pytest.raises(AssertionError, match="no target"):
        check_made("make nothing")


def test_what_kubernetes_is_told_is_a_job_that_starts_a_worker_of_ours() -> None:
    page = (ROOT / "docs" / "cluster.md").read_text()
    (told,) = re.findall(r"<<'END'\n(.*?)^END$", page, re.MULTILINE | re.DOTALL)
    (container,) = yaml.safe_load(told)["spec"]["template"]["spec"]["containers"]
    check_command(shlex.join(container["command"]), whole=True)


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "yaml", "json", "toml")], ids=name_of)
def test_a_file_on_a_page_is_one_that_is_read(page: Path, tmp_path: Path) -> None:
    """Experiment files are read with their scripts, by tests/files/test_files_page.py and tests/test_coming_from.py."""
    for block in blocks(page, "yaml"):
        assert yaml.compose(block) is not None
        assert page.name in ("experiment-files.md", "hydra.md"), f"no test reads the files of {page.name}"
    for block in blocks(page, "toml"):
        (tmp_path / "policy.toml").write_text(block)
        assert read_policy(tmp_path / "policy.toml").most_lines == 40


def follow(page: str, folder: Path) -> list[str]:
    """Run the code of a page in a folder; return its commands of ours, which go on with the studies it left."""
    path = ROOT / "docs" / page
    (folder / "digits.py").write_text(as_script(path.read_text()) + "\n")
    done = run(sys.executable, "-W", "error", "digits.py", cwd=folder)
    assert done.returncode == 0, f"{page} failed (line numbers are the page's):\n{done.stderr}"
    return [command for command in of_page(path) if command.startswith("etude ")]


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    """A folder where the script of the page about exports has left its study."""
    follow("exports.md", tmp_path)
    return tmp_path


def test_ten_minutes_go_as_the_page_says(tmp_path: Path) -> None:
    """The page in the browser is opened by the test below."""
    shown = {}
    for command in follow("start.md", tmp_path):
        if not command.startswith("etude view"):
            done = etude_command(command, tmp_path, BROWSER="true")
            assert done.returncode == 0, f"{command}: {done.stderr}"
            shown[command] = done.stdout
    assert "ok" in shown["etude run digits.py:experiment verb=check lr=0.1"]
    assert "epoch 0: accuracy" in shown["etude run digits.py:experiment lr=0.1 epochs=1"]
    assert "24 trials" in shown["etude show digits"]
    assert len(shown["etude trials digits"].splitlines()) >= 24
    assert "epoch 0: accuracy" in shown["etude logs digits 3"]
    assert "<html" in next(tmp_path.glob("studies/digits/report/*.html")).read_text()
    verdicts = etude.open(tmp_path / "studies" / "digits-parts").verdicts()
    assert verdicts["momentum"].effect > 0
    assert verdicts["momentum"].effect > abs(verdicts["dropout"].effect)


def test_a_study_is_resumed_as_the_page_says(tmp_path: Path) -> None:
    def trials() -> list[object]:
        return [
            (trial.params, trial.value, trial.attempts) for trial in etude.open(tmp_path / "studies" / "rates").trials
        ]

    commands = follow("how-to/resume.md", tmp_path)
    before = trials()
    for command in [*commands, "etude resume rates --trials 12"]:
        if "s3://" not in command:  # tests/mirror take studies up from there
            done = etude_command(command, tmp_path)
            assert done.returncode == 0, f"{command}: {done.stderr}"
    assert trials()[: len(before)] == before
    assert len(trials()) == 12


def test_the_commands_of_the_page_about_exports_write_what_it_says(digits: Path) -> None:
    page = ROOT / "docs" / "exports.md"
    commands = [command for command in of_page(page) if command.startswith("etude ")]
    commands += in_prose(page, "etude")
    assert len(commands) >= 6
    for command in commands:
        done = etude_command(command, digits, MLFLOW_DISABLE_TELEMETRY="true", PYTHONWARNINGS="ignore")
        assert done.returncode == 0, f"{command}: {done.stderr}"
    assert (digits / "runs" / "digits" / "trial-00007").is_dir()
    assert all((digits / name).is_file() for name in ("optuna.db", "mlflow.db", "trials.parquet"))


@pytest.mark.parametrize("command", [c for c in of_page(ROOT / "docs" / "view.md") if c.startswith("etude ")])
def test_a_command_of_the_page_about_the_view_answers_at_its_link(command: str, digits: Path) -> None:
    line = command.replace("digits-demo", "digits")
    words = [sys.executable, "-c", "from etude.cli import main; main()", *shlex.split(line)[1:], "--port", "0"]
    with subprocess.Popen(
        words,
        cwd=digits,
        env={**os.environ, "ETUDE_STUDIES": str(digits / "studies")},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            link = next(found[0] for out in process.stdout if (found := re.search(r"http://\S+", out)))
            with urllib.request.build_opener(urllib.request.HTTPCookieProcessor()).open(link, timeout=60) as answer:
                assert "<html" in answer.read().decode()
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
