"""The pages: frames of HTML in a report's look, which their scripts fill with what the server tells."""

from __future__ import annotations

from importlib import resources
from typing import Final

from etude.analyse.report.page import Dress, Section, asset, page, scrolled
from etude.analyse.report.words import safe
from etude.core.version import VERSION

OWN_SERVER: Final = "; connect-src 'self'; form-action 'none'; base-uri 'none'"
"""What the policy allows beside the script: to ask the server that the page came from."""

STUDY: Final = ("common.js", "chart.js", "trials.js", "detail.js", "study.js")
"""The scripts of a study's page, each of which knows those before it."""

CANVAS: Final = 'tabindex="0" role="application" aria-roledescription="figure" aria-label=""'
"""A figure whose marks are reached by keyboard: arrow keys are for it, and not for who reads the page aloud."""

FOOT: Final = f"Étude {VERSION}. This page follows the study's journal."
FOOT_OF_LIST: Final = f"Étude {VERSION}. This page follows the journals of all studies in this folder."


def study_page(name: str, *, alone: bool, may_stop: bool) -> str:
    """Return the page of a study.

    Args:
        name: The study's.
        alone: Whether there is no list to go back to.
        may_stop: Whether it has a button that stops the study.
    """
    back = "" if alone else '<a href="/">All studies</a>'
    stop = '<button id="stop" type="button" hidden>Stop the study</button> ' if may_stop else ""
    head = (
        f'<div class="eyebrow">{back}<span id="verb">Study</span><span class="badge" id="standing">loading</span>'
        '<span class="badge warn" id="simulated" hidden>simulated: nothing was trained</span>'
        f'<span id="line" role="status"></span><span class="tools">{stop}'
        '<button id="theme" type="button" hidden>Dark</button></span></div>'
        f'<h1>{safe(name)}</h1><p class="broken" id="trouble" role="alert" hidden></p>'
        '<p class="result" id="result"></p><ul class="says" id="says"></ul>'
    )
    sections = [
        Section("Now", "now", '<dl class="cards" id="cards"></dl>'),
        Section("Verdicts so far", "verdicts", '<div id="judged"></div>'),
        Section("Progress", "progress", f'<div class="figures few">{_chart("best")}{_chart("curves")}</div>'),
        Section("Workers", "workers", f'<div class="figures">{_chart("timeline", whole=True)}</div>'),
        Section("Trials", "trials", _trials()),
    ]
    return page(f"{name} · Étude", head, sections, foot=FOOT + _detail(), wears=_dress(*STUDY))


def list_page(where: str) -> str:
    """Return the page with the list of studies in a folder."""
    head = (
        '<div class="eyebrow"><span>Studies</span><span id="line" role="status"></span><span class="tools">'
        f'<button id="theme" type="button" hidden>Dark</button></span></div><h1>{safe(where)}</h1>'
    )
    table = (
        '<table><thead><tr><th scope="col">study</th><th scope="col">standing</th>'
        '<th scope="col" class="n">trials</th><th scope="col">metric</th><th scope="col" class="n">best</th>'
        '</tr></thead><tbody id="rows"></tbody></table>'
    )
    return page(
        "Studies · Étude",
        head,
        [Section("Studies", "studies", scrolled(table, "Studies"))],
        foot=FOOT_OF_LIST,
        wears=_dress("list.js"),
    )


def _dress(*scripts: str) -> Dress:
    script = asset("theme.js") + "".join(map(_asset, scripts))
    return Dress(asset("page.css") + _asset("view.css"), script, OWN_SERVER)


def _asset(name: str) -> str:
    return resources.files("etude.view").joinpath("assets", name).read_text(encoding="utf-8")


def _chart(name: str, *, whole: bool = False) -> str:
    kind = ' class="full"' if whole else ""
    return f'<figure id="{name}"{kind} hidden><h3></h3><canvas {CANVAS}></canvas><figcaption></figcaption></figure>'


def _trials() -> str:
    table = scrolled('<table id="table"><thead><tr></tr></thead><tbody></tbody></table>', "Trials", tall=True)
    return (
        '<div class="filters"><label for="words">Find</label>'
        '<input id="words" type="search" placeholder="words, or lr&lt;0.1 state=failed" autocomplete="off">'
        '<label for="state">State</label><select id="state"><option value="">all</option></select>'
        '<button id="back" type="button">Earlier rows</button><button id="on" type="button">Later rows</button>'
        f'<output id="shown"></output></div>{table}'
    )


def _detail() -> str:
    return (
        '<dialog id="detail" aria-labelledby="detail-title"><div class="eyebrow"><h2 id="detail-title"></h2>'
        '<span class="tools"><button id="detail-close" type="button">Close</button></span></div>'
        f'<div id="detail-body"></div><canvas id="detail-curve" {CANVAS} hidden></canvas>'
        '<div class="filters" id="detail-log" hidden><label for="attempt">What it printed, attempt</label>'
        '<select id="attempt"></select><output id="log-note"></output></div>'
        '<pre id="log" tabindex="0" role="region" aria-label="What it printed" hidden></pre></dialog>'
    )
