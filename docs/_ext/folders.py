"""Links of pages to folders: the site has no page for a folder, so the words stay and the link goes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

LINK: Final = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s#:]+)\)")


def settle(app: Any, name: str, source: list[str]) -> None:
    """Take the links of a page to folders away."""
    place = Path(app.env.doc2path(name)).parent

    def settled(found: re.Match[str]) -> str:
        return found[1] if (place / found[2]).is_dir() else found[0]

    source[0] = LINK.sub(settled, source[0])


def setup(app: Any) -> dict[str, Any]:
    """Take part in making the site."""
    app.connect("source-read", settle)
    return {"parallel_read_safe": True}
