"""What a call may say of how machines are tuned, and what it is told where it cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from etude.core.errors import ConfigError
from etude.system.asked import System, read_system


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"knobs": []},
            "knobs=[] names none, so nothing could be tuned. Leave it out for all that are there; with probes=0 epochs "
            "are measured, and nothing is tried.",
        ),
        ({"knobs": 3}, "knobs=3 (int) are no names. Pass a list of them, such as ['threads']."),
        (
            {"objective": {"time": 1, "speed": 2}},
            "objective={'time': 1, 'speed': 2} (dict) has 'speed'. Pass {'time': 1, 'energy': 1}.",
        ),
        ({"setting": 3}, "setting=3 (int) is no setting. Pass knobs and values, such as {'threads': 1}."),
        (
            {"setting": {"threads": [1]}},
            "setting={'threads': [1]} (dict): threads=[1] (list) cannot be. Pass one number, word or bool.",
        ),
        (
            {"history": ""},
            "history='' (str) is no file. Pass a path, or False for none, or leave it out for the user's.",
        ),
        ({"ledger": 3}, "ledger=3 (int) is no file. Pass a path, or False for none, or leave it out for the user's."),
        (
            {"power_meter": "nonsense"},
            "url='nonsense' (str) is no address of a power meter. Pass one as in 'http://10.0.0.7/power'.",
        ),
        ({"similarity": 3}, "similarity=3 (int) has no fit. Pass 'nearest', 'k-means', or an object that has one."),
        ({"probes": -1}, "probes=-1 cannot be: so many epochs may try something. Pass probes=0 or more."),
        ({"probing": "random"}, "probing='random' (str) is not known. Pass one of 'axes', 'grid'."),
        (
            {"knobs": ["threads"], "setting": {"threads": 1}},
            "System(knobs=, setting=) asks for two things: to tune, and not to. Pass one of them.",
        ),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        System(**given)
    assert str(refused.value) == said


def test_handy_forms_are_accepted() -> None:
    assert System(knobs="threads").knobs == ("threads",)
    assert System(objective={"energy": 1, "time": 0}).objective == System(objective="energy").objective
    assert System(history=Path("here.sqlite")).file == Path("here.sqlite").absolute()
    assert System(setting={}).setting == {}
    assert read_system({"probes": 3}) == System(probes=3)
    assert read_system(False) is None
