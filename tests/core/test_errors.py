"""One tree of errors: what is drawn is what there is, and all of it is caught by its root."""

from __future__ import annotations

import ast
import inspect
import pickle
from pathlib import Path

import etude
from etude.core import errors
from etude.core.errors import (
    WHOLE_MODEL,
    BackendError,
    BudgetSpent,
    ChangeRefused,
    ConfigError,
    EtudeError,
    FileError,
    MageError,
    RefusalCode,
    RemovalRefused,
)
from etude.mage.patch.refusals import BadReply, PatchRefused
from etude.mage.verdicts import Reason


def drawn() -> dict[str, str]:
    """Return the errors of the drawing, each with the one that it hangs from."""
    found: dict[str, str] = {}
    above = ["EtudeError"]
    for line in (errors.__doc__ or "").splitlines():
        before, mark, rest = line.partition("── ")
        if mark:
            depth = before.index("├" if "├" in before else "└") // 4 - 1
            above = [*above[: depth + 1], rest.split()[0]]
            found[above[-1]] = above[-2]
    return found


def test_the_drawing_shows_each_error_where_it_hangs() -> None:
    classes = [one for one in vars(errors).values() if inspect.isclass(one) and issubclass(one, EtudeError)]
    classes += [BadReply, PatchRefused]
    assert drawn() == {one.__name__: one.__base__.__name__ for one in classes if one is not EtudeError and one.__base__}


def test_the_mage_hangs_no_error_of_its_own_beside_the_drawing() -> None:
    folder = Path(etude.__file__).parent / "mage"
    nodes = [node for path in folder.rglob("*.py") for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    bases = {one.name: [ast.unparse(base) for base in one.bases] for one in nodes if isinstance(one, ast.ClassDef)}
    assert not [name for name, above in bases.items() if {"EtudeError", "ConfigError", "MageError"} & {*above}]


def test_who_catches_the_root_catches_those_of_the_mage() -> None:
    refusals = [BadReply(Reason(text="why")), PatchRefused([Reason(text="why")])]
    for error in (BackendError("no answer", code="timeout"), BudgetSpent("enough", what="calls"), *refusals):
        assert isinstance(error, etude.EtudeError)
        assert isinstance(error, MageError)
    assert all(isinstance(error, ChangeRefused) for error in refusals)
    assert issubclass(errors.BaselineError, ConfigError)


def test_a_refusal_to_take_something_out_says_what_why_and_what_instead() -> None:
    one = RemovalRefused(RefusalCode.TIED, "decoder", "it shares its weights.", instead="head")
    assert str(one) == (
        "'decoder' cannot be taken out (tied): it shares its weights. Take out 'head' instead, which contains it."
    )
    part = RemovalRefused(RefusalCode.NOT_FOUND, "conv1", "it has 8.", part="filters")
    assert str(part) == "These filters of 'conv1' cannot be taken out (not found): it has 8."
    whole = RemovalRefused(RefusalCode.UNTRACEABLE, WHOLE_MODEL, "it raised an error.")
    assert str(whole) == "Nothing can be taken out of the model (untraceable): it raised an error."


def test_a_refusal_comes_whole_from_another_process() -> None:
    sent = RemovalRefused(RefusalCode.TIED, "decoder", "it shares its weights.", instead="head", part="filters")
    come = pickle.loads(pickle.dumps(sent))
    assert vars(come) == vars(sent)
    assert str(come) == str(sent)


def test_what_is_wrong_with_a_file_is_said_with_its_place() -> None:
    error = FileError("no such key", file="study.toml", line=3, column=7)
    assert (str(error), error.file, error.line, error.column) == ("no such key", "study.toml", 3, 7)
