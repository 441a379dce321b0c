"""Final trainings from several starts: what is made of them, against numbers by hand; and that they are measured."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks.live import judged, pilot, workload

from etude.fit.costs import Clock

ACCURACIES = {
    "random": [[0.1, 0.2, 0.5, 0.6], [0.1, 0.5, 0.4, 0.6]],
    "best": [[0.5, 0.4, 0.3, 0.2], [0.1, 0.2, 0.3, 0.4]],
}
"""Start -> a curve for each of two seeds. Target .5: after 3 and 2 epochs; after 1, and never."""


def record() -> dict[str, Any]:
    """Return what would have been measured: 10 steps an epoch, and weights that had cost 1.5 epochs."""
    return {
        "workload": "made up",
        "target": 0.5,
        "steps_per_epoch": 10,
        "seeds": [7, 8],
        "starts": {
            name: {
                "weights": name,
                "inherited": {"epochs": 0.0, "steps": 0.0} if name == "random" else {"epochs": 1.5, "steps": 15.0},
                "runs": [
                    {"seed": seed, "accuracy": curve, "test": [value / 2 for value in curve]}
                    for seed, curve in zip([7, 8], curves, strict=True)
                ],
            }
            for name, curves in ACCURACIES.items()
        },
    }


def test_a_run_that_missed_counts_up_to_the_horizon_and_is_told():
    random, best = judged.rows(record())
    assert (random.steps["sunk"], random.missed) == (25.0, 0)
    assert (best.steps["sunk"], best.missed) == ((10 + 40) / 2, 1)
    assert best.over_random.value == pytest.approx(1.0)
    assert best.over_random.low == pytest.approx(10 / 30)
    assert best.over_random.high == pytest.approx(40 / 20)


def test_who_pays_is_told_by_the_clock():
    _, best = judged.rows(record())
    assert best.steps == {"sunk": 25.0, "marginal": 25.0, "charged": (25 + 55) / 2}
    assert best.speed_up["charged"].value == pytest.approx(25 / 40)
    assert best.speed_up["sunk"].value == pytest.approx(1.0)


def test_tests_are_taken_after_the_epoch_that_validation_names_and_after_the_last():
    _, best = judged.rows(record())
    assert best.test.value == pytest.approx(100 * ((0.25 - 0.3) + (0.2 - 0.3)) / 2)
    assert best.last.value == pytest.approx(100 * ((0.1 - 0.3) + (0.2 - 0.3)) / 2)


def test_auto_is_the_run_of_the_start_that_was_chosen_and_pays_for_its_probes():
    *fixed, auto = judged.rows(record(), {7: ("best", 4.0), 8: ("random", 6.0)})
    assert [row.name for row in fixed] == ["random", "best"]
    assert auto.name == "auto"
    assert auto.missed == 0
    assert auto.steps["sunk"] == pytest.approx((10 + 20) / 2)
    assert auto.steps["marginal"] == pytest.approx((4 + 10 + 6 + 20) / 2)
    assert auto.steps["charged"] == pytest.approx((15 + 4 + 10 + 6 + 20) / 2)
    assert auto.over_random.value == pytest.approx(20 / 25)
    assert auto.test.value == pytest.approx(100 * ((0.25 - 0.3) + 0.0) / 2)
    assert judged.best_fixed([*fixed, auto]).name in {"random", "best"}


def test_a_chosen_run_that_missed_is_counted_up_to_the_horizon_of_all():
    *_, auto = judged.rows(record(), {7: ("best", 4.0), 8: ("best", 9.0)})
    assert auto.missed == 1
    assert auto.steps["marginal"] == pytest.approx((14 + 40) / 2)  # and not 49: the others are not known so far
    ran, _ = judged.auto(record(), {7: ("best", 4.0), 8: ("best", 4.0)})
    assert ran.charges.on(Clock.MARGINAL).epochs == pytest.approx(0.4)


def test_a_choice_for_other_seeds_is_refused():
    with pytest.raises(ValueError, match=r"^chosen has the seeds \[7\], and the runs have \[7, 8\]. Choose for each.$"):
        judged.auto(record(), {7: ("best", 1.0)})


def test_a_choice_that_nobody_ran_is_refused():
    with pytest.raises(ValueError, match=r"^chosen\[8\] is 'soup', and there are runs from random, best.$"):
        judged.auto(record(), {7: ("best", 1.0), 8: ("soup", 1.0)})


def test_the_best_start_is_the_one_with_the_fewest_steps():
    found = judged.rows(record())
    fewer = replace(found[1], steps={"sunk": 9.0, "marginal": 24.0, "charged": 99.0})
    assert judged.best_fixed([found[0], fewer]) is fewer
    assert judged.best_fixed([found[0], replace(fewer, name="auto")]) is found[0]


def test_an_interval_of_pairs_that_do_not_differ_has_no_width():
    alike = judged.ratio([10.0, 20.0, 40.0], [5.0, 10.0, 20.0])
    assert (alike.value, alike.low, alike.high) == pytest.approx((2.0, 2.0, 2.0))


def test_a_target_is_what_random_weights_come_to_in_half_of_their_epochs_and_less_than_their_best():
    assert pilot.target_of([[0.5, 0.7, 0.9, 0.9], [0.5, 0.4, 0.9, 0.9]]) == 0.55
    assert pilot.target_of([[0.1239, 0.0, 1.0, 1.0]]) == 0.123
    assert pilot.target_of([[0.8, 0.8, 0.8, 0.7]]) == 0.796
    assert pilot.target_of([[0.1, 0.29, 0.9]]) == 0.1, "the epoch in the middle is after half"


def test_so_many_seeds_are_run_as_are_asked_for(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    from benchmarks import weights_live

    assert {cell.args["seeds"] for cell in weights_live.cells(False, seeds=5)} == {5}
    monkeypatch.setattr("sys.argv", ["weights_live", "--seeds", "0"])
    with pytest.raises(SystemExit):
        weights_live.BENCHMARK.main()
    assert "--seeds has to be 1 or more" in capsys.readouterr().err


def test_targets_and_benchmark_have_no_seed_in_common():
    from benchmarks import weights_live
    from benchmarks.live import measured

    assert pilot.FIRST_SEED >= weights_live.SEEDS
    assert len({pilot.SEARCH_SEED, measured.SEARCH_SEED, *range(weights_live.SEEDS)}) == weights_live.SEEDS + 2
    assert (*measured.STARTS, judged.AUTO) == weights_live.STARTS


@pytest.mark.parametrize("name", workload.NAMES)
def test_a_workload_trains_with_all_its_examples_and_the_search_with_some_of_these(name: str):
    torch = pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    if workload.missing(name):
        pytest.skip(workload.missing(name))
    found = workload.load(name)
    fixed = {key: value for key, value in found.fixed.items() if key != "optimizer"}
    final, search = found.data(part=1.0, **fixed), found.data(part=workload.PART, **fixed)
    assert found.name == name
    assert len(final.train) == found.steps_per_epoch
    assert len(final.train.dataset) == found.examples
    together = torch.cat([search.train.dataset.x, search.valid.dataset.x])
    assert torch.equal(together, final.train.dataset.x)
    assert len(search.train.dataset) == round(workload.PART * found.examples)
    images, classes = next(iter(final.train))
    told = found.model(dropout=0.1)(images)
    assert told.shape[0] == len(classes) == found.batch_size
    assert 0 <= int(classes.min()) <= int(classes.max()) < told.shape[1]
    for part in (final.valid, final.test):
        assert len(part.dataset) >= 400


def test_a_fifth_of_the_labels_are_wrong_and_none_of_those_that_judge():
    torch = pytest.importorskip("torch")
    digits = pytest.importorskip("benchmarks.live.digits", exc_type=ImportError)
    clean, noisy = digits.data(), digits.data(noise=0.2)
    wrong = clean.train.dataset.y != noisy.train.dataset.y
    assert int(wrong.sum()) == digits.TRAIN // 5
    for one, other in zip(list(clean)[1:], list(noisy)[1:], strict=True):
        assert torch.equal(one.dataset.y, other.dataset.y)


def test_what_a_file_lacks_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(workload, "FOLDER", tmp_path)
    assert workload.missing("digits") == ""
    file = tmp_path / "adult" / "adult.data.gz"
    assert workload.missing("adult") == (f"There is no {file}. ETUDE_DATA_SETS names the folder with the data sets.")


def test_looking_at_a_run_within_its_epoch_changes_nothing_and_weights_are_charged_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    from benchmarks.live.measured import measure

    short = replace(workload.load("digits"), epochs=2, search_epochs=3, early=1, target=0.3)
    plain = measure(short, seeds=[3], trials=3)
    monkeypatch.setenv("ETUDE_STUDIES", str(tmp_path / "others"))  # else it would go on with what is there
    looked = measure(short, seeds=[3], trials=3, looks=True)
    assert plain["search"] == looked["search"]
    each = workload.PART + (1 - workload.PART) / 3
    for name, start in plain["starts"].items():
        (run,), (same,) = start["runs"], looked["starts"][name]["runs"]
        for metric in ("accuracy", "loss", "test", "train_loss"):
            assert run[metric] == same[metric]
        assert [look["look"] for look in same["looks"]] == [0.0, 0.125, 0.25, 0.5]
        assert len(run["seconds"]) == short.epochs
        epochs = start["inherited"]["epochs"]
        assert start["inherited"]["steps"] == pytest.approx(epochs * short.steps_per_epoch)
        trained = epochs / each
        assert math.isclose(trained, round(trained), abs_tol=1e-9)
        assert (trained == 0) == (name == "random")
    assert plain["starts"]["early"]["inherited"]["epochs"] == pytest.approx(each)
    assert plain["starts"]["best"]["inherited"] == plain["starts"]["shrunk"]["inherited"]
    assert plain["starts"]["soup"]["inherited"]["epochs"] > plain["starts"]["best"]["inherited"]["epochs"]
    judged.rows(plain)
