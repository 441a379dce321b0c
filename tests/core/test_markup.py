"""What a notebook shows: text stands there as text, and parts do not run together."""

from __future__ import annotations

from etude.core import markup

HOSTILE = "<script>alert('1')</script>"
SAFE = "&lt;script&gt;alert(&#x27;1&#x27;)&lt;/script&gt;"


def test_lines_and_tables_do_not_run_together() -> None:
    table = markup.table(["a"], [["1"]])
    assert markup.block(markup.lines(["x"]), markup.lines(["y"]), table, markup.lines(["z"])) == (
        f"<div>x<br>y{table}z</div>"
    )
    assert markup.block("", markup.table(["a"], [])) == "<div></div>"


def test_whatever_it_is_made_of_is_text() -> None:
    assert markup.lines([HOSTILE]) == SAFE
    assert markup.table([HOSTILE], [[HOSTILE]]) == (
        f"<table><thead><tr><th>{SAFE}</th></tr></thead><tbody><tr><td>{SAFE}</td></tr></tbody></table>"
    )
