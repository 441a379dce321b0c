"""What ranks of tests are forked from: it is there for all tests, and loads nothing before one asks for ranks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from ranks_at_work import open_template


@pytest.fixture(scope="session", autouse=True)
def _template(_session: None) -> Iterator[None]:
    template = open_template()
    yield
    template.close()
