"""What goes along with a good start: rows by hand, correlations that are known, and the page's words."""

from __future__ import annotations

import math
from typing import Any

import pytest
from benchmarks.live import predicts, predicts_page
from benchmarks.live.predicts import DISTANCE, INHERITED, MEMORISED, PREDICTORS, PROBE, TUNED, Link, Row, Within, links
from benchmarks.page import files, kept

NOISE = (4, 1, 7, 2, 5, 3, 8, 6)


def made_up(many: int = 3, **known: Any) -> list[Row]:
    """Return eight rows on each of some workloads; each gain is the number of the start, or the next whole hundred."""
    return [
        Row(f"w{w}", f"s{nth}", 100.0 * w + nth, {name: float(of(w, nth)) for name, of in known.items()})
        for w in range(many)
        for nth in range(8)
    ]


def raw_line() -> dict[str, Any]:
    return next(dict(line) for line in kept() if line["benchmark"] == "weights_paper5")


# --- judges -------------------------------------------------------------------------------------------


def test_probes_may_be_judged_by_either_metric():
    made = record()
    assert made["auto"][0]["probes"]["best"] == {"loss": 0.5, "accuracy": 0.4}
    assert predicts.judged_by(made, "loss") == predicts.judged_by(made, "accuracy") == 10.0
    for one in made["auto"]:
        one["probes"]["soup"]["accuracy"] = 0.9
    assert predicts.judged_by(made, "loss") == 10.0
    assert predicts.judged_by(made, "accuracy") == (30 + 20) / 2, "the soup, which takes three epochs and two"
    told = "\n".join(predicts_page._judges([made, record(chosen=False)]))
    assert "fewer on 1 of 1 workloads, more on 0" in " ".join(told.split())
    assert "| made up | 10 | 25 |" in told


# --- correlations -----------------------------------------------------------------------------------


def test_a_perfect_predictor_is_found_and_noise_is_not():
    rows = made_up(perfect=lambda w, nth: 100 * w + nth, noise=lambda w, nth: NOISE[(nth + 3 * w) % 8])
    perfect, noise = links(rows, ("perfect", "noise"))
    assert (perfect.rho, perfect.within.rho) == pytest.approx((1.0, 1.0))
    assert (perfect.rows, perfect.within.workloads) == (24, 3)
    assert perfect.p == perfect.within.p == 1 / (1 + predicts.RESAMPLES)
    assert perfect.p_holm == 2 * perfect.p, "the least of two p-values counts twice"
    assert perfect.over_rows
    assert perfect.in_workloads
    assert abs(noise.rho) < 0.4
    assert noise.p_holm > predicts.LEVEL
    assert not noise.over_rows
    assert not noise.in_workloads


def test_less_of_a_predictor_may_be_what_tells():
    (link,) = links(made_up(backwards=lambda w, nth: -100 * w - nth), ("backwards",))
    assert (link.rho, link.within.rho) == pytest.approx((-1.0, -1.0))
    assert link.over_rows


def test_what_tells_only_the_workloads_apart_is_seen_over_all_rows_alone():
    (link,) = links(made_up(workload=lambda w, nth: w), ("workload",))
    assert link.over_rows, "the test over all rows is taken in"
    assert link.within.workloads == 0
    assert math.isnan(link.within.rho)
    assert not link.in_workloads
    (other_way,) = links(made_up(simpson=lambda w, nth: 100 * w - nth), ("simpson",))
    assert other_way.rho > 0.7
    assert other_way.within.rho == pytest.approx(-1.0)


def test_what_tells_the_starts_apart_but_not_the_workloads_is_seen_within_them():
    (link,) = links(made_up(8, start=lambda w, nth: nth - 50 * w), ("start",))
    assert link.rho < 0 < link.within.rho
    assert link.in_workloads


def test_ties_share_their_mean_rank():
    stats = pytest.importorskip("scipy.stats")
    x, y = [1.0, 1.0, 2.0, 3.0, 3.0, 3.0], [5.0, 4.0, 4.0, 9.0, 9.0, 1.0]
    rows = [Row("w", str(nth), gain, {"tied": value}) for nth, (value, gain) in enumerate(zip(x, y, strict=True))]
    (link,) = links(rows, ("tied",))
    assert link.rho == pytest.approx(stats.spearmanr(x, y).statistic)
    assert link.within.rho == pytest.approx(link.rho), "there is but one workload"
    dealt = stats.permutation_test((x,), lambda z: stats.spearmanr(z, y).statistic, permutation_type="pairings")
    assert link.p == pytest.approx(float(dealt.pvalue), abs=0.02)


def test_three_rows_in_order_show_little():
    (link,) = links([Row("w", str(nth), nth, {"x": nth}) for nth in range(3)], ("x",))
    assert link.rho == pytest.approx(1.0)
    assert link.p == pytest.approx(1 / 3, abs=0.02), "two of six orders are as far"


def test_rows_that_miss_a_predictor_count_for_the_others():
    rows = made_up(
        some=lambda w, nth: nth + 100 * w if nth % 2 else math.nan,
        all=lambda w, nth: nth + 100 * w,
        same=lambda w, nth: 7,
        few=lambda w, nth: nth if (w, nth) in {(0, 1), (1, 2)} else math.nan,
    )
    some, every, same, few, absent = links(rows, ("some", "all", "same", "few", "absent"))
    assert (some.rows, every.rows, same.rows, few.rows, absent.rows) == (12, 24, 24, 2, 0)
    assert (some.rho, every.rho) == pytest.approx((1.0, 1.0))
    for link in (same, few, absent):
        assert math.isnan(link.rho)
        assert math.isnan(link.p)
        assert math.isnan(link.p_holm)
        assert not link.over_rows
    assert every.p_holm == 2 * every.p, "what is not known is no test"


def test_no_rows_are_no_error():
    (link,) = links([], ("x",))
    assert link.rows == link.within.workloads == 0


# --- rows -------------------------------------------------------------------------------------------


def record(*, chosen: bool = True) -> dict[str, Any]:
    """Return a workload's record with two seeds and 10 steps an epoch; target .5."""
    curves = {
        "random": [[0.1, 0.2, 0.5, 0.6], [0.1, 0.5, 0.4, 0.8]],
        "best": [[0.5, 0.4, 0.3, 0.2], [0.6, 0.2, 0.3, 0.4]],
        "early": [[0.1, 0.2, 0.3, 0.5], [0.1, 0.2, 0.3, 0.4]],
        "soup": [[0.1, 0.2, 0.5, 0.5], [0.1, 0.5, 0.5, 0.5]],
    }
    names = {
        "random": "random",
        "best": "epoch 2 of trial 1 of training-1",
        "early": "epoch 1 of trial 1 of training-1",
        "soup": "the mean of epoch 2 of trial 1 of training-1; epoch 1 of trial 0 of training-1",
    }
    inherited = {"random": 0.0, "best": 2.0, "early": 1.0, "soup": 3.0}
    probes = {"random": (2.0, 0.1), "best": (0.5, 0.4), "soup": (1.0, 0.3)}
    return {
        "workload": "made up",
        "target": 0.5,
        "steps_per_epoch": 10,
        "epochs": 4,
        "seeds": [7, 8],
        "search": {
            "best": 1,
            "trials": [
                {"accuracy": [0.2, 0.1], "loss": [1.0, 1.0], "train_loss": [0.9, 0.9]},
                {"accuracy": [0.3, 0.4], "loss": [0.8, 0.5], "train_loss": [0.8, 0.1]},
            ],
        },
        "starts": {
            name: {
                "weights": names[name],
                "inherited": {"epochs": inherited[name], "steps": 10 * inherited[name]},
                "runs": [{"seed": s, "accuracy": c, "test": c} for s, c in zip([7, 8], curves[name], strict=True)],
            }
            for name in names
        },
        "auto": [
            {
                "seed": seed,
                "start": "best",
                "portions": [0.1] * 3,
                "probes": {name: {"loss": loss + more, "accuracy": a} for name, (loss, a) in probes.items()},
            }
            for seed, more in ((7, 0.0), (8, 0.2))
            if chosen
        ],
    }


def test_a_live_row_is_a_start_with_its_speed_up_and_what_was_known_of_it():
    best, early, soup = predicts.rows_of(record())
    assert [row.start for row in (best, early, soup)] == ["best", "early", "soup"]
    assert best.speed_up == pytest.approx(math.sqrt(30 / 10 * 20 / 10))
    assert early.speed_up == pytest.approx(math.sqrt(30 / 40 * 20 / 40)), "a run that missed counts up to the horizon"
    assert soup.speed_up == pytest.approx(1.0)
    assert soup.gain == pytest.approx(0.0)
    expected = {PROBE: 1.5, TUNED: 0.5, DISTANCE: 100 * (0.7 - 0.4), MEMORISED: 0.2, INHERITED: 0.5}
    assert best.known == pytest.approx(expected)
    assert early.known[MEMORISED] == pytest.approx(1.0)
    assert soup.known[MEMORISED] == pytest.approx((0.2 + 0.9) / 2)
    assert soup.known[INHERITED] == pytest.approx(0.75)


def test_what_no_probe_began_with_has_no_gap():
    _, early, _ = predicts.rows_of(record())
    assert math.isnan(early.known[PROBE])
    assert math.isnan(early.known[DISTANCE])
    assert early.known[TUNED] == 0.5
    for row in predicts.rows_of(record(chosen=False)):
        assert math.isnan(row.known[PROBE])
        assert row.known[INHERITED] > 0


def test_raw_rows_are_the_starts_of_the_paper():
    rows = predicts.raw_rows(raw_line())
    assert len(rows) == 26
    assert "Random" not in {row.start for row in rows}
    final = next(row for row in rows if (row.workload, row.start) == ("ResNet-18 on CIFAR-10", "HP Final"))
    assert final.known[TUNED] == 30 / 200
    assert final.known[INHERITED] == pytest.approx(26 / 200)
    assert final.known[DISTANCE] == pytest.approx(94.231 - 85.61, abs=0.01)
    assert 2.2 < final.speed_up < 2.4, "the ratio of means is 2.28"
    assert all(math.isnan(row.known[PROBE]) and math.isnan(row.known[MEMORISED]) for row in rows)


def test_raw_times_end_at_the_horizon():
    (one, *_) = raw_line()["details"]["étude"]["workloads"]
    random = {"start": "Random", "best_mean": 9.0, "epochs_of_runs": [4, 9], "sunk": {"horizon": 8.0}}
    warm = {"start": "Epoch 2", "first_mean": 5.0, "epochs_of_runs": [2, 2], "sunk": {"horizon": 8.0}}
    line = {"details": {"étude": {"workloads": [{"name": one["name"], "epochs": 10, "arms": [random, warm]}]}}}
    (row,) = predicts.raw_rows(line)
    assert row.speed_up == pytest.approx(math.sqrt(4 * 8) / 2)
    assert row.known[DISTANCE] == 4.0


# --- the page ---------------------------------------------------------------------------------------


def link(name: str, *, over: float, inside: float, workloads: int = 4) -> Link:
    return Link(name, 9, 0.5, over, over, Within(workloads, 0.25, inside, inside))


def test_the_first_words_are_what_the_numbers_say():
    found = {
        "live": [link("a", over=0.01, inside=0.04), link("b", over=0.05, inside=0.2), link("c", over=0.9, inside=0.9)],
        "raw": [link("a", over=0.051, inside=0.051), link("b", over=0.3, inside=0.0001)],
    }
    assert predicts_page.headline(found) == (
        "What predicts a good start: a and b (over all rows only) on the live runs; "
        "b (within workloads only) on the raw runs"
    )
    assert predicts_page.headline({"raw": found["raw"][:1]}).endswith(": nothing that is shown on the raw runs")
    rows = [Row("w", "s", 0.0, {}), Row("v", "s", 0.0, {})]
    unknown = Link("d", 0, math.nan, math.nan, math.nan, Within(0, math.nan, math.nan))
    assert list(predicts_page.told("live", rows, [*found["live"], unknown])) == [
        "The live runs are 2 starts of 2 workloads.",
        "Over all of them, and within workloads, the speed-up goes along with a (+0.50, p 0.010; "
        "within: +0.25, p 0.040).",
        "Over all of them only, the speed-up goes along with b (+0.50, p 0.050; within: +0.25, p 0.200): that may "
        "just tell the workloads apart.",
        "No link is shown with c (+0.50, p 0.900; within: +0.25, p 0.900).",
        "Not known there, or the same everywhere: d.",
    ]
    (_, small) = predicts_page.told("raw", rows, found["raw"][1:])
    assert small == "Within workloads only, the speed-up goes along with b (+0.50, p 0.300; within: +0.25, p < .001)."


def test_the_page_is_there_where_both_lines_are():
    name = f"{predicts_page.NAME}.md"
    raw = raw_line()
    live = {"benchmark": "weights_live", "commit": "abc", "changed": True, "details": {"étude x": {"record": record()}}}
    live |= {"machine": raw["machine"], "rows": [], "targets": []}
    assert name not in files([raw])
    assert name not in files([live])
    text = files([live, raw])[name]
    assert text == files([raw, live])[name]
    assert "(commit abc, with changes)" in " ".join(text.split())
    assert "| made up | best | 2.45x | 1.5 | 0.5 | 30 | 0.2 | 0.5 |" in text
    assert "| made up | early | 0.61x | - | 0.5 | - | 1 | 0.25 |" in text
    assert text.count("\n| ResNet-18 on CIFAR-10 |") == 7
    assert all(f"- *{predictor}*: " in text for predictor in PREDICTORS)
    assert "On ResNet-18 on CIFAR-100, ResNet-18 on Tiny ImageNet and ResNet-152 on CIFAR-100 all speed-ups" in (
        " ".join(text.split())
    )
