"""YAML as nodes: includes, variables, anchors and merges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from etude.core.errors import FileError
from etude.files.composing import read_file, read_text
from etude.files.nodes import Fields, plain
from etude.files.source import Problems, Source


def of(text: str, **environment: str) -> Any:
    """Return what a text stands for."""
    problems = Problems()
    found = plain(read_text(Source("it", text, Path()), problems, environment))
    problems.check()
    return found


def of_file(path: Path) -> Any:
    problems = Problems()
    found = plain(read_file(path, problems, {}))
    problems.check()
    return found


def test_quotes_make_texts() -> None:
    assert of("{a: 1, b: '1', c: \"no\", d: !!str 1, e: ! no}") == {"a": 1, "b": "1", "c": "no", "d": "1", "e": "no"}
    assert of("a: |\n  1\n") == {"a": "1\n"}
    assert of("no: 1\n2: x\n") == {"no": 1, "2": "x"}  # a key is a name, whatever it would mean as a value


def test_anchors_and_merges() -> None:
    text = """
    base: &base {lr: 0.1, width: 3}
    other: &other {width: 4, depth: 2}
    one: {<<: *base, width: 5}
    two: {<<: [*base, *other]}
    same: *base
    """
    found = of(text)
    assert found["one"] == {"lr": 0.1, "width": 5}
    assert found["two"] == {"lr": 0.1, "width": 3, "depth": 2}
    assert found["same"] == found["base"]


def test_variables() -> None:
    given = {"LR": "1e-4", "HOME": "/home/me", "EMPTY": "", "TRICK": "x: [1, 2]"}
    assert of("${LR}", **given) == 1e-4
    assert of("'${LR}'", **given) == "1e-4"  # in quotes it is a text
    assert of("${HOME}/runs/${LR}", **given) == "/home/me/runs/1e-4"
    assert of("${LR:-3}", **given) == 1e-4
    assert of("[a, '${NONE:-3}']") == ["a", "3"]
    assert of("x: ${NONE:-3}\ny: ${EMPTY:-4}\n", **given) == {"x": 3, "y": 4}
    assert of("${EMPTY}", **given) == ""  # and not nothing
    assert of("${TRICK}", **given) == "x: [1, 2]"  # a value, and never more YAML
    assert of("$LR $${LR} $", **given) == "$LR ${LR} $"
    assert of("${LR}: 3", **given) == {"${LR}": 3}


def test_files_are_included_relative_to_the_file_that_does(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "study.yaml").write_text(
        "space: !include parts/space.yaml\nbase: {<<: !include parts/more.yaml, b: 2}\n"
    )
    (tmp_path / "parts" / "space.yaml").write_text("lr: !include more.yaml\n")
    (tmp_path / "parts" / "more.yaml").write_text("{a: 1, b: 1}\n")
    assert of_file(tmp_path / "study.yaml") == {"space": {"lr": {"a": 1, "b": 1}}, "base": {"a": 1, "b": 2}}


def test_a_mistake_in_an_included_file_has_its_place_and_who_includes_it(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    Path("study.yaml").write_text("verb: tune\nspace: !include space.yaml\n")
    Path("space.yaml").write_text("lr: 0.1\nlr: no\n")
    with pytest.raises(FileError) as refused:
        of_file(Path("study.yaml"))
    assert str(refused.value) == (
        "space.yaml:2:1: 'lr' stands here a second time; the first is at space.yaml:1:1. Leave one.\n"
        "  2 | lr: no\n    | ^^\n  included at study.yaml:2:8\n"
        "space.yaml:2:5: no is false in YAML 1.1 and a text in YAML 1.2. Write false, or 'no' quoted.\n"
        "  2 | lr: no\n    |     ^^\n  included at study.yaml:2:8"
    )
    assert (refused.value.file, refused.value.line, refused.value.column) == ("space.yaml", 2, 1)


def test_circles_of_includes_are_named(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    for name, other in (("a", "b"), ("b", "c"), ("c", "a")):
        Path(f"{name}.yaml").write_text(f"x: 1\ny: !include {other}.yaml\n")
    with pytest.raises(FileError) as refused:
        of_file(Path("a.yaml"))
    assert str(refused.value).splitlines()[0] == (
        "c.yaml:2:4: a.yaml includes itself, round a circle: a.yaml -> b.yaml -> c.yaml -> a.yaml. Take one of them "
        "out."
    )


def test_includes_that_would_never_end_are_refused(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    for n in range(15):  # each includes the next one twice, which is 2 ** 15 in all
        Path(f"{n}.yaml").write_text(f"a: !include {n + 1}.yaml\nb: !include {n + 1}.yaml\n")
    Path("15.yaml").write_text("1\n")
    with pytest.raises(FileError, match="More than 200 files are included, which no study needs"):
        of_file(Path("0.yaml"))
    for n in range(30):
        Path(f"{n}.yaml").write_text(f"a: !include {n + 1}.yaml\n")
    with pytest.raises(FileError, match="More than 20 files include each other in a row"):
        of_file(Path("0.yaml"))


def test_a_file_from_windows(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_bytes("\ufeffverb: run\r\nname: Étude\r\n".encode())
    assert of_file(tmp_path / "study.yaml") == {"verb": "run", "name": "Étude"}


def test_every_value_knows_its_place() -> None:
    node = read_text(Source("it", "space:\n  lr: [0.1, 0.25]\n", Path()), Problems(), {})
    assert isinstance(node, Fields)
    inner = node.entries["space"].node
    assert isinstance(inner, Fields)
    listed = inner.entries["lr"]
    assert str(listed.key.place) == "it:2:3"
    assert [(str(item.place), item.place.width) for item in listed.node.items] == [  # type: ignore[union-attr]
        ("it:2:8", 3),
        ("it:2:13", 4),
    ]
