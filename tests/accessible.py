"""What keeps people from using a page, as axe-core finds it."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.sync_playwright import Axe


def serious(page: Any, scheme: str) -> list[str]:
    """Return what is serious or worse on a page in a scheme of colours, light or dark."""
    page.emulate_media(color_scheme=scheme)
    found = Axe().run(page).response["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html']}" for one in found if one["impact"] in ("serious", "critical")]
