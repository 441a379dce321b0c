"""The shop window: what ``import etude`` promises."""

import inspect

import pytest

import etude
from etude.verbs.options import AblateOptions


def test_the_window_lists_what_the_house_has() -> None:
    assert set(etude.__all__) == set(etude._HOME)
    assert len(etude.__all__) == len(set(etude.__all__))
    assert dir(etude) == sorted(etude.__all__)


@pytest.mark.parametrize("name", etude.__all__)
def test_every_name_is_there_and_says_what_it_is(name: str) -> None:
    found = getattr(etude, name)
    assert found.__doc__
    assert getattr(etude, name) is found  # and the same one the next time


def test_an_unknown_name_is_refused_by_name() -> None:
    with pytest.raises(AttributeError) as refused:
        etude.Experimnet  # noqa: B018
    assert str(refused.value) == "module 'etude' has no attribute 'Experimnet'"


def test_the_version_is_a_version() -> None:
    assert etude.__version__.split(".")[0].isdigit()


def test_type_checkers_know_all_that_ablate_takes() -> None:
    takes = {name: p.annotation for name, p in inspect.signature(etude.Experiment.ablate).parameters.items()}
    apart = {"self", "components", "across", "folds", "dry_run"}  # they stand in the overloads
    told = {name: hint.__forward_arg__ for name, hint in AblateOptions.__annotations__.items()}
    assert told == {name: annotation for name, annotation in takes.items() if name not in apart}
