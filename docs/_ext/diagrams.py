"""Draws on the site what the pages have as Mermaid: their source stays what other places draw as well.

The pages use two kinds, of which a line is a node or an arrow, and the first line says which kind it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

FENCE: Final = re.compile(r"^```mermaid\n(.*?)\n```$", re.MULTILINE | re.DOTALL)
ARROW: Final = re.compile(
    r'^(?P<tail>\[\*\]|[^:\s\[]+)(\["(?P<named>.*?)"\])? (?P<kind>-->|-\..*\.->) '
    r'(?P<head>\[\*\]|[^:\s\[]+)(\["(?P<told>.*?)"\])?(: (?P<word>.*))?$'
)
WORD: Final = re.compile(r"-\. (.*) \.->")
LOOK: Final = (
    'graph [rankdir=TB, bgcolor="transparent", ranksep=0.35, nodesep=0.3]; '
    'node [shape=box, style="rounded,filled", fillcolor="#f5f6f8", color="#5b6370", fontcolor="#1a1d23", '
    'fontname="Helvetica", fontsize=11, margin="0.12,0.06"]; '
    'edge [color="#5b6370", fontcolor="#5b6370", fontname="Helvetica", fontsize=9, arrowsize=0.6];'
)


def as_graph(mermaid: str) -> str:
    """Return the same diagram in the language of Graphviz.

    Raises:
        ValueError: A line is neither a node nor an arrow.
    """
    first, *lines = (line.strip() for line in mermaid.splitlines())
    if first.split()[0] not in {"flowchart", "stateDiagram-v2"}:
        raise ValueError(f"{first!r} is no kind of diagram that is drawn here")
    return f"digraph {{ {LOOK}\n" + "\n".join(statement for line in lines if line for statement in _drawn(line)) + "\n}"


def _drawn(line: str) -> Iterator[str]:
    found = ARROW.match(line)
    if found is None:
        raise ValueError(f"{line!r} is no arrow")
    for node, told in ((found["tail"], found["named"]), (found["head"], found["told"])):
        if told is not None:
            yield f"{_quoted(node)} [label={_quoted(_broken(told))}];"
    ends = (found["tail"], found["head"])
    tail, head = (f"{end} {nth}" if end == "[*]" else end for nth, end in enumerate(ends))
    for nth, end in enumerate(ends):
        if end == "[*]":
            yield f'{_quoted(f"{end} {nth}")} [shape=circle, label="", width=0.15, fillcolor="#1a1d23"];'
    dotted = WORD.search(found["kind"])
    word = found["word"] or (dotted[1] if dotted else "")
    style = ", style=dashed" if dotted else ""
    yield f"{_quoted(tail)} -> {_quoted(head)} [label={_quoted(word)}{style}];"


def _broken(text: str, most: int = 34) -> str:
    """Return a text with a break where a line would be long."""
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) > most:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n".join(lines)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def draw(app: Any, name: str, source: list[str]) -> None:
    """Have a page's diagrams drawn."""
    source[0] = FENCE.sub(lambda found: f"```{{graphviz}}\n{as_graph(found[1])}\n```", source[0])


def setup(app: Any) -> dict[str, Any]:
    """Take part in making the site."""
    app.connect("source-read", draw)
    return {"parallel_read_safe": True}
