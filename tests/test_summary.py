"""A summary reads as sentences, whatever a study ended with."""

from __future__ import annotations

from pathlib import Path

import pytest

from etude.core.events import Closed, Opened
from etude.core.history import History
from etude.core.metrics import Metrics
from etude.results.summary import summary


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("stopped by hand", "Not complete: stopped by hand. The same call goes on."),
        ("It is elsewhere now.", "Not complete: It is elsewhere now. The same call goes on."),  # an error's own words
        ("What is lr?", "Not complete: What is lr? The same call goes on."),
    ],
)
def test_why_a_study_ended_is_one_sentence(reason: str, said: str, tmp_path: Path) -> None:
    history = History(Metrics({"score": "max"}))
    history.apply(Opened(at=1.0, driver="d", epoch=1))
    history.apply(Closed(at=2.0, reason=reason, complete=False))
    assert summary(history, tmp_path, {}, at_work=False)[-1] == said
