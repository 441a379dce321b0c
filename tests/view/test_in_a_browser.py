"""The live view in a real browser: followed, searched, by keyboard, by two, after a restart, after a deletion."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from served import AtWork, Serve
from tests.accessible import serious
from tests.hostile import METRIC, TEXTS, taken_for_html, write_hostile_ablation

import etude
from etude.core.events import Assigned
from etude.studies.at_work import STOP_FILE
from etude.testing.written import Written, begin_study, write_study

Tab = Callable[..., Any]

TRIALS = [
    Written(
        {"lr": round(0.1 + n / 100, 3), "act": ("relu", "tanh")[n % 2]},
        0.5 + n / 100,
        curve=[0.1 * n / 8, 0.4, 0.5 + n / 100],
        state="failed" if n == 5 else "finished",
        reason="ValueError: it exploded" if n == 5 else "",
    )
    for n in range(8)
]
HOSTILE = '</script><img src=x onerror="document.title=1"><b>bold'


def cards(page: Any) -> dict[str, str]:
    names = page.locator("#cards dt").all_inner_texts()
    return dict(zip(names, page.locator("#cards dd").all_inner_texts(), strict=True))


def column(page: Any, nth: int) -> list[str]:
    return page.locator(f"#table tbody td:nth-child({nth})").all_inner_texts()


def until(page: Any, selector: str, text: str) -> None:
    page.locator(selector, has_text=text).first.wait_for()


def tab_to(page: Any, element: str) -> None:
    """Press Tab until an element has the focus, which it does not get otherwise."""
    at = "(element) => document.activeElement.matches(element)"
    for _ in range(100):
        page.keyboard.press("Tab")
        if page.evaluate(at, element):
            return
    raise AssertionError(f"Tab does not lead to {element}")


def ready(page: Any) -> Any:
    page.wait_for_selector("body[data-seq]")
    return page


def test_a_finished_study_is_all_there_and_nothing_is_complained_of(tmp_path: Path, serve: Serve, tab: Tab) -> None:
    page = ready(tab(serve(write_study(tmp_path / "s", TRIALS)).link))
    assert page.url.endswith("/study/s"), "no token is left in the address"
    assert page.title() == "s · Étude"
    assert page.locator("h1").inner_text() == "s"
    assert page.locator("#standing").inner_text() == "complete"
    assert page.locator("#result").inner_text() == "Study s: 8 trials (7 finished, 1 failed)."
    assert cards(page) == {
        "Trials": "8",
        "Running": "0",
        "Finished": "7",
        "Failed": "1",
        "Best accuracy": "0.57",
        "Since it began": "41 s",
    }
    heads = page.locator("#table thead button").all_inner_texts()
    assert heads == ["trial", "state", "accuracy", "reports", "last accuracy", "lr", "act", "took", "reason"]
    assert column(page, 1) == ["7", "6", "5", "4", "3", "2", "1", "0"]
    for name in ("best", "curves", "timeline"):
        painted = page.evaluate(
            """(name) => { const canvas = document.querySelector(`#${name} canvas`);
            const all = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
            let n = 0; for (let at = 3; at < all.length; at += 4) n += all[at] > 0; return n; }""",
            name,
        )
        assert painted > 500, name
    label = page.locator("#best canvas").get_attribute("aria-label")
    assert label == "accuracy of 7 trials over time; the best so far is 0.57"
    assert page.complaints == []


def test_what_happens_in_the_study_happens_on_the_page(tmp_path: Path, serve: Serve, tab: Tab) -> None:
    journal, facts = begin_study(tmp_path / "s", TRIALS)
    half = [nth for nth, fact in enumerate(facts, 1) if isinstance(fact, Assigned)][3]
    journal.append(facts[:half])
    page = ready(tab(serve(tmp_path / "s").link))
    assert page.locator("#standing").inner_text() == "at work"
    before = cards(page)
    assert before["Running"] == "2"
    assert before["Trials"].endswith("of 8")
    journal.append(facts[half:])
    journal.lease.release()
    until(page, "#standing", "complete")
    assert cards(page)["Finished"] == "7"
    assert column(page, 1) == ["7", "6", "5", "4", "3", "2", "1", "0"]
    assert page.complaints == []
    journal.close()


def test_trials_are_sorted_searched_and_read_by_keyboard_alone(tmp_path: Path, serve: Serve, tab: Tab) -> None:
    folder = write_study(tmp_path / "s", TRIALS)
    log = folder / "trials" / "00006" / "attempt-1" / "log.txt"
    log.parent.mkdir(parents=True)
    log.write_text("\x1b[31mepoch 1\x1b[0m\nprogress 10%\rprogress 100%\n")
    page = ready(tab(serve(folder).link))

    page.locator("#table thead button", has_text="lr").focus()
    page.keyboard.press("Enter")
    assert column(page, 1) == ["0", "1", "2", "3", "4", "5", "6", "7"]
    assert page.locator("#table thead th[aria-sort=ascending]").inner_text().startswith("lr")
    page.keyboard.press("Enter")
    assert column(page, 1)[0] == "7"

    page.locator("#words").focus()
    page.keyboard.type("lr>=0.15 act=tanh")
    assert column(page, 1) == ["7", "5"]
    assert page.locator("#shown").inner_text() == "1–2 of 2"
    page.locator("#state").select_option("failed")
    assert column(page, 1) == ["5"]
    page.locator("#state").select_option("")
    page.locator("#words").fill("relu")
    assert column(page, 1) == ["6", "4", "2", "0"]

    page.locator("#table tbody button").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open]")
    assert page.locator("#detail-title").inner_text() == "Trial 6"
    assert "lr = 0.16\nact = relu" in page.locator("#detail-body").inner_text()
    until(page, "#log", "epoch 1")
    assert page.locator("#log").inner_text() == "epoch 1\nprogress 100%\n"
    page.keyboard.press("Escape")
    assert page.locator("dialog[open]").count() == 0
    assert page.evaluate("document.activeElement.textContent") == "6", "the focus is where it was"

    page.locator("#words").fill("state=failed")
    page.locator("#table tbody button").click()
    until(page, "#detail-body", "ValueError: it exploded")
    assert page.complaints == []


def test_marks_of_figures_are_reached_told_and_opened_by_keyboard_alone(tmp_path: Path, serve: Serve, tab: Tab) -> None:
    page = ready(tab(serve(write_study(tmp_path / "s", TRIALS)).link))

    def said(figure: str) -> str:
        assert page.locator(f"{figure} [aria-live]").text_content() == page.locator("#tip").text_content()
        return str(page.locator("#tip").inner_text())

    tab_to(page, "#best canvas")
    assert said("#best").startswith("Arrow keys go from mark to mark")
    page.keyboard.press("ArrowRight")
    assert said("#best") == "trial 0: finished\naccuracy: 0.5\nlr: 0.1\nact: relu"
    page.keyboard.press("ArrowRight")
    assert said("#best").startswith("trial 1: finished\n")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert said("#best").startswith("trial 0: finished\n"), "there is none before the first"
    page.keyboard.press("End")
    assert said("#best").startswith("trial 7: finished\n")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open]")
    assert page.locator("#detail-title").inner_text() == "Trial 7"
    tab_to(page, "#detail-curve")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    assert said("#detail") == "report 3: 0.57", "there is no other trial, so it is the last"
    assert page.locator("#detail #tip").is_visible(), "and not behind the dialog"
    page.keyboard.press("Escape")
    assert said("#best").startswith("trial 7: finished\n"), "the focus is where it was"

    tab_to(page, "#curves canvas")
    page.keyboard.press("Home")
    first = said("#curves")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert said("#curves") == first, "a curve has three reports"
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    assert said("#curves") != first

    tab_to(page, "#timeline canvas")
    page.keyboard.press("Home")
    assert said("#timeline") == "trial 0, attempt 1: finished\nw0"
    tab_to(page, "#words")
    assert page.locator("#tip").is_hidden()
    assert page.complaints == []


def test_a_mark_that_the_keys_are_at_is_kept_while_the_study_grows(tmp_path: Path, serve: Serve, tab: Tab) -> None:
    journal, facts = begin_study(tmp_path / "s", TRIALS)
    journal.append(facts[:30])
    page = ready(tab(serve(tmp_path / "s").link))
    tab_to(page, "#best canvas")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert page.locator("#tip").inner_text().startswith("trial 1: ")
    journal.append(facts[30:])
    page.wait_for_selector(f'body[data-seq$=".{len(facts)}"]')
    page.keyboard.press("ArrowRight")
    assert page.locator("#tip").inner_text().startswith("trial 2: ")
    journal.lease.release()
    journal.close()


def test_rows_are_turned_over_by_keyboard_alone(tmp_path: Path, serve: Serve, tab: Tab) -> None:
    page = ready(tab(serve(write_study(tmp_path / "s", [Written({"lr": 0.1}, n / 250) for n in range(250)])).link))
    tab_to(page, "#on")
    page.keyboard.press("Enter")
    assert page.locator("#shown").inner_text() == "101–200 of 250"
    page.keyboard.press("Space")
    assert page.locator("#shown").inner_text() == "201–250 of 250"
    assert column(page, 1)[-1] == "0"
    page.keyboard.press("Shift+Tab")
    assert page.evaluate("document.activeElement.id") == "back", "there is nothing later, and it is the one before"
    page.keyboard.press("Enter")
    assert page.locator("#shown").inner_text() == "101–200 of 250"


def test_two_look_at_once_and_each_goes_on_after_the_server_was_started_anew(
    tmp_path: Path, serve: Serve, tab: Tab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ETUDE_VIEW_TOKEN", "kept")
    journal, facts = begin_study(tmp_path / "s", TRIALS)
    journal.append(facts[:12])
    served = serve(tmp_path / "s")
    pages = [ready(tab(served.link)), ready(tab(served.link))]
    journal.append(facts[12:20])
    for page in pages:
        page.wait_for_selector('body[data-seq$=".20"]')
    assert served.end() == 0
    for page in pages:
        until(page, "#line", "The server does not answer; trying again.")
    journal.append(facts[20:])
    serve(tmp_path / "s", port=served.port)
    for page in pages:
        page.wait_for_selector(f'body[data-seq$=".{len(facts)}"]')
        assert page.locator("#line").inner_text() == ""
        assert column(page, 1) == ["7", "6", "5", "4", "3", "2", "1", "0"]
    journal.lease.release()
    journal.close()


def test_a_server_with_another_token_is_told_from_one_that_does_not_answer(
    tmp_path: Path, serve: Serve, tab: Tab
) -> None:
    served = serve(write_study(tmp_path / "s", TRIALS))
    page = ready(tab(served.link))
    served.end()
    serve(tmp_path / "s", port=served.port)
    until(page, "#line", "This link has no token, or that of another server: each start of `etude view` has its own.")


def test_a_study_that_is_deleted_meanwhile_stays_on_the_page(tmp_path: Path, serve: Serve, tab: Tab) -> None:
    folder = write_study(tmp_path / "s", TRIALS)
    page = ready(tab(serve(folder).link))
    assert page.locator("#trouble").is_hidden()
    shutil.rmtree(folder)
    until(page, "#trouble", "is no longer there. What is shown was read before.")
    assert len(column(page, 1)) == 8
    page.locator("#table tbody button").first.click()
    page.wait_for_selector("dialog[open]")
    page.keyboard.press("Escape")
    write_study(folder, TRIALS[:3])
    page.locator("#trouble").wait_for(state="hidden")
    page.wait_for_selector("#table tbody tr:nth-child(3)")  # a journal is there before its facts are
    assert column(page, 1) == ["2", "1", "0"]


def test_hostile_names_values_reasons_and_logs_are_text(tmp_path: Path, serve: Serve, tab: Tab) -> None:
    trials = [
        Written({HOSTILE: HOSTILE, "lr": n / 10}, 0.5 + n / 10, curve=[0.1], state=state, reason=HOSTILE)
        for n, state in enumerate(["finished", "failed", "finished", "failed"])
    ]
    folder = write_study(tmp_path / '<img src=x onerror="document.title=1">', trials, metrics={HOSTILE: "max"})
    for n in range(4):
        log = folder / "trials" / f"{n:05d}" / "attempt-1" / "log.txt"
        log.parent.mkdir(parents=True)
        log.write_text(HOSTILE + "\n\x1b]0;title\x07\x00")
    page = ready(tab(serve(folder).link))
    assert page.title() == '<img src=x onerror="document.title=1"> · Étude'
    assert page.locator("h1").inner_text() == '<img src=x onerror="document.title=1">'
    assert HOSTILE in page.locator("#result, #says").all_inner_texts()[1]
    page.locator("#table tbody button").first.click()
    until(page, "#log", HOSTILE)
    assert page.locator("img, b:not(.threats b), #detail b").count() == 0
    page.keyboard.press("Escape")
    page.locator("#best canvas").hover(position={"x": 300, "y": 100})
    listed = tab(serve(tmp_path).link)
    until(listed, "#rows a", "<img src=x")
    assert listed.locator("img").count() == 0
    listed.locator("#rows a").click()
    ready(listed)
    assert listed.title() == '<img src=x onerror="document.title=1"> · Étude'
    assert page.complaints == listed.complaints == []


def test_an_ablation_of_hostile_names_and_reasons_is_text_in_its_verdicts_too(
    tmp_path: Path, serve: Serve, tab: Tab
) -> None:
    served = serve(write_hostile_ablation(tmp_path / "s"))
    page = ready(tab(served.link, bypass_csp=True))  # what is escaped does nothing even without the page's policy
    page.wait_for_selector("#judged table")
    judged = page.locator("#judged tbody tr td:first-child").all_text_contents()
    assert len(judged) == len(TEXTS)
    for text in TEXTS:
        assert any(text in told for told in judged), text
    assert METRIC in page.locator("#judged").text_content()
    assert page.locator("#judged svg").count() >= 1
    page.locator("#judged svg text").first.hover()
    assert f"without {TEXTS[-1]}" in page.locator("#table tbody").text_content()
    page.locator("#words").fill("state=failed")
    for nth in range(len(TEXTS)):
        page.locator("#table tbody button").nth(nth).click()
        page.wait_for_selector("dialog[open]")
        told = page.locator("#detail-body dd").all_text_contents()
        assert any(one == f"without {text}" for one in told for text in TEXTS)
        assert any(one == f"{text} is why" for one in told for text in TEXTS)
        assert taken_for_html(page) == []
        page.keyboard.press("Escape")
    assert page.title() == "s · Étude"
    guarded = ready(tab(served.link))
    guarded.wait_for_selector("#judged table")
    assert guarded.complaints == [], "there was nothing that the policy had to refuse"


def test_ten_thousand_trials_are_a_hundred_rows_at_a_time(tmp_path: Path, serve: Serve, tab: Tab) -> None:
    trials = [
        Written({"lr": n / 10_000, "width": n % 7}, (n * 7919 % 10_000) / 10_000, curve=[0.1, 0.2], took_s=1.0)
        for n in range(10_000)
    ]
    journal, facts = begin_study(tmp_path / "s", trials, workers=8)
    journal.append(facts[:-30])
    page = ready(tab(serve(tmp_path / "s").link))
    assert len(column(page, 1)) == 100
    assert page.locator("#shown").inner_text().startswith("1–100 of ")
    page.locator("#on").click()
    assert page.locator("#shown").inner_text().startswith("101–200 of ")
    page.locator("#words").fill("width=3 lr<0.5")
    assert page.locator("#shown").inner_text() == "1–100 of 714"
    journal.append(facts[-30:])
    page.wait_for_selector(f'body[data-seq$=".{len(facts)}"]')
    assert cards(page)["Trials"] == "10,000"
    assert page.locator("#shown").inner_text() == "1–100 of 714", "what was searched for is still shown"
    page.locator("#table thead button", has_text="accuracy").first.click()
    page.locator("#table thead button", has_text="accuracy").first.click()
    values = [float(value) for value in column(page, 3)]
    assert values == sorted(values, reverse=True)
    assert page.locator("#table tbody tr").count() == 100
    assert page.complaints == []
    journal.lease.release()
    journal.close()


def test_verdicts_firm_up_while_an_ablation_runs(tmp_path: Path, serve: Serve, tab: Tab) -> None:
    arms = [
        Written(value=0.9 - (0.1 if arm == "without conv2" else 0.0) + seed / 1000, seed=seed, arm=arm)
        for seed in range(8)
        for arm in ("base", "without conv2", "without fc1")
    ]
    names = ("base", "without conv2", "without fc1")
    question = {"arms": [{"name": name} for name in names], "policy": "leave_one_out", "trials": len(arms)}
    journal, facts = begin_study(tmp_path / "s", arms, verb="ablate", question=question)
    journal.append(facts[:3])
    page = ready(tab(serve(tmp_path / "s").link))
    assert page.locator("#verdicts").is_hidden()

    def row(name: str) -> list[str]:
        return page.locator("#judged tr", has_text=name).locator("td").all_inner_texts()

    begun = next(nth for nth, fact in enumerate(facts) if getattr(fact, "trial", 0) == 7 and isinstance(fact, Assigned))
    journal.append(facts[3 : begun + 1])  # trials 6 and 7 are at work: the third seed of the base and of one arm
    until(page, "#judged td", "without conv2")
    until(page, "#judged .first", "Not over: 6 trials of 24 so far.")
    assert row("without conv2")[1].startswith("undecided")
    assert row("without conv2")[-1] == "2"  # seeds
    assert "came to no number" not in page.locator("#judged").inner_text(), "who is at work has not failed"
    assert page.locator("#says li").count() == 1, "what tables say is not said twice"

    journal.append(facts[begun + 1 :])
    until(page, "#judged td", "matters")
    assert (row("without conv2")[1], row("without conv2")[-1]) == ("matters", "8")
    assert row("without fc1")[1].startswith("undecided")
    assert page.locator("#judged .first", has_text="Not over").count() == 0
    assert page.locator("#judged svg").count() >= 1
    assert page.locator("#verb").inner_text() == "Ablation"
    assert page.complaints == []
    journal.lease.release()
    journal.close()


def test_a_study_is_stopped_with_the_button_and_who_changes_his_mind_stops_nothing(
    live: etude.Search, serve: Serve, tab: Tab
) -> None:
    page = ready(tab(serve(live.folder, "--allow-stop").link))
    until(page, "#standing", "at work")
    asked: list[str] = []

    def dismiss(dialog: Any) -> None:
        asked.append(dialog.message)
        dialog.dismiss()

    page.once("dialog", dismiss)
    page.locator("#stop").click()
    assert len(asked) == 1
    assert not (live.folder / STOP_FILE).exists()
    page.once("dialog", lambda dialog: dialog.accept())
    page.locator("#stop").click()
    until(page, "#line", "The study was asked to stop.")
    until(page, "#standing", "not complete")
    assert page.locator("#stop").is_hidden()
    assert page.complaints == []
    live.wait()


def test_a_study_is_stopped_by_keyboard_alone(serve: Serve, tab: Tab, tmp_path: Path, at_work: AtWork) -> None:
    folder = at_work(tmp_path / "s")
    page = ready(tab(serve(folder, "--allow-stop").link))
    page.once("dialog", lambda dialog: dialog.accept())
    tab_to(page, "#stop")
    page.keyboard.press("Enter")
    until(page, "#line", "The study was asked to stop.")
    assert (folder / STOP_FILE).exists()
    assert page.complaints == []


def test_a_view_that_only_shows_has_no_button_to_stop(tmp_path: Path, serve: Serve, tab: Tab) -> None:
    page = ready(tab(serve(write_study(tmp_path / "s", TRIALS)).link))
    assert page.locator("#stop").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_serious_keeps_anybody_from_using_it(tmp_path: Path, serve: Serve, tab: Tab, scheme: str) -> None:
    arms = [Written(value=0.9 + seed / 1000, seed=seed, arm=arm) for seed in range(7) for arm in ("base", "without x")]
    write_study(tmp_path / "ablation", arms, verb="ablate")
    write_study(tmp_path / "search", TRIALS)
    page = tab(serve(tmp_path, "--allow-stop").link, bypass_csp=True)  # axe is a script from outside
    until(page, "#rows a", "search")
    assert serious(page, scheme) == []
    for study in ("ablation", "search"):
        page.goto(page.url.partition("/study")[0].rstrip("/") + f"/study/{study}")
        ready(page)
        if study == "ablation":
            page.wait_for_selector("#judged table")
        assert serious(page, scheme) == []
    page.locator("#best canvas").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#tip").is_visible()
    assert serious(page, scheme) == []
    page.locator("#table tbody button").nth(2).click()
    page.wait_for_selector("dialog[open]")
    assert serious(page, scheme) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_serious_keeps_anybody_from_stopping_what_is_at_work_or_reading_what_is_wrong(
    tmp_path: Path, serve: Serve, tab: Tab, at_work: AtWork, scheme: str
) -> None:
    first, _ = at_work(tmp_path / "first"), at_work(tmp_path / "second")
    page = tab(serve(tmp_path, "--allow-stop").link, bypass_csp=True)
    until(page, "#rows a", "second")
    assert page.locator("#rows td", has_text="at work").count() == 2
    assert serious(page, scheme) == []
    page.locator("#rows a", has_text="first").click()
    ready(page)
    assert page.locator("#stop").is_visible()
    assert page.locator("#trouble").is_hidden()
    assert serious(page, scheme) == []
    shutil.rmtree(first)
    page.locator("#trouble").wait_for(state="visible")
    assert serious(page, scheme) == []
