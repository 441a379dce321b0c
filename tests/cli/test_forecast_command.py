"""``etude forecast``: from a study, and from the place of an experiment."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

import pytest

from etude.forecasting import forecast as module

if TYPE_CHECKING:
    from .conftest import Etude

FEW = ("--workers", "1", "--workers", "2", "--resamples", "20")


def test_a_study_and_the_place_of_its_experiment_are_forecast_alike(tuned: Etude) -> None:
    done = tuned("forecast", "one", "--trials", "8", "--stopper", "none", *FEW, "--json")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert (told["trials"], told["measured"], told["stopper"]) == (8, 6, "")
    assert [row["workers"] for row in told["rows"]] == [1, 2]
    by_place = tuned("forecast", "script.py:experiment", "--trials", "8", "--stopper", "none", *FEW, "--json")
    assert json.loads(by_place.out) == told


def test_people_get_a_table(tuned: Etude) -> None:
    done = tuned("forecast", "one", "--trials", "8", "--price-per-hour", "2", *FEW)
    assert done.code == 0, done.err
    assert done.out.startswith("Forecast of 8 trials ")
    assert "cost" in done.out
    assert "brackets hold 90%" in " ".join(done.out.split())


def test_the_table_fits_where_no_terminal_says_how_wide_it_is_and_nothing_is_cut_off(
    tuned: Etude, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS")
    options = ("--trials", "8", "--price-per-hour", "2", "--deadline", "60", "--failures", "0.2", *FEW)
    told = tuned("forecast", "one", *options).out
    assert max(map(len, told.splitlines())) <= 100
    rows = json.loads(tuned("forecast", "one", *options, "--json").out)["rows"]
    assert all(f"{row['misses']:.0%}" in told and f"{row['failed']:.0%}" in told for row in rows)


@pytest.mark.parametrize(("options", "shown"), [((), None), (("-q",), False), (("--json",), False)])
def test_progress_is_shown_unless_it_is_not_wanted(
    tuned: Etude, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], shown: bool | None
) -> None:
    asked = []
    monkeypatch.setattr(module, "counting", lambda shown: asked.append(shown) or contextlib.nullcontext(lambda _: None))
    done = tuned("forecast", "one", "--trials", "8", "--stopper", "none", *FEW, *options)
    assert (done.code, done.err, asked) == (0, "", [shown])


def test_an_experiment_without_a_study_says_what_to_do(tuned: Etude) -> None:
    done = tuned("forecast", "script.py:failing")
    assert done.code == 2
    assert done.err == (
        "There is no study of script.py:failing in studies to go by. Measure a few trials first, with tune(trials=10, "
        "stopper='none', ...), or name a study.\n"
    )
