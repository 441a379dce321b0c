"""A variant's folder: its files are its own, data is the project's, and what is nobody's business is not there."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import stat
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from etude.core.errors import ConfigError, SandboxMissing
from etude.mage.loop.at_hand import prober
from etude.mage.loop.book import Setup
from etude.mage.probe.laying import MOST_ENTRIES, free, hidden, lay, reached
from etude.mage.probe.removing import remove
from etude.mage.sandbox.finding import find_sandbox
from etude.mage.sandbox.protocol import Job, Limits, Tier
from etude.mage.tree import Tree


@contextlib.contextmanager
def listening(place: Path) -> Iterator[socket.socket]:
    """Give a service that listens at a file, wherever that is: its address may not be long, its name may."""
    here = os.getcwd()
    with socket.socket(socket.AF_UNIX) as server:
        os.chdir(place.parent)
        try:
            server.bind(place.name)
        finally:
            os.chdir(here)
        server.listen()
        yield server


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


def test_sockets_pipes_and_devices_are_not_laid_nor_what_leads_to_them(root: Path, tmp_path: Path) -> None:
    with listening(root / "service"), listening(root / "many" / "service"), listening(tmp_path / "elsewhere"):
        os.mkfifo(root / "data" / "pipe")
        (root / "zero").symlink_to("/dev/zero")
        (root / "to-elsewhere").symlink_to(tmp_path / "elsewhere")
        (root / "nowhere").symlink_to(tmp_path / "nowhere")
        folder = lay(TREE, root, tmp_path / "variant")
        reads = reached(TREE, root, folder)
        linked = {str(path.relative_to(root)) for path in reads}
        assert linked == {"config/base.yaml", "data/a.csv", "many", "results/metrics.json", "src/table.csv"}
        assert (folder / "nowhere").is_symlink()  # what a link leads to that leads nowhere, the program may ask itself
        assert not [name for name in ("service", "data/pipe", "zero", "to-elsewhere") if os.path.lexists(folder / name)]
        assert hidden(reads) == (root / "many" / "service",)


def test_of_what_is_linked_as_a_whole_a_job_hides_what_is_no_data_and_what_is_secret(root: Path) -> None:
    deep = root / "many" / "a" / "b"
    (deep / ".ssh").mkdir(parents=True)
    (deep / ".ssh" / "config").write_text("")
    (deep / ".env").write_text("KEY=secret")
    (deep / "table.csv").write_text("1")
    (deep / "around").symlink_to(root)
    os.mkfifo(deep / "pipe")
    assert hidden([root / "many"]) == (deep / ".env", deep / ".ssh", deep / "pipe")
    assert hidden([root / "data" / "a.csv"]) == ()


def test_links_to_secrets_and_to_folders_around_the_project_are_not_laid(root: Path, tmp_path: Path) -> None:
    (root / "up").symlink_to("..")
    (root / "data" / "again").symlink_to(root)
    (root / "settings").symlink_to(root / ".env")
    folder = lay(TREE, root, tmp_path / "variant")
    assert not [name for name in ("up", "data/again", "settings") if os.path.lexists(folder / name)]


def test_a_folder_that_nobody_may_look_into_is_no_error(root: Path, tmp_path: Path) -> None:
    (root / "closed").mkdir(mode=0o000)
    try:
        folder = lay(TREE, root, tmp_path / "variant")
        assert hidden(reached(TREE, root, folder)) == ()
    finally:
        (root / "closed").chmod(0o700)


ASK = (
    "import socket, sys\n"
    "for path in sys.argv[1:]:\n"
    "    with socket.socket(socket.AF_UNIX) as one:\n"
    "        try: one.connect(path); print('reached')\n"
    "        except OSError as error: print(type(error).__name__)\n"
)


def test_a_variant_cannot_talk_to_a_socket_of_the_project() -> None:
    try:
        bwrap = find_sandbox(Tier.BWRAP)
    except SandboxMissing as error:
        pytest.skip(str(error))
    with tempfile.TemporaryDirectory(prefix="etude-") as short:  # no address of a socket is longer than 107 bytes
        root = Path(short).resolve() / "project"
        (root / "many").mkdir(parents=True)
        for n in range(MOST_ENTRIES + 1):
            (root / "many" / f"{n}.txt").write_text(str(n))
        (root / "many" / ".env").write_text("KEY=secret")
        places = [root / "service", root / "many" / "service"]
        with listening(places[0]) as one, listening(places[1]) as other:
            folder = lay(Tree({"ask.py": ASK.encode()}), root, Path(short) / "tree")
            reads = reached(Tree({"ask.py": b""}), root, folder)
            asked = ["service", "many/service", *map(str, places)]
            job = Job(
                [sys.executable, "ask.py", *asked],
                folder,
                reads=[Path(sys.prefix), Path(sys.base_prefix), *reads],
                environment={"PATH": "/usr/bin:/bin"},
            )
            told = bwrap.run(replace(job, hides=hidden(reads))).out.split()
            assert told == [b"FileNotFoundError", b"ConnectionRefusedError"] * 2
            for server in (one, other):
                server.setblocking(False)
                with pytest.raises(BlockingIOError):
                    server.accept()
            assert bwrap.run(job).out.split()[1] == b"reached"  # so it is hiding that keeps it apart
            show = ["sh", "-c", "cat many/7.txt many/.env"]
            assert bwrap.run(replace(job, command=show, hides=hidden(reads))).out == b"7"


# --- removing it ----------------------------------------------------------------------------------


def test_a_folder_thousands_deep_is_removed_and_where_links_lead_nothing_is_touched(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o750)
    (outside / "file").write_text("as it was")
    top = tmp_path / "written"
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for depth in range(5_000):
        os.mkdir("deep", dir_fd=here)
        if depth % 1_000 == 0:
            os.symlink(outside, "out", dir_fd=here)
            os.mkdir("beside", dir_fd=here)
            os.mkfifo("pipe", dir_fd=here)
        before, here = here, os.open("deep", os.O_RDONLY, dir_fd=here)
        os.close(before)
    os.symlink(outside / "file", "out", dir_fd=here)
    os.close(here)
    with pytest.raises(RecursionError):
        shutil.rmtree(top)
    remove(top)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["outside"]
    assert (outside / "file").read_text() == "as it was"
    assert stat.S_IMODE(outside.stat().st_mode) == 0o750


def test_a_folder_that_forbids_everything_is_removed_and_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "written" / "closed" / "within").mkdir(parents=True)
    (tmp_path / "written" / "closed" / "within" / "file").write_text("")
    for path in ("written/closed/within", "written/closed", "written"):
        (tmp_path / path).chmod(0o000)
    remove(tmp_path / "written")
    (tmp_path / "kept").mkdir()
    (tmp_path / "link").symlink_to("kept")
    with pytest.raises(NotADirectoryError):
        remove(tmp_path / "link")
    with pytest.raises(FileNotFoundError):
        remove(tmp_path / "written")
    assert (tmp_path / "kept").is_dir()


def test_what_a_variant_writes_five_thousand_folders_deep_is_gone_after_it_was_watched(
    root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    tree = Tree({"train.py": b"import os\nfor _ in range(5000):\n    os.mkdir('deep')\n    os.chdir('deep')\n"})
    setup = Setup(root=str(root), entry="python train.py", steps=1, seed=0, metric="")
    facts = prober(setup, lambda: find_sandbox(Tier.LIMITS), Limits(wall_s=300.0))(tree)
    assert (facts.ended.code, facts.ended.why) == (0, "finished")
    assert not list(place.iterdir())


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
