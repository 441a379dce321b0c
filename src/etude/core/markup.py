"""Tables and lines for notebooks, as HTML. Whatever they are made of is text, and stands there as text."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Final

CLOSES: Final = ("</table>", "</div>")
OPENS: Final = ("<table>", "<div>")
"""What begins and ends a line of its own."""


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table; nothing if it has no rows.

    Example:
        >>> table(["a"], [["<b>"]])
        '<table><thead><tr><th>a</th></tr></thead><tbody><tr><td>&lt;b&gt;</td></tr></tbody></table>'
    """
    if not rows:
        return ""
    titles = "".join(f"<th>{html.escape(title)}</th>" for title in head)
    body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"


def lines(texts: Sequence[str]) -> str:
    """Return texts below each other.

    Example:
        >>> lines(["1 < 2", "so"])
        '1 &lt; 2<br>so'
    """
    return "<br>".join(html.escape(text) for text in texts)


def block(*parts: str) -> str:
    """Return what was made here as one output of a cell; parts that are empty are left out, lines do not run together.

    Example:
        >>> block(lines(["a"]), "", lines(["b"]))
        '<div>a<br>b</div>'
    """
    told = ""
    for part in filter(None, parts):
        told += f"<br>{part}" if told and not told.endswith(CLOSES) and not part.startswith(OPENS) else part
    return f"<div>{told}</div>"
