"""Bubblewrap keeps apart: hostile code in a folder reaches nothing outside of it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tiers import permitted

from etude.core.errors import ConfigError
from etude.mage.sandbox.protocol import Job, Limits, Ran, Sandbox, Tier

Python = Callable[..., Ran]


@pytest.fixture(scope="module")
def bwrap() -> Sandbox:
    """Give bubblewrap where it works."""
    return permitted(Tier.BWRAP)


@pytest.fixture
def run(bwrap: Sandbox, tmp_path: Path) -> Python:
    """Give what runs Python code in a folder that is its own."""
    folder = tmp_path / "folder"
    folder.mkdir()

    def runs(code: str, *arguments: object, reads: tuple[Path, ...] = ()) -> Ran:
        return bwrap.run(
            Job(
                command=[sys.executable, "-c", code, *map(str, arguments)],
                folder=folder,
                reads=[Path(sys.prefix), Path(sys.base_prefix), *reads],
                environment={"PATH": "/usr/bin:/bin"},
                limits=Limits(wall_s=60.0),
            )
        )

    return runs


def test_no_network_is_reached_not_even_this_machine(run: Python) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = (
            "import socket, sys\n"
            "for address in (('127.0.0.1', int(sys.argv[1])), ('192.0.2.1', 80)):\n"
            "    try: socket.create_connection(address, timeout=5)\n"
            "    except OSError as error: print(type(error).__name__, error.errno)\n"
        )
        subprocess.run([sys.executable, "-c", code, str(port)], capture_output=True, check=False, timeout=60)
        server.setblocking(False)
        server.accept()[0].close()  # without the sandbox it is reached
        ran = run(code, port)
        assert ran.out.split(b"\n")[:2] == [b"ConnectionRefusedError 111", b"OSError 101"]
        with pytest.raises(BlockingIOError):
            server.accept()


def test_an_abstract_socket_of_this_machine_is_not_reached(run: Python) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0etude-test-of-a-sandbox")
        server.listen()
        ran = run("import socket; socket.socket(socket.AF_UNIX).connect('\\0etude-test-of-a-sandbox')")
        assert b"ConnectionRefusedError" in ran.err


def test_home_and_secrets_are_not_there(run: Python, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a key")
    code = (
        "import os, sys\n"
        "for path in sys.argv[1:]:\n"
        "    try: print(open(path).read())\n"
        "    except OSError as error: print(type(error).__name__)\n"
    )
    ran = run(code, secret, "/etc/shadow", Path.home() / ".bashrc", "/proc/1/environ", "/root/.ssh/id_rsa")
    assert b"a key" not in ran.out
    said = ran.out.split()
    assert said[:3] == [b"FileNotFoundError"] * 3
    assert b"PYTEST" not in ran.out


def test_what_it_may_read_it_cannot_change(run: Python, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "table").write_text("as it was")
    (tmp_path / "folder" / "link").symlink_to(data)
    code = (
        "import os, pathlib, shutil, sys\n"
        "data = pathlib.Path(sys.argv[1])\n"
        "print((data / 'table').read_text())\n"
        "for change in (lambda: (data / 'table').write_text('x'), lambda: (data / 'new').write_text('x'),\n"
        "               lambda: os.chmod(data / 'table', 0), lambda: os.unlink(data / 'table'),\n"
        "               lambda: os.rename(data / 'table', 'mine'), lambda: shutil.rmtree(data),\n"
        "               lambda: open('link/table', 'w'), lambda: os.link('link/table', 'hard')):\n"
        "    try: change()\n"
        "    except OSError as error: print(error.errno)\n"
    )
    ran = run(code, data, reads=(data,))
    assert ran.out.split(b"\n")[:-1] == [b"as it was", *[b"30"] * 4, b"18", b"30", b"30", b"18"]
    assert (data / "table").read_text() == "as it was"
    assert sorted(path.name for path in data.iterdir()) == ["table"]


def test_hostile_code_changes_nothing_outside_its_folder(run: Python, tmp_path: Path) -> None:
    (tmp_path / "beside").write_text("as it was")
    before = {path: os.stat(path).st_mtime_ns for path in ("/usr/bin", "/etc", "/tmp", str(tmp_path))}
    code = (
        "import os, pathlib, subprocess, sys\n"
        "for path in ('/usr/bin/x', '/etc/passwd', '/etc/x', '/x', sys.argv[1] + '/beside', sys.executable,\n"
        "             os.path.expanduser('~/x'), '/dev/x', '/sys/x', '../escaped'):\n"
        "    try: pathlib.Path(path).write_text('x')\n"
        "    except OSError: pass\n"
        "pathlib.Path('/tmp/mine').write_text('x')\n"
        "os.symlink(sys.argv[1] + '/beside', 'way-out')\n"
        "try: open('way-out', 'a').write('x')\n"
        "except OSError: pass\n"
        "for command in (['mount', '-t', 'tmpfs', 'x', '/usr'], ['mount', '-o', 'remount,rw', '/'],\n"
        "                ['mount', '-o', 'remount,rw,bind', '/usr'], ['umount', '/usr'], ['kill', '-9', '-1']):\n"
        "    subprocess.run(command, check=False, capture_output=True, start_new_session=True)\n"
        "pathlib.Path('/usr/bin/x').write_text('x')\n"
    )
    ran = run(code, tmp_path)
    assert b"Read-only file system" in ran.err or ran.signal == 9  # it may have killed itself, and nobody else
    assert (tmp_path / "beside").read_text() == "as it was"
    assert not (tmp_path / "escaped").exists()
    assert not Path("/tmp/mine").exists()
    assert {path: os.stat(path).st_mtime_ns for path in before if path != "/tmp"}.items() <= before.items()
    assert shutil.which("x", path="/usr/bin") is None


def test_it_sees_no_process_but_its_own(run: Python) -> None:
    code = (
        "import os\n"
        "own = sorted(int(name) for name in os.listdir('/proc') if name.isdigit())\n"
        "print(len(own), own[0], os.getppid())\n"
    )
    assert run(code).out == b"2 1 1\n"


def test_it_has_no_more_rights_than_anybody(run: Python) -> None:
    rights = run("print([line for line in open('/proc/self/status') if line.startswith('CapEff')])")
    assert b"0000000000000000" in rights.out


def test_loader_workers_have_the_shared_memory_that_they_need(run: Python) -> None:
    code = (
        "from multiprocessing import shared_memory, Pool\n"
        "memory = shared_memory.SharedMemory(create=True, size=100); memory.close(); memory.unlink()\n"
        "with Pool(2) as pool: print(pool.map(abs, [-1, 2]))\n"
    )
    assert run(code).out == b"[1, 2]\n"


def test_a_folder_that_is_not_there_is_refused_before_anything_runs(bwrap: Sandbox, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        bwrap.run(Job(["true"], tmp_path / "none"))
    assert str(refused.value) == f"{tmp_path}/none is no folder, so nothing can run in it. Pass one that is there."
    with pytest.raises(ConfigError) as refused:
        bwrap.run(Job(["true"], tmp_path, reads=[tmp_path / "data"]))
    assert str(refused.value) == f"The job is to read {tmp_path}/data, which is not there. Pass what is."
