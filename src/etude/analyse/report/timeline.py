"""Who did what when: a row for each worker, a bar for each attempt, nothing where a worker was idle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from etude.analyse.report.facts import Facts, Span
from etude.analyse.report.figure import Figure, thinned
from etude.analyse.report.scales import round_ticks
from etude.analyse.report.svg import VERY_WIDE, WIDE, Drawing
from etude.core.text import count

MOST_WORKERS: Final = 40
ROW, TOP = 17.0, 8.0
BREAK: Final = 14.0
"""Pixels of a time that is left out."""

LONG_BREAK: Final = 0.08
"""A time without any worker is left out if it is more than this share of the whole."""

COLOURS: Final = {
    "finished": "good",
    "stopped": "s4",
    "paused": "s4",
    "running": "s2",
    "lost": "best",
    "killed": "bad",
    "raised": "bad",
    "unusable": "bad",
    "timed out": "bad",
    "out of memory": "bad",
    "invalid": "s3",
}
WORDS: Final = {
    "good": "finished",
    "s4": "stopped or paused",
    "bad": "failed",
    "best": "lost with its worker",
    "s3": "invalid",
    "s2": "running",
}


def timeline(facts: Facts) -> Figure | None:
    """Return who was at what when; None if nobody was at anything."""
    if not facts.spans:
        return None
    names = list(dict.fromkeys(span.worker for span in sorted(facts.spans, key=lambda span: span.start_s)))
    shown = names if len(names) <= MOST_WORKERS else thinned(names, MOST_WORKERS)
    drawing, narrow = (_drawn(facts, shown, wide) for wide in (VERY_WIDE, WIDE))
    caption = "What is empty was idle, or the worker was not there."
    if len(shown) < len(names):
        caption += f" {len(shown)} of {count(len(names), 'worker')}, evenly by when they began."
    if _breaks(facts):
        caption += " The dashed lines stand for times in which nobody worked."
    return Figure("timeline", "Who did what when", drawing, caption, narrow)


def _breaks(facts: Facts) -> list[tuple[float, float]]:
    """Return the long times in which no worker had anything."""
    ordered = sorted((span.start_s, span.end_s) for span in facts.spans)
    end = max(stop for _, stop in ordered)
    found, until = [], ordered[0][0]
    for start, stop in ordered:
        if start - until > LONG_BREAK * (end - ordered[0][0]):
            found.append((until, start))
        until = max(until, stop)
    return found


def _clock(facts: Facts, left: float, right: float) -> tuple[Callable[[float], float], list[tuple[float, float]]]:
    """Return what maps seconds to pixels, long breaks left out, and these."""
    first, last = min(s.start_s for s in facts.spans), max(s.end_s for s in facts.spans)
    breaks = _breaks(facts)
    rest = (last - first) - sum(end - start for start, end in breaks)
    per_s = (right - left - BREAK * len(breaks)) / rest if rest > 0 else 0.0

    def place(at_s: float) -> float:
        gone, extra = at_s - first, 0.0
        for start, end in breaks:
            inside = min(max(at_s - start, 0.0), end - start)
            gone -= inside
            extra += BREAK * inside / (end - start)
        return left + gone * per_s + extra

    return place, breaks


def _drawn(facts: Facts, names: Sequence[str], wide: float) -> Drawing:
    left = 96.0 if wide == VERY_WIDE else 62.0
    foot = TOP + ROW * len(names)
    place, breaks = _clock(facts, left, wide - 10)
    drawing = Drawing(foot + 58, f"What {count(len(names), 'worker')} did", wide)
    for nth, name in enumerate(names):
        y = TOP + ROW * nth
        if nth % 2 == 0:
            drawing.bar(left, y, wide - 10 - left, ROW, "wash")
        drawing.text(left - 8, y + 12, name, colour="soft", kind="tick", anchor="end", room=left - 10)
    rows = {name: TOP + ROW * nth for nth, name in enumerate(names)}
    merged = _merged([span for span in facts.spans if span.worker in rows], place)
    for span, start, end in merged:
        drawing.bar(
            start, rows[span.worker] + 2.5, max(0.8, end - start - 0.4), ROW - 5, _colour(span), trial=span.trial
        )
    for start, end in breaks:
        drawing.line(place((start + end) / 2), TOP, place((start + end) / 2), foot, "soft", dash="2 3")
    _time_axis(drawing, facts, place, breaks, foot, left)
    at, used = left, {_colour(span) for span in facts.spans}
    top = foot + 48
    for colour, word in WORDS.items():
        if colour in used:
            drawing.bar(at, top - 8, 10, 10, colour)
            drawing.text(at + 15, top + 1, word, kind="tick")
            at += 30 + 6.6 * len(word)
            if at > wide - 110:
                at, top = left, top + 18
    drawing.high = top + 10
    return drawing


def _colour(span: Span) -> str:
    return COLOURS.get(span.how, "mute")


def _merged(spans: Sequence[Span], place: Callable[[float], float]) -> list[tuple[Span, float, float]]:
    """Return bars: neighbours of one colour that nobody could tell apart are one, so a page stays small."""
    found: list[tuple[Span, float, float]] = []
    for span in sorted(spans, key=lambda span: (span.worker, span.start_s)):
        start, end = place(span.start_s), place(span.end_s)
        if found:
            before, was, until = found[-1]
            together = before.worker == span.worker and _colour(before) == _colour(span)
            if together and start - until < 0.5 and end - was < 3.0:  # noqa: PLR2004 - pixels
                found[-1] = (before, was, max(until, end))
                continue
        found.append((span, start, end))
    return found


def _time_axis(
    drawing: Drawing,
    facts: Facts,
    place: Callable[[float], float],
    breaks: Sequence[tuple[float, float]],
    foot: float,
    left: float,
) -> None:
    last = max(span.end_s for span in facts.spans)
    unit, name = next(
        (u, n) for u, n, most in ((1, "s", 180), (60, "min", 10800), (3600, "h", float("inf"))) if last < most
    )
    about = 8 if drawing.wide > WIDE else 4
    drawing.line(left, foot, drawing.wide - 10, foot, "rule")
    drawn = -100.0
    for told, value in round_ticks(0.0, last / unit, about).items():
        at = place(value * unit)
        if at - drawn < 34 or at < left - 1 or any(start < value * unit < end for start, end in breaks):  # noqa: PLR2004
            continue
        drawing.line(at, foot, at, foot + 4, "rule")
        drawing.text(
            at, foot + 17, f"{told} {name}", colour="soft", kind="tick", anchor="middle" if at > left + 8 else "start"
        )
        drawn = at
