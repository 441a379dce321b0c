"""What the shell offers when Tab is pressed, asked for as a shell asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import typer
from typer.testing import CliRunner

from etude.cli import app, complete

if TYPE_CHECKING:
    from .conftest import Etude


def offered(line: str) -> list[str]:
    """Return what bash would offer at the end of a line."""
    words = line.split()
    asked = {"_ETUDE_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - (line[-1] != " "))}
    done = CliRunner().invoke(app, [], prog_name="etude", env=asked)
    assert (done.exit_code, done.stderr) == (0, "")
    return done.stdout.split()


def test_studies_and_trials_are_offered(tuned: Etude) -> None:
    (tuned.folder / "studies" / "no-study").mkdir()
    assert offered("etude show ") == ["one"]
    assert offered("etude debug one ") == ["0", "1", "2", "3", "4", "5"]
    assert offered("etude logs studies/one 3") == ["3"]
    assert offered("etude debug nothing ") == []
    assert offered("etude exp") == ["export"]


def test_samplers_stoppers_states_and_formats_are_offered(tuned: Etude) -> None:
    assert "tpe" in offered("etude tune script.py --sampler t")
    assert offered("etude tune script.py --stopper m") == ["median", "median-best"]
    assert offered("etude trials one --state f") == ["finished", "failed"]
    assert offered("etude export one --format js") == ["json", "jsonl"]


def test_nobody_waits_for_a_large_journal(tuned: Etude, monkeypatch: pytest.MonkeyPatch) -> None:
    context = typer.Context(typer.main.get_command(app))
    context.params["study"] = "one"
    assert [number for number, _ in complete.trials(context, "")] == ["0", "1", "2", "3", "4", "5"]
    monkeypatch.setattr(complete, "MOST_BYTES", 10)
    assert complete.trials(context, "") == []
