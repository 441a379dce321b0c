"""The report of a study: whatever the study is like, a page stands that says what can be said and what cannot."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import pytest

import etude
from etude.analyse.report import own
from etude.analyse.report.facts import Facts, Judged, Ran, Span, Verdicts, as_json
from etude.analyse.report.palette import DARK, LIGHT
from etude.analyse.report.scales import Scale, window
from etude.analyse.report.tables import Table, as_csv, as_latex, as_markdown
from etude.analyse.report.timeline import timeline
from etude.analyse.report.varied import varied
from etude.analyse.report.words import number, safe
from etude.analyse.report.writer import drawn, write
from etude.analyse.threats import threat as threats
from etude.core.errors import ConfigError
from etude.core.events import Assigned, Closed, How, Joined, Left, Opened, Outcome, Queued, Settled
from etude.core.lifecycle import Turn
from etude.core.text import shortened
from etude.reported.cautions import cautions
from etude.reported.comparing import compared
from etude.reported.gathering import facts_of
from etude.reported.work import work_in
from etude.testing.written import Written, write_study

SPACE = {
    "parameters": [
        ["lr", {"kind": "loguniform", "low": 1e-4, "high": 1.0}],
        ["act", {"kind": "choice", "values": ["relu", "tanh"]}],
    ]
}
SEARCHED = {"space": SPACE}
SOURCE = "def train(lr):\n    return 1 - lr\n"


def some(n: int = 40) -> list[Written]:
    """A search in which lr matters and noise does not; one trial in ten fails."""
    found = []
    for nth in range(n):
        lr = 10 ** (-4 + 4 * (nth * 0.618 % 1))
        params = {"lr": lr, "act": ("relu", "tanh")[nth % 2], "noise": nth * 0.37 % 1, "fixed": 3}
        value = 0.9 - 0.05 * abs(math.log10(lr) + 2) + 0.001 * (nth * 0.77 % 1)
        curve = [value * (1 - 0.5**step) for step in range(1, 8)]
        state = "failed" if nth % 10 == 9 else "stopped" if nth % 10 == 4 else "finished"
        found.append(Written(params, value, curve=curve, state=state, reason="it broke" if state == "failed" else ""))
    return found


def arms(values: dict[str, Sequence[float]]) -> list[Written]:
    return [
        Written({"lr": 0.1}, value, seed=seed, arm=name, state="finished")
        for name, of in values.items()
        for seed, value in enumerate(of)
    ]


class Seen(HTMLParser):
    """What a browser makes of a page: its tags, what they say, and where they lead."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self._inside: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag in ("script", "style"):
            self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._inside and self._inside[-1] == tag:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        if not self._inside:
            self.text += data


def seen(page: Path) -> Seen:
    return Seen(page.read_text(encoding="utf-8"))


def figures_in(folder: Path) -> set[str]:
    """Return the names of the figures, each of which is well-formed."""
    for path in folder.glob("figures/*.svg"):
        ET.fromstring(path.read_text(encoding="utf-8"))
    return {path.stem for path in folder.glob("figures/*.svg")}


# --- a whole report -------------------------------------------------------------------------------


def test_a_report_is_a_folder_with_a_page_its_figures_its_tables_and_its_facts(tmp_path: Path) -> None:
    search = etude.open(write_study(tmp_path / "search", some(), question={"space": SPACE, "sampler": {"name": "tpe"}}))
    page = search.report()
    assert page == tmp_path / "search" / "report" / "index.html"
    names = figures_in(page.parent)
    assert {"progress", "curves", "parallel", "timeline", "parameter-01-lr"} <= names
    assert len([name for name in names if name.startswith("parameter-")]) == 3
    told = seen(page).text
    assert f"Best accuracy {search.best.value:.6g} of 32 finished trials, in trial {search.best.number}" in told
    assert "Survival bias" in told
    assert "4 trials of 40 failed" in told
    assert "Held fixed: fixed=3." in told
    with (page.parent / "tables" / "trials.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 40
    assert float(rows[3]["accuracy"]) == search.trials[3].value  # all its digits


def test_the_facts_beside_a_page_are_what_it_was_made_of(tmp_path: Path) -> None:
    search = etude.open(write_study(tmp_path / "search", some()))
    page = search.report(tmp_path / "out")
    there = json.loads((page.parent / "report.json").read_bytes())
    assert there == json.loads(as_json(facts_of(search)))
    assert msgspec.convert(there, Facts).trials[5].params == search.trials[5].params


def test_a_page_asks_nothing_of_any_network_and_runs_its_own_script_alone(tmp_path: Path) -> None:
    page = etude.open(write_study(tmp_path / "search", some())).report()
    text = page.read_text()
    assert not re.findall(r"(?:src|href)=[\"']?(?!#|tables/|report\.json)[^\"' >]+", text)
    assert "http://" not in text.replace("http-equiv", "")
    assert "https://" not in text
    assert "default-src 'none'" in text
    assert seen(page).tags.count("script") == 1


def test_the_same_study_gives_the_same_bytes(tmp_path: Path) -> None:
    search = etude.open(write_study(tmp_path / "search", some()))
    one, again = search.report(tmp_path / "a").read_bytes(), search.report(tmp_path / "b").read_bytes()
    assert one == again


def test_a_report_is_replaced_and_nothing_else_is(tmp_path: Path) -> None:
    search = etude.open(write_study(tmp_path / "search", some()))
    page = search.report(tmp_path / "out")
    (page.parent / "figures" / "old.svg").write_text("<svg/>")
    search.report(tmp_path / "out")
    assert not (page.parent / "figures" / "old.svg").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "index.html").write_text("mine")
    with pytest.raises(ConfigError) as refused:
        search.report(tmp_path / "mine")
    assert str(refused.value) == (
        f"{tmp_path / 'mine'} holds other things than a report. Name a folder that is empty, or not there yet."
    )
    assert (tmp_path / "mine" / "index.html").read_text() == "mine"


# --- what cannot be said --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trials", "says"),
    [
        ([], "No trial has begun, so nothing can be said yet."),
        (
            [Written({"x": 1}, state="running"), Written(state="queued")],
            "No trial has finished, so nothing can be said",
        ),
        ([Written({"x": 1.0}, 0.5)], "Best accuracy 0.5 of 1 finished trial, in trial 0: x = 1."),
        ([Written({"x": n}, 0.5) for n in range(9)], "All finished trials have the same accuracy, 0.5"),
        ([Written({"x": n}, math.nan) for n in range(3)], "3 trials finished, and none came to a finite accuracy"),
        (
            [Written({"x": 1.0}, math.inf), Written({"x": 2.0}, -math.inf), Written({"x": 3.0}, 0.5)],
            "2 finished trials (0, 1) came to NaN or infinity",
        ),
        (
            [Written({"x": n}, 0.1 * n) for n in range(9)],
            "No trial reported while it ran, so there are no learning curves",
        ),
        ([Written({"x": n}, state="failed", reason="it broke") for n in range(3)], "Failed (3 trials): it broke"),
    ],
)
def test_a_report_says_what_cannot_be_said(trials: list[Written], says: str, tmp_path: Path) -> None:
    page = etude.open(write_study(tmp_path / "study", trials, complete=False)).report()
    assert says in seen(page).text
    assert "not complete" in seen(page).text
    figures_in(page.parent)


def test_a_metric_without_a_direction_has_no_best(tmp_path: Path) -> None:
    study = etude.open(write_study(tmp_path / "study", some(), metrics={"accuracy": None}))
    page = study.report()
    assert "Which is best cannot be said: a metric's direction is not recorded." in seen(page).text
    assert "accuracy (no direction is recorded)" in seen(page).text
    assert "Best accuracy" not in seen(page).text
    assert "parallel" not in figures_in(page.parent)


def test_names_with_signs_of_html_are_words_wherever_they_stand(tmp_path: Path) -> None:
    evil = "</title></style></svg><script>alert('1')</script><img src=x onerror=\"alert(2)\">&amp;🎼\x00"
    trials = [
        Written(
            {evil: n / 9, "kind": evil if n % 2 else "b" * 300}, n / 10, metrics={evil: 1.0 - n / 10}, curve=[0.1, 0.2]
        )
        for n in range(9)
    ]
    trials.append(Written({evil: 0.5}, state="failed", reason=evil))
    folder = write_study(tmp_path / "a<b>&'c'", trials, metrics={"accuracy": "max", evil: "min"})
    page = etude.open(folder).report(tmp_path / "out", sections=[(evil, lambda _study: evil)])
    there = seen(page)
    assert there.tags.count("script") == 1
    assert "img" not in there.tags
    assert not [name for name, _ in there.attributes if name.startswith("on")]
    assert there.text.count("</title></style></svg><script>alert('1')</script>") > 5
    assert "🎼" in there.text
    assert figures_in(page.parent) >= {"front", "parameter-01-title-style-svg-script-alert-1-script-im"}


def test_two_hundred_parameters_are_told_and_a_dozen_drawn(tmp_path: Path) -> None:
    trials = [Written({f"p{k}": (n * (k + 3) * 0.618) % 1 for k in range(200)}, n / 30) for n in range(30)]
    page = etude.open(write_study(tmp_path / "study", trials)).report()
    told = seen(page).text
    assert "200 parameters varied; 12 are drawn." in told
    assert "24 of 200 parameters that varied have a column." in told
    assert len([name for name in figures_in(page.parent) if name.startswith("parameter-")]) == 12
    assert len((page.parent / "tables" / "trials.csv").read_text().splitlines()[0].split(",")) > 200


def test_a_study_that_goes_on_is_told_as_it_stands(tmp_path: Path) -> None:
    trials = [*some(10), Written({"lr": 0.1}, state="running", curve=[0.2, 0.3])]
    page = etude.open(write_study(tmp_path / "study", trials, complete=False)).report()
    assert "1 running" in seen(page).text
    assert 'class="f-s2"' in (page.parent / "figures" / "timeline.svg").read_text()


# --- verdicts -------------------------------------------------------------------------------------


def test_an_ablation_has_its_verdicts_first(tmp_path: Path) -> None:
    base = [0.90 + 0.003 * (seed % 4) for seed in range(12)]
    trials = arms({"base": base, "conv<2>": [v - 0.05 - 0.001 * (n % 3) for n, v in enumerate(base)], "skip": base})
    ablation = etude.open(write_study(tmp_path / "study", trials, verb="ablate"))
    page = ablation.report()
    told = seen(page).text
    assert "Of 2 components, 1 matters (conv<2>) and 1 is undecided (skip)." in told
    assert {"forest", "arms"} <= figures_in(page.parent)
    rows = list(csv.DictReader((page.parent / "tables" / "verdicts.csv").read_text().splitlines()))
    judged = ablation.verdicts()
    assert [row["verdict"] for row in rows] == [one.verdict.value for one in judged]
    assert [float(row["p corrected"]) for row in rows] == [one.p_corrected for one in judged]


def test_what_was_asked_is_told_in_words_of_the_call(tmp_path: Path) -> None:
    median = {"name": "median", "first_after": 4, "metric": ""}
    meta = {"definition": {"stopper": "MedianRule()"}}
    for name, question, told in (
        ("given", {"stopper": median}, "median (first_after=4)"),
        ("left out", {}, "median, by default"),
    ):
        study = etude.open(write_study(tmp_path / name, some(4), meta=meta, question={**SEARCHED, **question}))
        assert dict(facts_of(study).asked)["stopper"] == told
    starts = [Written({}, 0.5, seed=n % 4, start="" if n < 4 else "soup") for n in range(8)]
    study = etude.open(write_study(tmp_path / "starts", starts, verb="fit"))
    assert dict(facts_of(study).asked)["starts"] == "2 starts: random, soup"
    threat = threats.Threat("budget", "with fewer trials others come first.", threats.Seriousness.MINOR, "Run more.")
    [told] = cautions(facts_of(study), [threat])
    assert (told.name, told.finding) == ("Budget", "With fewer trials others come first. Run more.")


def test_what_was_looked_for_in_vain_is_told_too(tmp_path: Path) -> None:
    base = [0.9 + 0.003 * (seed % 4) for seed in range(8)]
    study = etude.open(write_study(tmp_path / "study", arms({"base": base, "a": base[::-1]}), verb="ablate"))
    facts = facts_of(study)
    assert facts.clear == list(study.threats().clear)
    assert "survival bias" in facts.clear
    text = seen(write(tmp_path / "out", facts)).text
    assert f"Nothing found of: {', '.join(facts.clear)}." in text
    without = msgspec.structs.replace(facts, threats=[])
    assert "None was found." in seen(write(tmp_path / "none", without)).text


def test_arms_beside_wholes_of_their_size_have_a_table_of_their_own(tmp_path: Path) -> None:
    base = [0.90 + 0.003 * (seed % 4) for seed in range(8)]
    without = [value - 0.05 - 0.001 * (nth % 3) for nth, value in enumerate(base)]
    narrow = [value - 0.002 * (nth % 2) for nth, value in enumerate(without)]
    question = {"verdicts": {"judged": ["conv2"]}}
    trials = arms({"base": base, "conv2": without, "size of conv2": narrow})
    ablation = etude.open(write_study(tmp_path / "study", trials, verb="ablate", question=question))
    page = ablation.report()
    assert 'id="controls"' in page.read_text(encoding="utf-8")
    assert "Is it the part, or the size?" in seen(page).text
    [row] = csv.DictReader((page.parent / "tables" / "controls.csv").read_text().splitlines())
    [judged] = ablation.verdicts(beside="controls")
    assert (row["component"], row["verdict"], float(row["p"])) == ("conv2", judged.verdict.value, judged.p)
    assert json.loads((page.parent / "report.json").read_text())["controls"]["base"] == "its control"


def test_one_arm_alone_and_unequal_seeds_are_told(tmp_path: Path) -> None:
    page = etude.open(write_study(tmp_path / "one", arms({"base": [0.1, 0.2]}), verb="ablate")).report()
    assert "base is the only arm, so there is nothing to compare it with." in seen(page).text
    trials = arms({"base": [0.1, 0.2, 0.3], "a": [0.1, 0.2]})
    page = etude.open(write_study(tmp_path / "two", trials, verb="ablate")).report()
    assert "The arms have values for unequal seeds (base 3, a 2)" in seen(page).text


def test_several_starts_are_judged_beside_random_weights(tmp_path: Path) -> None:
    trials = [Written({}, 0.5 + 0.01 * (seed % 5), seed=seed) for seed in range(8)]
    trials += [Written({}, 0.6 + 0.01 * (seed % 3), seed=seed, start="search 3") for seed in range(8)]
    facts = facts_of(etude.open(write_study(tmp_path / "study", trials, verb="fit")))
    assert facts.groups == ["random", "search 3"]
    assert facts.verdicts is not None
    assert [(one.component, one.verdict) for one in facts.verdicts.found] == [("search 3", "better")]
    assert facts.result == "Of 1 start beside random, 1 is better (search 3)."


def test_what_a_plan_could_not_decide_stands_before_the_result(tmp_path: Path) -> None:
    question = {"verdicts": {"judged": ["a"], "forced": "It takes 6 seeds."}}
    trials = arms({"base": [0.1, 0.2, 0.3], "a": [0.1, 0.2, 0.25]})
    page = etude.open(write_study(tmp_path / "study", trials, verb="ablate", question=question)).report()
    told = seen(page).text
    first = told.index("This plan can decide nothing, and was run all the same (force=True).")
    assert first < told.index("Of 1 component,")


def test_a_report_says_what_each_arm_does_without(tmp_path: Path) -> None:
    told = {
        "taken": ["age dropped", "fc2 rebuilt 64->32 inputs"],
        "rung": "rung 3, splice",
        "parameters": 1234,
        "rebuilt": ["fc2.weight", "fc2.bias"],
        "loses": True,
        "says": ["'feature:~^a' is 1 feature: age"],
    }
    planned = [{"name": "base", "parameters": 2000}, {"name": "feature:~^a", **told}, {"name": "later", "taken": ["x"]}]
    trials = arms({"base": [0.9, 0.8], "feature:~^a": [0.7, 0.6]})
    study = write_study(tmp_path / "study", trials, verb="ablate", question={"arms": planned})
    page = etude.open(study).report()
    with (page.parent / "tables" / "taken.csv").open(encoding="utf-8") as file:
        base, one, later = csv.DictReader(file)
    assert (base["taken away"], base["parameters"], base["paired"]) == ("nothing", "2000", "")
    assert one == {
        "arm": "feature:~^a",
        "taken away": "age dropped; fc2 rebuilt 64->32 inputs",
        "repair": "rung 3, splice",
        "parameters": "1234",
        "drawn anew": "1 layer drawn anew, without the trained weights",
        "paired": "not known",
        "notes": "'feature:~^a' is 1 feature: age",
    }
    assert later["paired"] == "not run yet"
    text = seen(page).text
    assert "What each arm does without" in text
    assert all(part in text for part in one.values())
    [_, kept, _] = json.loads((page.parent / "report.json").read_text())["arms"]
    assert (kept["anew"], kept["pairs"], kept["runs"]) == (one["drawn anew"], None, 2)


def test_an_interval_that_is_none_is_drawn_as_none() -> None:
    none = {"low": -math.inf, "high": math.inf, "p": 1, "p_corrected": 1, "better": 1, "test": "t"}
    judged = [
        Judged(component="a", effect=0.1, verdict="undecided", seeds_needed=6, n=2, **none),
        Judged(component="b", effect=math.nan, verdict="undecided", seeds_needed=None, n=0, **none),
    ]
    facts = Facts(name="x", verb="ablate", modes={"y": "max"}, verdicts=Verdicts(base="base", found=judged))
    forest = next(one for one in drawn(facts).figures if one.name == "forest")
    assert "a dashed line has no interval" in forest.caption
    assert "no pair of runs came to a number" in forest.drawing.alone()


# --- figures --------------------------------------------------------------------------------------


def ran(n: int, value: float, **params: Any) -> Ran:
    return Ran(trial=n, state="finished", values={"y": value}, params=params)


def test_parameters_are_ordered_by_how_much_of_the_ranking_they_go_with() -> None:
    trials = [ran(n, -abs(n - 30), noise=(n * 0.618) % 1, hump=float(n), kind="ab"[n % 2]) for n in range(60)]
    found, held = varied(Facts(name="x", modes={"y": "max"}, trials=trials))
    assert found[0].name == "hump"  # no monotone one: a rank correlation would be blind to it
    assert found[0].share > 0.9
    assert max(one.share for one in found[1:]) < 0.2
    assert held == {}


def test_a_conditional_parameter_is_that_of_the_trials_that_have_it() -> None:
    trials = [ran(n, float(n), **({"momentum": n / 10} if n % 2 else {})) for n in range(20)]
    found, _ = varied(Facts(name="x", modes={"y": "max"}, trials=trials))
    assert [(one.name, len(one.points)) for one in found] == [("momentum", 10)]


def test_points_are_thinned_and_the_caption_says_so() -> None:
    trials = [ran(n, math.sin(n), x=float(n), kind="abc"[n % 3]) for n in range(5000)]
    found = {one.name: one for one in drawn(Facts(name="x", modes={"y": "max"}, trials=trials, best=[1])).figures}
    assert (
        "1,200 of 5,000 points" in found["parameter-01-x"].caption
        or "1,200 of 5,000 points" in found["parameter-02-x"].caption
    )
    assert "Of 5,000 points 1,500 are drawn" in found["progress"].caption
    assert found["progress"].drawing.alone().count("<circle") == 1500


def test_a_value_far_off_does_not_flatten_the_others() -> None:
    low, high, beyond = window([0.9, 0.91, 0.92, 0.93, 0.9, 0.91, 0.92, 0.93, -1e9])
    assert (round(low, 2), round(high, 2), beyond) == (0.9, 0.93, 1)
    assert window([math.nan])[2] == 0
    assert Scale(low, high, 0, 100)(-1e9) == 0


def test_a_pareto_front_is_drawn_for_two_metrics(tmp_path: Path) -> None:
    trials = [Written({"x": n}, n / 10, metrics={"latency": float(n if n % 3 else n + 5)}) for n in range(1, 10)]
    study = etude.open(write_study(tmp_path / "study", trials, metrics={"accuracy": "max", "latency": "min"}))
    page = study.report()
    front = (page.parent / "figures" / "front.svg").read_text()
    assert {int(t) for t in re.findall(r'class="f-best" data-t="(\d+)"', front)} == {one.number for one in study.front}
    assert f"{len(study.front)} of 9 trials are on the Pareto front of accuracy and latency." in seen(page).text


def test_what_a_worker_did_is_read_from_the_journal() -> None:
    facts = [
        Opened(at=100.0, driver="a", epoch=1),
        Joined(at=101.0, worker="w"),
        Queued(at=101.0, trial=0, params={}, seed=0),
        Assigned(at=102.0, trial=0, attempt=1, worker="w"),
        Settled(at=105.0, trial=0, turn=Turn.LOST, attempt=1, outcome=Outcome(How.LOST)),
        Left(at=105.0, worker="w", reason="gone"),
        Opened(at=200.0, driver="b", epoch=2),  # the first ended without a word
        Joined(at=201.0, worker="v"),
        Assigned(at=202.0, trial=0, attempt=2, worker="v"),
        Closed(at=210.0, reason="stopped", complete=False),
    ]
    work = work_in(facts)
    assert work.began_at == 100.0
    assert work.spans == [Span("w", 0, 1, 2.0, 5.0, "lost"), Span("v", 0, 2, 102.0, 110.0, "lost")]
    assert [(one.worker, one.start_s, one.end_s) for one in work.presences] == [("w", 1.0, 5.0), ("v", 101.0, 110.0)]
    assert work.wasted_s == 11.0


def test_a_time_in_which_nobody_worked_is_left_out_of_the_timeline() -> None:
    spans = [Span("w", n, 1, start, start + 10, "finished") for n, start in enumerate([0, 10, 1000, 1010])]
    found = timeline(Facts(name="x", spans=[Span(*msgspec.structs.astuple(span)) for span in spans]))
    assert found is not None
    wide = re.findall(r'width="([\d.]+)" height="12" data-t', found.drawing.inline())
    assert len(wide) == 4
    assert min(map(float, wide)) > 100  # each a quarter of the width, and no hundredth
    assert "nobody worked" in found.caption


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_all_colours_can_be_seen_on_their_paper(colours: dict[str, str]) -> None:
    def light(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    def contrast(one: str) -> float:
        bright, dark = sorted((light(colours[one]), light(colours["paper"])), reverse=True)
        return (bright + 0.05) / (dark + 0.05)

    assert min(contrast(name) for name in ("ink", "soft", "link", "bad")) >= 4.5  # WCAG 2.2, text
    assert min(contrast(f"s{nth}") for nth in range(8)) >= 3  # and marks


# --- tables and words -----------------------------------------------------------------------------


def test_a_table_has_three_forms_that_escape_what_is_theirs() -> None:
    table = Table("t", "T", ("a_b", "x|y"), (("50% & <i>\\n", 0.123456789), (None, 12.0)))
    assert as_csv(table) == "a_b,x|y\n50% & <i>\\n,0.123456789\n,12.0\n"
    assert as_markdown(table).splitlines()[0] == r"| a\_b | x\|y |"
    assert r"50% & \<i\>\\n" in as_markdown(table)
    assert r"50\% \& <i>\textbackslash{}n" in as_latex(table)
    assert r"\begin{tabular}{lr}" in as_latex(table)


def test_numbers_of_a_column_stand_below_each_other() -> None:
    column = Table("t", "T", ("x",), ((0.91234,), (0.9,), (-0.8,)))
    assert [row[0] for row in column.texts()] == ["0.912", "0.900", "−0.800"]
    assert [row[0] for row in Table("t", "T", ("x",), ((1e-5,), (0.5,), (math.nan,))).texts()] == ["1e-5", "0.5", "NaN"]


def test_words_are_made_safe_and_short() -> None:
    assert safe("a\x00\u202eb\ud800'") == "a\ufffdb\ufffd&#x27;"
    assert len(shortened("x" * 500, 20)) == 20
    assert number(math.inf) == "∞"


# --- a user's own parts ---------------------------------------------------------------------------


def test_own_parts_land_in_the_report_and_one_that_raises_harms_none(tmp_path: Path) -> None:
    def longest(study: Any) -> Any:
        return [
            "Words.",
            [{"trial": one.number, "took": one.duration_s} for one in study.trials[:3]],
            "<svg><desc>mine</desc></svg>",
        ]

    def broken(_study: Any) -> Any:
        raise ValueError("no <such> thing")

    def odd(_study: Any) -> Any:
        return 3.5

    class Plot:
        def savefig(self, file: Any, **given: str) -> None:
            assert given == {"format": "svg"}
            file.write("<?xml version='1.0'?><svg><desc>plotted</desc></svg>")

    study = etude.open(write_study(tmp_path / "study", some(12)))
    page = study.report(sections=[longest, broken, odd, ("A plot", lambda _study: Plot())])
    text, told = page.read_text(), seen(page).text
    assert "<svg><desc>mine</desc></svg>" in text
    assert "<svg><desc>plotted</desc></svg>" in text
    assert "broken raised, so there is nothing here. ValueError: no <such> thing" in told
    assert "odd raised, so there is nothing here. ConfigError: It returned 3.5 (float)." in told
    assert "Best accuracy" in told


def test_a_registered_part_is_in_every_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own, "REGISTERED", {})

    @etude.report_section("How many")
    def how_many(study: Any) -> str:
        return f"There are {len(study.trials)} of them."

    page = etude.open(write_study(tmp_path / "study", some(12))).report()
    assert "There are 12 of them." in seen(page).text
    with pytest.raises(ConfigError, match="is no title"):
        etude.report_section(how_many)  # type: ignore[arg-type]


def test_sections_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        etude.open(write_study(tmp_path / "study", some(3))).report(sections=["title"])
    assert str(refused.value) == (
        "sections=['title' (str)] cannot be. Pass functions of a study, or pairs of a title and a function."
    )


# --- PNG, code, comparison ------------------------------------------------------------------------


def test_figures_are_png_too_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    study = etude.open(write_study(tmp_path / "study", some(12)))
    drawer = SimpleNamespace(svg_to_bytes=lambda svg_string, zoom: b"\x89PNG" + svg_string[:4].encode() * zoom)
    monkeypatch.setitem(sys.modules, "resvg_py", drawer)
    page = study.report(tmp_path / "out", png=True)
    assert (page.parent / "figures" / "progress.png").read_bytes() == b"\x89PNG<svg<svg"
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(ConfigError) as refused:
        study.report(tmp_path / "out", png=True)
    assert str(refused.value) == (
        "png=True draws figures with resvg, which is missing. Install it: pip install 'etude[report]'."
    )


def test_code_that_has_changed_since_is_told_with_its_difference(tmp_path: Path) -> None:
    definition = {"function train": SOURCE, "class Net": "class Net: ...", "function gone": "def gone(): ..."}
    meta = {"definition": definition, "experiment": "script.py:experiment", "cwd": "..", "code": "abc"}
    study = etude.open(write_study(tmp_path / "study", some(3), meta=meta))
    (tmp_path / "script.py").write_text("class Net: ...\n\n\ndef train(lr):\n    return 2 - lr\n")
    told = {one.name: one for one in facts_of(study).code}
    assert {name: one.standing for name, one in told.items()} == {
        "function train": "changed",
        "class Net": "same",
        "function gone": "not found",
    }
    assert "-    return 1 - lr\n+    return 2 - lr" in told["function train"].diff
    (tmp_path / "script.py").write_text("def broken(:\n")
    assert {one.standing for one in facts_of(study).code} == {"not found"}


def test_code_of_modules_beside_the_script_is_looked_at_too(tmp_path: Path) -> None:
    definition = {"function train": SOURCE, "class Net": "class Net: ...", "function far": "def far(): ..."}
    meta = {"definition": definition, "experiment": "script.py:experiment", "cwd": "..", "code": "abc"}
    study = etude.open(write_study(tmp_path / "study", some(3), meta=meta))
    (tmp_path / "inner").mkdir()
    (tmp_path / "script.py").write_text("import json\nfrom inner import nets\nfrom work import train\n")
    (tmp_path / "work.py").write_text(f"import script\n\n\n{SOURCE}")
    (tmp_path / "inner" / "__init__.py").touch()
    (tmp_path / "inner" / "nets.py").write_text("from .deep import far\n\n\nclass Net: pass\n")
    (tmp_path / "inner" / "deep.py").write_text("def far(): ...\n")
    told = {one.name: one.standing for one in facts_of(study).code}
    assert told == {"function train": "same", "class Net": "changed", "function far": "same"}


def test_two_studies_stand_side_by_side(tmp_path: Path) -> None:
    meta = {"definition": {"function train": SOURCE}}
    one = etude.open(write_study(tmp_path / "one", some(), meta=meta))
    other = etude.open(write_study(tmp_path / "other", some(8), meta={"definition": {"function train": SOURCE + "#"}}))
    both = compared(one, other)
    assert both.comparable
    assert both.result.startswith("one found the better accuracy: 0.89889 of 32 trials, beside 0.87717")
    assert both.result.endswith("They differ in code, so this says nothing of why.")
    page = both.write(tmp_path / "out")
    assert {"progress", "values"} == figures_in(page.parent)
    assert "differs: a difference may be that of the code" in seen(page).text


def test_data_is_the_same_by_the_fingerprints_of_its_rows(tmp_path: Path) -> None:
    def with_rows(name: str, seed: int, **parts: list[Any]) -> Any:
        trials = [Written({}, 0.5, metrics={"fingerprints": {"rows": parts}}, seed=seed)]  # type: ignore[dict-item]
        return etude.open(write_study(tmp_path / name, trials))

    one = with_rows("one", 1, train=[1200, "aa", True], valid=[300, "bb", True])
    alike = with_rows("alike", 2, train=[1200, "aa", True], valid=[300, "bb", True])
    other = with_rows("other", 1, train=[1200, "aa", True], valid=[300, "cc", True])
    unknown = etude.open(write_study(tmp_path / "unknown", [Written({}, 0.5)]))

    def said(second: Any) -> str:
        return next(row[3] for row in compared(one, second).rows() if row[0] == "data")

    assert [said(alike), said(unknown)] == ["same", "cannot be said"]
    assert said(other) == "differs: a difference may be that of the data"
    assert next(row[1] for row in compared(one, other).rows() if row[0] == "data").startswith("1,200, 300 rows, ")


def test_two_studies_of_arms_compare_the_means_and_the_verdicts_of_these(tmp_path: Path) -> None:
    meta = {"definition": {"function train": SOURCE, "seeds": "0, 1"}}
    values = [0.5 + 0.01 * (seed % 5) for seed in range(8)]
    better = [value + 0.1 + 0.01 * (nth % 2) for nth, value in enumerate(values)]

    def fit(name: str, n: int, **more: Sequence[float]) -> Any:
        trials = [Written({}, values[seed], seed=seed) for seed in range(n)]
        trials += [Written({}, more[start][seed], seed=seed, start=start) for start in more for seed in range(n)]
        own = {"definition": {**meta["definition"], "seeds": str(n)}}
        return etude.open(write_study(tmp_path / name, trials, verb="fit", meta=own))

    both = compared(fit("one", 8, found=better), fit("other", 7, found=better, shrunk=values))
    assert both.result == (
        "They have 2 arms in common. Mean accuracy of random: 0.51625 of 8 runs in one and 0.515714 of 7 runs in "
        "other. Whether studies differ is not tested."
    ), "seeds are no code"
    told = {name: (first, second) for name, first, second, _ in both.rows()}
    assert told["mean of shrunk"] == ("", "0.515714 of 7 runs")
    assert told["verdict on found"][0].startswith("better, +0.105 (+0.1")
    assert told["verdict on shrunk"][0] == ""
    assert "verdict on found" in seen(both.write(tmp_path / "out")).text
    alone = compared(fit("third", 3, found=better), etude.open(write_study(tmp_path / "search", some(), meta=meta)))
    assert alone.result == "third and search have no arm in common that came to a number in both."


def test_studies_of_other_metrics_do_not_compare(tmp_path: Path) -> None:
    one = etude.open(write_study(tmp_path / "one", some()))
    other = etude.open(write_study(tmp_path / "other", some(), metrics={"loss": "min"}))
    both = compared(one, other)
    assert not both.comparable
    assert "do not compare: their metrics" in str(both)
    assert figures_in(both.write(tmp_path / "out").parent) == set()
    with pytest.raises(ConfigError, match="cannot be compared with itself"):
        compared(one, one)


def test_facts_of_something_else_make_a_report_too(tmp_path: Path) -> None:
    facts = Facts(name="mine", modes={"y": "min"}, trials=[ran(n, 1 / (n + 1), x=float(n)) for n in range(9)], best=[8])
    assert "mine" in seen(write(tmp_path / "out", facts)).text
