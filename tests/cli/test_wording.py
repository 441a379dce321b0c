"""Messages in the words of the command line."""

from __future__ import annotations

import pytest

from etude.cli.wording import in_options, told_in_options
from etude.core.errors import DefinitionChangedError, SpaceError


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("sampler=etude.Grid(points=5). These can: 'qmc'.", "--sampler 'Grid(points=5)'. These can: 'qmc'."),
        ("stopper=ASHA() watches one metric", "--stopper 'ASHA()' watches one metric"),
        ("stopper=etude.ASHA(metric='m'), or", "--stopper 'ASHA(metric=\"m\")', or"),
        ("stopper=[ASHA(), Plateau(patience=2)] watches", "--stopper 'ASHA()' --stopper 'Plateau(patience=2)' watches"),
        ("Pass fidelity='epochs' and budget=(1, 27).", "Pass --fidelity epochs and --budget 1,27."),
        ("eta=2, and ASHA(eta=4). Say it once.", "--eta 2, and ASHA(eta=4). Say it once."),
        ("Pass trials=..., how many to run.", "Pass --trials ..., how many to run."),
        ("timeout_s=0 leaves no time.", "--timeout 0 leaves no time."),
        ("call run.report(seed=...), width=8", "call run.report(seed=...), width=8"),
    ],
)
def test_arguments_become_options(said: str, told: str) -> None:
    assert in_options(said) == told


def test_an_error_stays_what_it_is_and_code_stays_as_it_is() -> None:
    with pytest.raises(SpaceError, match=r"^--trials 3$"), told_in_options():
        raise SpaceError("trials=3")
    with pytest.raises(DefinitionChangedError, match=r"^trials=3$"), told_in_options():
        raise DefinitionChangedError("trials=3")
