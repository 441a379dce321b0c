"""A variant's folder: its files are its own, data is the project's, and what is nobody's business is not there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from etude.core.errors import ConfigError
from etude.mage.probe.laying import MOST_ENTRIES, free, lay, reached
from etude.mage.tree import Tree


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Give a project with sources, data and all that lies about."""
    files = {
        "train.py": "print(1)\n",
        "src/net.py": "x = 1\n",
        "src/table.csv": "1,2\n",
        "data/a.csv": "3\n",
        "results/metrics.json": "{}",
        ".env": "KEY=secret",
        "config/.env": "KEY=secret",
        "config/base.yaml": "lr: 1\n",
        "deploy.pem": "secret",
        ".git/HEAD": "ref",
        "env/pyvenv.cfg": "",
        "env/lib/site.py": "",
        "__pycache__/train.pyc": "",
        ".mypy_cache/x": "",
        "a-study/journal.sqlite": "",
        "etude-studies/one/journal.sqlite": "",
    }
    place = tmp_path / "project"
    for path, text in files.items():
        file = place / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    for n in range(MOST_ENTRIES + 1):
        file = place / "many" / f"{n}.txt"
        file.parent.mkdir(exist_ok=True)
        file.write_text("")
    return place


TREE = Tree({"train.py": b"print(2)\r\n", "src/net.py": b"x = 2\n", "src/new/deep.py": b"\xff"})


def test_files_of_the_tree_are_copies_and_the_rest_are_links(root: Path, tmp_path: Path) -> None:
    folder = lay(TREE, root, tmp_path / "variant")
    found = {}
    for place, folders, files in os.walk(folder):
        for name in [*files, *folders]:
            path = Path(place, name)
            if path.is_symlink():
                found[str(path.relative_to(folder))] = path.readlink()
    assert {path.relative_to(folder).as_posix() for path in folder.rglob("*.py")} == set(TREE)
    assert all((folder / path).read_bytes() == TREE.files[path] for path in TREE)
    linked = ["config/base.yaml", "data/a.csv", "many", "results/metrics.json", "src/table.csv"]
    assert found == {path: root / path for path in linked}
    assert sorted(reached(TREE, root)) == [root / path for path in linked]
    assert (root / "train.py").read_text() == "print(1)\n"


def test_a_program_can_write_beside_what_is_linked(root: Path, tmp_path: Path) -> None:
    folder = lay(TREE, root, tmp_path / "variant")
    (folder / "results" / "new.json").write_text("{}")
    (folder / "train.py").write_text("changed")
    assert sorted(path.name for path in (root / "results").iterdir()) == ["metrics.json"]
    assert (root / "train.py").read_text() == "print(1)\n"


def test_a_folder_within_the_project_does_not_hold_itself(root: Path) -> None:
    folder = lay(TREE, root, root / "work" / "variant")
    assert not (folder / "work" / "variant").exists()
    assert (folder / "data" / "a.csv").read_text() == "3\n"
    assert all("work" not in path.parts for path in reached(TREE, root, folder) if path.is_relative_to(root / "work"))


def test_a_link_of_the_project_leads_where_it_led(root: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "big.bin").write_text("data")
    (root / "datasets").symlink_to(tmp_path / "elsewhere")
    folder = lay(TREE, root, tmp_path / "variant")
    assert (folder / "datasets" / "big.bin").read_text() == "data"
    assert root / "datasets" in reached(TREE, root)


def test_a_metric_of_an_earlier_run_is_taken_away_and_the_project_keeps_it(root: Path, tmp_path: Path) -> None:
    folder = lay(TREE, root, tmp_path / "variant")
    (root / "many" / "metrics.json").write_text('{"accuracy": 1}')
    for path in ("results/metrics.json", "many/metrics.json", "not/there.json"):
        free(folder, path)
        assert not (folder / path).exists()
    assert (root / "results" / "metrics.json").exists()
    assert (root / "many" / "metrics.json").exists()
    assert (folder / "many" / "7.txt").exists()


def test_what_cannot_be_is_refused(root: Path, tmp_path: Path) -> None:
    for path in ("../outside.py", "/etc/passwd", "a/../../b"):
        with pytest.raises(ConfigError, match=r"lies outside of the project"):
            lay(Tree({path: b""}), root, tmp_path / "variant")
        with pytest.raises(ConfigError, match=r"lies outside of the project"):
            free(tmp_path, path)
    assert not (tmp_path / "outside.py").exists()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("")
    with pytest.raises(ConfigError) as refused:
        lay(TREE, root, tmp_path / "full")
    assert str(refused.value) == f"{tmp_path}/full holds something already. Pass a folder that is new or empty."
