"""A report in a real browser: sorted, filtered, turned dark; it asks nothing of the network, complains of nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.accessible import serious
from tests.hostile import METRIC, TEXTS, taken_for_html, write_hostile_ablation

import etude
from etude.core.system import Joules, Order, Phase, Taken
from etude.testing.written import Tuning, Written, write_study


def tuned(n: int) -> list[Tuning]:
    """Return two epochs, the second with another setting."""
    joules = Joules("modelled", "CPU seconds x 15 W", 10.0 + n, 6.0, 30.0 + n)
    probe = Order({"threads": 1}, Phase.PROBE, "<i>probe</i> 1 of 5 at most", {"best so far": 1.0})
    first = Taken(0, 2, 5.0 + n % 7, 10, joules)
    return [
        Tuning(first, probe),
        Tuning(Taken(1, 2, 3.0, 10, joules, setting=probe.setting, phase=Phase.PROBE, why=probe.why), probe),
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    trials = [
        Written(
            {"lr": 10 ** (-n / 10), "act": ("relu", "<b>tanh</b>")[n % 2], "w" * 80: n % 5},
            0.9 - abs(n - 20) / 100,
            curve=[0.1 * step for step in range(5)],
            state="failed" if n % 10 == 9 else "finished",
            tuned=tuned(n),
        )
        for n in range(40)
    ]
    return etude.open(write_study(tmp_path / "a <i>study", trials)).report(tmp_path / "out").parent


@pytest.fixture
def page(browser: Any, folder: Path) -> Iterator[Any]:
    page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme="light")
    page.complaints, page.asked = [], []
    page.on("console", lambda said: page.complaints.append(said.text))
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("request", lambda request: page.asked.append(request.url))
    page.goto((folder / "index.html").as_uri())
    yield page
    page.close()


def column(page: Any, nth: int) -> list[str]:
    cells = f"#trials tbody tr:not(.off) td:nth-child({nth})"
    return [text.replace("\u2212", "-") for text in page.locator(cells).all_inner_texts()]


def test_a_page_opens_sorts_filters_and_turns_dark_without_a_complaint(page: Any, folder: Path) -> None:
    assert page.locator("h1").inner_text() == "a <i>study"

    page.click("#trials th:has-text('lr')")
    values = [float(text) for text in column(page, 4)]
    assert values == sorted(values)
    page.click("#trials th:has-text('lr')")
    assert [float(text) for text in column(page, 4)] == sorted(values, reverse=True)
    assert page.get_attribute("#trials th:has-text('lr')", "aria-sort") == "descending"
    page.click("#trials th:has-text('accuracy')")
    last = column(page, 3)[-4:]
    assert last == [""] * 4  # what has no value is last, whichever way
    page.click("#trials th:has-text('accuracy')")
    assert column(page, 3)[-4:] == last

    page.fill("input[type=search]", "lr<0.01 tanh")
    assert page.locator("output").inner_text() == "10 of 40"
    page.fill("input[type=search]", "state=failed")
    assert page.locator("output").inner_text() == "4 of 40"
    page.fill("input[type=search]", "")
    page.select_option("select", "finished")
    assert page.locator("output").inner_text() == "36 of 40"

    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.click("#theme")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    page.reload()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light  # it is kept
    page.click("#theme")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == light

    mark = page.locator("#figure-progress circle").first
    mark.scroll_into_view_if_needed()
    mark.hover(force=True)
    assert f"trial: {mark.get_attribute('data-t')}" in page.locator("#tip").inner_text()
    assert page.locator("#trials tr.hit").count() == 1

    assert page.complaints == []
    assert set(page.asked) == {(folder / "index.html").as_uri()}


def test_a_table_is_sorted_with_the_keyboard_alone(page: Any) -> None:
    head = page.locator("#trials th:has-text('lr')")
    head.get_by_role("button", name="lr", exact=True).focus()
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    page.keyboard.press("Space")
    assert head.get_attribute("aria-sort") == "descending"
    values = [float(text) for text in column(page, 4)]
    assert values == sorted(values, reverse=True)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('th').cellIndex") == 4  # the next head


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_serious_keeps_anybody_from_reading_a_report(page: Any, tmp_path: Path, scheme: str) -> None:
    assert serious(page, scheme) == []
    arms = [
        Written(value=0.9 + seed / 1000, seed=seed, arm=arm) for seed in range(7) for arm in ("base", "without <i>x")
    ]
    write_study(tmp_path / "ablation", arms, verb="ablate")
    page.goto((etude.open(tmp_path / "ablation").report(tmp_path / "judged")).as_uri())
    assert page.locator("#verdicts th button").count() > 3
    assert serious(page, scheme) == []


def test_an_ablation_of_hostile_names_and_reasons_is_text_in_its_verdicts_too(browser: Any, tmp_path: Path) -> None:
    report = etude.open(write_hostile_ablation(tmp_path / "study")).report(tmp_path / "out")
    context = browser.new_context(bypass_csp=True)  # what is escaped does nothing even without the page's policy
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda said: complaints.append(said.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(report.as_uri())
    judged = page.locator("#verdicts tbody tr td:first-child").all_text_contents()
    assert len(judged) == len(TEXTS)
    for text in TEXTS:
        assert any(text in told for told in judged), text
        assert f"{text} is why" in page.locator("#trials tbody").text_content()
    assert METRIC in page.locator("#result").text_content()
    page.locator("#verdicts th button").first.click()
    page.locator("#figure-forest text").first.hover()
    assert taken_for_html(page) == []
    assert complaints == []
    context.close()


def test_machines_are_told_with_labels_sorted_and_found_in_the_table_of_trials(page: Any) -> None:
    part = page.locator("#machines")
    first, decided = part.locator("table").all()
    first.locator("th:has-text('seconds')").click()
    seconds = [float(text) for text in first.locator("tbody td:nth-child(3)").all_inner_texts()]
    assert seconds == sorted(seconds)
    assert len(seconds) == 40
    assert all(" J modelled (" in text for text in first.locator("tbody td:nth-child(4)").all_inner_texts())
    assert decided.locator("tbody tr").nth(1).locator("td:has-text('<i>probe</i>')").count() == 1
    mark = page.locator("#figure-machine-energy path[data-t]").first
    mark.scroll_into_view_if_needed()
    mark.hover(force=True)
    assert f"trial: {mark.get_attribute('data-t')}" in page.locator("#tip").inner_text()
    assert page.complaints == []


def test_a_page_fits_a_phone_and_is_whole_without_scripts(browser: Any, folder: Path) -> None:
    context = browser.new_context(
        viewport={"width": 390, "height": 844}, java_script_enabled=False, color_scheme="dark"
    )
    page = context.new_page()
    page.goto((folder / "index.html").as_uri())
    wide = page.locator("html").bounding_box()["width"]
    assert wide == 390
    assert page.locator("#trials tbody tr").count() == 40
    assert not page.locator("#theme").is_visible()
    assert not page.locator(".filters").is_visible()
    for figure in page.locator("figure").all():
        box = figure.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
    words = page.locator("#figure-progress text").first.bounding_box()
    assert words["height"] > 8  # pixels: it can be read
    context.close()
