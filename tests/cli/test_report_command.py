"""``etude report`` and ``etude compare``: thin shells over the same calls."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from etude.analyse.report import own
from etude.cli import app
from etude.testing.written import Written, write_study


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return write_study(tmp_path / "one", [Written({"lr": n / 10}, n / 10, curve=[0.1, 0.2]) for n in range(9)])


def call(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, [str(word) for word in words])
    return done.exit_code, done.stdout


def test_a_report_is_written_where_it_was_asked_for(study: Path, tmp_path: Path) -> None:
    assert call("report", study) == (0, f"{study / 'report' / 'index.html'}\n")
    code, said = call("report", study, "--into", tmp_path / "out", "--json")
    assert (code, json.loads(said)) == (0, {"page": str(tmp_path / "out" / "index.html")})
    assert (tmp_path / "out" / "figures" / "progress.svg").exists()


def test_parts_of_a_script_land_in_it(study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own, "REGISTERED", {})
    script = tmp_path / "mine.py"
    script.write_text("import etude\n@etude.report_section('Mine')\ndef mine(study):\n    return f'{study.name}!'\n")
    assert call("report", study, "--sections", script)[0] == 0
    assert "<p>one!</p>" in (study / "report" / "index.html").read_text()
    script.write_text("1 / 0\n")
    assert call("report", study, "--sections", script)[0] == 2


def test_a_page_is_shown_on_request(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr(typer, "launch", shown.append)
    assert call("report", study, "--open")[0] == 0
    assert shown == [(study / "report" / "index.html").as_uri()]


def test_two_studies_are_compared(study: Path, tmp_path: Path) -> None:
    other = write_study(tmp_path / "two", [Written({"lr": 0.5}, 0.3)])
    code, said = call("compare", study, other)
    assert code == 0
    assert said.startswith("one found the better accuracy: 0.8 of 9 trials, beside 0.3 of 1 trial in two.")
    code, said = call("compare", study, other, "--into", tmp_path / "both", "--json")
    told = json.loads(said)
    assert told["comparable"]
    assert told["page"] == str(tmp_path / "both" / "index.html")
    assert {"what": "metric", "one": "accuracy", "other": "accuracy", "says": "same"} in told["rows"]
    assert call("compare", study, other, "--open")[0] == 2  # there is nothing to open
