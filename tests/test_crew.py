"""What a study says of workers that do not come."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from etude.core.clock import VirtualClock
from etude.engines import Door
from etude.studies.crew import Crew
from etude.wire.messages import Serve


class NobodyComes:
    """An engine that has no room for anybody."""

    def start(self, n: int, door: Door) -> None:
        pass

    def end(self, worker: str) -> None:
        pass

    def stop(self) -> None:
        pass


@pytest.mark.parametrize(("least", "wanted", "awaited"), [(1, 8, "1 worker"), (4, 8, "4 workers"), (4, 2, "2 workers")])
def test_after_a_minute_without_enough_workers_users_are_told_once(
    least: int, wanted: int, awaited: str, tmp_path: Path
) -> None:
    notes: list[str] = []

    async def wait_in_vain() -> None:
        crew = Crew(
            NobodyComes(),
            Serve("study", b"", (), (), "", ("m",), "m", spool="", trials=str(tmp_path / "trials")),
            gpus=(),
            clock=VirtualClock(),
            wanted=lambda: wanted,
            most=8,
            least=least,
            tell=lambda event: None,
            note=notes.append,
            fail=lambda error: None,
        )
        crew.tick(100.0)
        assert notes == [], "nobody was sent for yet"
        crew.begin()
        for second in (1.0, 59.0):
            crew.tick(second)
        assert notes == []
        for second in (60.0, 61.0, 200.0):
            crew.tick(second)
        await crew.close()

    asyncio.run(wait_in_vain())
    assert notes == [
        f"The study waits for {awaited} to begin with. Of these, 0 are there after 60 s; it begins when all have come."
    ]
