"""How a study settles in on a machine that may not have its project."""

import hashlib
import os
import sys
from pathlib import Path

import pytest

from etude.core.errors import StudyError
from etude.engines.settling import settled_in, sources_of
from etude.wire.messages import Serve
from etude.wire.node_messages import Source
from etude.wire.search_path import search_path


def project(folder: Path) -> tuple[Serve, tuple[Source, ...]]:
    """Make a project with a package and a module, and what workers are told of it."""
    for name, text in {"helper.py": "X = 1\n", "package/part.py": "Y = 2\n"}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    paths = [str(folder / "helper.py"), str(folder / "package" / "part.py")]
    files = {path: hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in paths}
    path = (str(folder), "/usr/lib/not-of-this-machine")
    serve = Serve("s", b"", (), path, str(folder), ("m",), "m", "/driver/spool", "/driver/trials", files=files)
    return serve, sources_of(files, path)


def test_a_project_that_is_here_is_used_as_it_is(tmp_path: Path) -> None:
    serve, sources = project(tmp_path / "project")
    (tmp_path / "own").mkdir()
    here = settled_in(serve, sources, tmp_path / "own")
    assert (here.cwd, here.files) == (serve.cwd, serve.files)
    assert here.path[: len(serve.path)] == serve.path
    assert set(os.listdir(tmp_path / "own")) == {"spool", "trials", "work"}


def test_what_workers_import_of_a_project_that_is_not_here_is_written_down(tmp_path: Path) -> None:
    serve, sources = project(tmp_path / "project")
    (tmp_path / "project").rename(tmp_path / "elsewhere")
    own = tmp_path / "own"
    own.mkdir()
    here = settled_in(serve, sources, own)
    home = Path(here.path[0])
    assert home.is_relative_to(own)
    assert here.cwd == str(home)
    assert (home / "package" / "part.py").read_text() == "Y = 2\n"
    assert set(here.files) == {str(home / "helper.py"), str(home / "package" / "part.py")}
    for path, digest in here.files.items():
        assert hashlib.sha256(Path(path).read_bytes()).hexdigest() == digest
    assert set(search_path()) <= set(here.path), "packages are found where this machine has them"
    assert "/usr/lib/not-of-this-machine" not in here.path


def test_attempts_run_in_the_folder_that_somebody_brought_here(tmp_path: Path) -> None:
    serve, sources = project(tmp_path / "project")
    (tmp_path / "own").mkdir()
    here = settled_in(serve, sources, tmp_path / "own", tmp_path / "brought")
    assert here.cwd == str(tmp_path / "brought")
    assert (here.files, here.path[: len(serve.path)]) == (serve.files, serve.path), "code is still the driver's"


def test_a_project_that_was_edited_here_is_not_taken_for_the_drivers(tmp_path: Path) -> None:
    serve, sources = project(tmp_path / "project")
    (tmp_path / "project" / "helper.py").write_text("X = 3\n")
    (tmp_path / "own").mkdir()
    here = settled_in(serve, sources, tmp_path / "own")
    assert Path(here.path[0], "helper.py").read_text() == "X = 1\n"


def test_attempts_work_in_folders_of_this_machine(tmp_path: Path) -> None:
    serve, sources = project(tmp_path / "project")
    (tmp_path / "own").mkdir()
    here = settled_in(serve, sources, tmp_path / "own")
    for place in (here.spool, here.trials):
        assert Path(place).is_dir()
        assert Path(place).is_relative_to(tmp_path / "own")


def test_a_script_without_a_project_works_in_an_empty_folder(tmp_path: Path) -> None:
    serve = Serve("s", b"", (), tuple(sys.path), "/nowhere/at/all", ("m",), "m", "/s", "/t")
    here = settled_in(serve, (), tmp_path)
    assert os.listdir(here.cwd) == []


@pytest.mark.parametrize(("file", "below"), [("/etc/passwd", "/p"), ("/p/../etc/passwd", "/p"), ("/q/x", "/q")])
def test_a_file_that_leads_out_of_its_place_is_refused(tmp_path: Path, file: str, below: str) -> None:
    serve = Serve("s", b"", (), ("/p",), "/p", ("m",), "m", "/s", "/t", files={file: "0"})
    with pytest.raises(StudyError, match="a file of no known place"):
        settled_in(serve, (Source(file, below, b"x"),), tmp_path)
