"""A hostile repository in every tier: what a tier promises it holds, and what it says it lacks it does lack."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import secrets
import shutil
import signal
import socket
import sys
from pathlib import Path

import pytest
from tiers import Left, permitted

from etude.mage.facts import Facts
from etude.mage.probe.metrics import printed, written
from etude.mage.probe.reading import NO_FACTS, NOT_WATCHED, facts_of
from etude.mage.probe.run import probe
from etude.mage.sandbox.finding import told
from etude.mage.sandbox.protocol import Job, Limits, Ran, Sandbox, Tier
from etude.mage.sandbox.running import SUPERVISOR
from etude.mage.sandbox.supervising import LINUX

pytestmark = pytest.mark.skipif(not LINUX, reason="sandboxes are attacked where they are")

PATH = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin"}
MB = 2**20
KEYCTL = {"x86_64": (248, 250), "aarch64": (217, 219)}
"""The numbers of the system calls ``add_key`` and ``keyctl``."""
SESSION_KEYRING, REVOKE, READ = -3, 3, 11


@pytest.fixture(params=list(Tier))
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    """Give a sandbox of each tier."""
    return permitted(request.param)


@pytest.fixture(params=[Tier.BWRAP, Tier.NAMESPACES, Tier.LIMITS])
def limited(request: pytest.FixtureRequest) -> Sandbox:
    """Give a sandbox of each tier that has limits."""
    return permitted(request.param)


@pytest.fixture(params=[Tier.BWRAP, Tier.NAMESPACES])
def apart(request: pytest.FixtureRequest) -> Sandbox:
    """Give a sandbox of each tier that has processes of its own."""
    return permitted(request.param)


@pytest.fixture
def bwrap() -> Sandbox:
    """Give bubblewrap where it works."""
    return permitted(Tier.BWRAP)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give the only folder that hostile code may write to."""
    place = tmp_path / "folder"
    place.mkdir()
    return place


def python(
    sandbox: Sandbox, folder: Path, code: str, *arguments: object, reads: tuple[Path, ...] = (), **limits: object
) -> Ran:
    """Run Python code in a sandbox."""
    return sandbox.run(
        Job(
            [sys.executable, "-c", code, *map(str, arguments)],
            folder,
            reads=[Path(sys.prefix), Path(sys.base_prefix), *reads],
            environment=PATH,
            limits=Limits(**{"wall_s": 60.0, **limits}),  # type: ignore[arg-type]
        )
    )


def shell(sandbox: Sandbox, folder: Path, script: str, *, wall_s: float = 60.0) -> Ran:
    return sandbox.run(Job(["sh", "-c", script], folder, environment=PATH, limits=Limits(wall_s=wall_s)))


def with_argument(mark: str) -> list[int]:
    """Return the processes of this machine, whoever their parents are, that were started with an argument."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and mark.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


def a_mark() -> str:
    """Return seconds that nobody else sleeps."""
    return f"600.{secrets.randbelow(10**9):09}"


# --- how it ended ---------------------------------------------------------------------------------


@pytest.mark.thorough
def test_each_exit_code_and_each_deadly_signal_is_told_as_it_is(folder: Path) -> None:
    sandbox = permitted(Tier.LIMITS)
    assert [shell(sandbox, folder, f"exit {code}").code for code in range(256)] == list(range(256))
    harmless = {signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH}
    stopping = {signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
    for number in set(range(1, 32)) - harmless - stopping:
        ran = python(sandbox, folder, f"import os, signal\nsignal.signal({number}, 0) if {number} != 9 else 0\n"
                     f"os.kill(os.getpid(), {number})")  # fmt: skip
        assert (ran.code, ran.signal) == (None, number)


@pytest.mark.parametrize("said", ['{"code": "x"}', "[1]", "[" * 5_000, '{"code": 0}\n{"code": 0}', "x" * 50_000])
def test_who_answers_in_its_supervisors_place_gets_nowhere_or_is_not_believed(
    sandbox: Sandbox, folder: Path, said: str, left_below: Left
) -> None:
    code = (
        "import os, sys\n"
        "place = f'/proc/{os.getppid()}/fd'\n"
        "for name in os.listdir(place):\n"
        "    if int(name) > 2:\n"
        "        os.write(os.open(f'{place}/{name}', os.O_WRONLY), sys.argv[1].encode() + b'\\n')\n"
        "sys.exit(5)\n"
    )
    ran = python(sandbox, folder, code, said)
    if os.getuid() or sandbox.tier is Tier.BWRAP:
        assert (ran.code, b"PermissionError" in ran.err) == (1, True)
    else:  # root may
        assert ran.code in (None, 0, 5)
        assert ran.signal in (None, signal.SIGKILL)
    assert not left_below()


def test_what_floods_its_supervisors_pipe_is_ended(sandbox: Sandbox, folder: Path) -> None:
    code = (
        "import os\n"
        "place = f'/proc/{os.getppid()}/fd'\n"
        "pipes = [os.open(f'{place}/{name}', os.O_WRONLY) for name in os.listdir(place) if int(name) > 2]\n"
        "while True: os.write(pipes[0], b'x' * 65536)\n"
    )
    ran = python(sandbox, folder, code)
    assert ran.code == 1 or ran.signal == signal.SIGKILL
    assert not ran.timed_out


def test_a_time_limit_that_is_over_before_anything_began_is_a_time_limit(sandbox: Sandbox, folder: Path) -> None:
    mark = a_mark()
    for nth in range(20):
        ran = shell(sandbox, folder, f"setsid sleep {mark} & exec sleep {mark}", wall_s=0.005 * nth)
        assert (ran.code, ran.timed_out, ran.stopped) == (None, True, "time limit")
    assert not with_argument(mark)  # a supervisor that is killed while it forks would leave one


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ([], ": there is no command"),
        (["a\0b"], "a\0b: execve: embedded null character in path"),
        (["/usr"], "/usr: Permission denied"),
    ],
)
def test_what_is_no_command_ends_as_in_a_shell(sandbox: Sandbox, folder: Path, command: list[str], said: str) -> None:
    ran = sandbox.run(Job(command, folder, environment=PATH))
    assert ran.code == 126
    assert ran.err.decode().rstrip("\n").replace("execv:", "execve:") == said


# --- output ---------------------------------------------------------------------------------------


def test_both_pipes_are_flooded_at_once_and_both_ends_of_both_are_kept(sandbox: Sandbox, folder: Path) -> None:
    code = (
        "import os, threading\n"
        "def flood(fd):\n"
        "    os.write(fd, b'first')\n"
        "    for _ in range(50): os.write(fd, b'x' * (1 << 20))\n"
        "    os.write(fd, b'last')\n"
        "threads = [threading.Thread(target=flood, args=(fd,)) for fd in (1, 2)]\n"
        "for thread in threads: thread.start()\n"
    )
    ran = python(sandbox, folder, code, output_bytes=10_000)
    assert ran.code == 0
    for kept in (ran.out, ran.err):
        assert kept.startswith(b"firstx")
        assert kept.endswith(b"xlast")
        assert len(kept) < 10_100


def test_it_has_no_open_file_but_the_usual_three(sandbox: Sandbox, folder: Path) -> None:
    assert shell(sandbox, folder, "ls /proc/$$/fd | tr '\\n' ' '").out.split()[:3] == [b"0", b"1", b"2"]
    code = "import os\nprint([fd for fd in range(100) if os.path.exists(f'/proc/self/fd/{fd}')])"
    assert python(sandbox, folder, code).out == b"[0, 1, 2]\n"
    assert shell(sandbox, folder, "echo x > /dev/tty").code != 0  # it has no terminal to type into


# --- processes ------------------------------------------------------------------------------------


def test_a_fork_bomb_whose_children_all_begin_sessions_leaves_nobody(limited: Sandbox, folder: Path) -> None:
    mark = a_mark()
    code = f"import os, time\nfor _ in range(9):\n    os.fork() or os.setsid()\ntime.sleep({mark})"
    ran = python(limited, folder, code, processes=30)
    assert (ran.code, ran.stopped) == (None, "more than 30 processes")
    assert not with_argument(mark)


def test_one_that_forks_and_ends_over_and_over_is_caught(sandbox: Sandbox, folder: Path) -> None:
    mark = a_mark()
    code = (
        f"import os, sys\nassert '{mark}'\nfor _ in range(100_000):\n    if os.fork(): os._exit(0)\n    os.setsid()\n"
    )
    ran = shell(sandbox, folder, f'{sys.executable} -S -c "{code}" & sleep {mark}', wall_s=1.0)
    if sandbox.tier is not Tier.BWRAP:  # which has no interpreter here, and so nothing to catch
        assert b"rror" not in ran.err
    assert ran.timed_out
    assert not with_argument(mark)


def test_who_kills_its_supervisor_goes_with_it(sandbox: Sandbox, folder: Path) -> None:
    mark = a_mark()
    ran = shell(sandbox, folder, f"sleep {mark} & sleep 0.3; kill -9 $PPID; exec sleep {mark}", wall_s=2.0)
    assert (ran.code, ran.signal) == (None, signal.SIGKILL)
    # in a namespace the first process cannot be killed from within; elsewhere it can, and says nothing any more
    assert ran.timed_out == (sandbox.tier in (Tier.BWRAP, Tier.NAMESPACES))
    assert not with_argument(mark)


def test_who_kills_its_supervisor_and_prints_for_ever_is_not_read_for_ever(sandbox: Sandbox, folder: Path) -> None:
    ran = shell(sandbox, folder, "setsid yes & kill -9 $PPID; exec yes", wall_s=1.0)
    assert (ran.code, ran.signal) == (None, signal.SIGKILL)


def test_who_kills_everybody_kills_only_what_is_in_its_namespace(apart: Sandbox, folder: Path) -> None:
    mark = a_mark()  # never in the other tiers: there, everybody is everybody
    ran = shell(apart, folder, f"setsid sleep {mark} & kill -9 -1; exit 4")
    assert (ran.code, ran.signal) == (4, None)  # it does not kill itself
    assert not with_argument(mark)


def test_it_sees_no_other_process_where_it_has_its_own(limited: Sandbox, folder: Path) -> None:
    code = (
        "import os, sys\n"
        "try: print(b'PATH=' in open(f'/proc/{sys.argv[1]}/environ', 'rb').read())\n"
        "except OSError as error: print(type(error).__name__)\n"
        "try: os.kill(int(sys.argv[1]), 0); print('there')\n"
        "except OSError as error: print(type(error).__name__)\n"
    )
    said = python(limited, folder, code, os.getpid()).out.split()
    sees = limited.tier is Tier.LIMITS
    assert said == ([b"True", b"there"] if sees else [b"FileNotFoundError", b"ProcessLookupError"])
    assert "so are your other processes" in told(Tier.LIMITS)


# --- limits ---------------------------------------------------------------------------------------


def test_limits_cannot_be_lifted_not_even_by_root(limited: Sandbox, folder: Path) -> None:
    code = (
        "import resource\n"
        "for kind in (resource.RLIMIT_AS, resource.RLIMIT_FSIZE, resource.RLIMIT_CPU, resource.RLIMIT_CORE):\n"
        "    try: resource.setrlimit(kind, (-1, -1)); print('lifted')\n"
        "    except (OSError, ValueError) as error: print(type(error).__name__)\n"
        "print([line.split()[1] for line in open('/proc/self/status') if line.startswith('NoNewPrivs')])\n"
    )
    ran = python(limited, folder, code, memory_mb=2_000, file_mb=5, cpu_s=30)
    assert ran.out.split() == [b"ValueError"] * 4 + [b"['1']"]  # and no setuid program gives the right back


def test_a_deaf_program_is_killed_a_second_after_its_cpu_time(limited: Sandbox, folder: Path) -> None:
    ran = python(
        limited, folder, "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile 1: pass", cpu_s=1
    )
    assert (ran.code, ran.signal, ran.timed_out) == (None, signal.SIGKILL, False)


# --- files ----------------------------------------------------------------------------------------


def test_settings_of_the_machine_cannot_be_written(bwrap: Sandbox, folder: Path) -> None:
    """Root's sandbox could: the kernel asks for no right there, only for the number of the user."""
    code = (
        "import os\n"
        "opened = []\n"
        "for place, _, names in os.walk('/proc'):\n"
        "    for name in names:\n"
        "        path = os.path.join(place, name)\n"
        "        if 'task' in path or not os.path.isfile(path) or os.path.islink(path): continue\n"
        "        try: os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK)); opened.append(path)\n"
        "        except OSError: pass\n"
        "print(opened, os.path.exists('/proc/sys/kernel/core_pattern'))\n"
    )
    assert python(bwrap, folder, code).out == b"[] True\n"


def test_namespaces_within_give_no_way_to_write(bwrap: Sandbox, folder: Path) -> None:
    inner = (
        "for place in /usr /etc/passwd /proc /; do mount -o remount,rw $place; mount -o remount,rw,bind $place; done; "
        "mount -t proc proc /proc; umount /usr /tmp; "
        f"for file in /usr/etude-was-here /proc/sys/kernel/core_pattern {SUPERVISOR}; "
        "do (: >> $file) && echo opened; done"
    )
    ran = shell(bwrap, folder, f"for how in -Urm -Urpmf -rm; do unshare $how sh -c '{inner}'; done; sh -c '{inner}'")
    assert b"opened" not in ran.out  # to open is enough, and changes nothing of the machine where it works
    assert ran.err.count(b"Read-only file system") >= 3
    assert not Path("/usr/etude-was-here").exists()


def test_links_that_its_folder_has_lead_nowhere_and_hard_links_are_the_files(
    bwrap: Sandbox, folder: Path, tmp_path: Path
) -> None:
    for name in ("soft", "hard"):
        (tmp_path / name).write_text("as it was")
    (folder / "soft").symlink_to(tmp_path / "soft")
    (folder / "up").symlink_to("..")
    (folder / "hard").hardlink_to(tmp_path / "hard")
    ran = shell(bwrap, folder, "echo x > soft; echo x > up/soft; echo x > up/new; mv up/soft up/moved; echo x > hard")
    assert ran.code == 0
    assert (tmp_path / "soft").read_text() == "as it was"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "hard", "soft"]
    assert (tmp_path / "hard").read_text() == "x\n"  # so what is laid for a variant has none


def test_nothing_of_memory_outlives_a_run(bwrap: Sandbox, folder: Path) -> None:
    mark = a_mark()
    places = [f"{place}/{mark}" for place in ("/tmp", "/var/tmp", "/run", "/dev/shm")]
    assert shell(bwrap, folder, "; ".join(f"echo x > {place}" for place in places)).err == b""
    assert not [place for place in places if Path(place).exists()]
    assert shell(bwrap, folder, f"ls {' '.join(places)}").out == b""


def test_the_files_of_its_supervisor_are_safe_where_the_tier_says_so(sandbox: Sandbox, folder: Path) -> None:
    before = SUPERVISOR.read_bytes()
    code = "import os, sys\nprint(os.access(sys.argv[1], os.R_OK), os.access(sys.argv[1], os.W_OK))"
    said = python(sandbox, folder, code, SUPERVISOR).out
    if sandbox.tier is Tier.BWRAP:
        assert said == b"True False\n"
        why = b"Read-only" if os.access(SUPERVISOR, os.W_OK) else b"Permission denied"
        assert why in shell(sandbox, folder, f"echo x >> {SUPERVISOR}").err
        assert SUPERVISOR.read_bytes() == before
    else:
        assert said == f"True {os.access(SUPERVISOR, os.W_OK)}\n".encode()


@pytest.mark.parametrize("tier", [Tier.NAMESPACES, Tier.LIMITS])
def test_where_files_are_not_kept_apart_it_reads_and_writes_what_you_can(
    tier: Tier, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("a key")
    assert shell(permitted(tier), folder, "cat ../secret; echo x > ../escaped").out == b"a key"
    (tmp_path / "escaped").unlink()
    assert "It can still read everything that you can, home and keys, write what you can" in told(Tier.NAMESPACES)
    assert "Files and the network are open to it" in told(Tier.LIMITS)


def test_the_keyring_of_the_session_stays_behind(sandbox: Sandbox, folder: Path) -> None:
    numbers = KEYCTL.get(os.uname().machine)
    if numbers is None:
        pytest.skip("the numbers of its system calls are not known here")
    add_key, keyctl = numbers
    call = ctypes.CDLL(None).syscall
    key = call(add_key, b"user", b"etude-test", b"a ticket", 8, SESSION_KEYRING)
    if key < 0:
        pytest.skip("this kernel keeps no keys")
    code = (
        "import ctypes, sys\n"
        "room = ctypes.create_string_buffer(100)\n"
        "print(ctypes.CDLL(None).syscall(int(sys.argv[1]), 11, int(sys.argv[2]), room, 100), room.value)\n"
    )
    try:
        said = python(sandbox, folder, code, keyctl, key).out
    finally:
        call(keyctl, REVOKE, key)
    has_its_own = sandbox.tier in (Tier.BWRAP, Tier.NAMESPACES)
    assert said == (b"-1 b''\n" if has_its_own else b"8 b'a ticket'\n")


# --- network --------------------------------------------------------------------------------------


CONNECT = (
    "import socket, sys\n"
    "try: socket.create_connection(('127.0.0.1', int(sys.argv[1])), timeout=5).close(); print('reached')\n"
    "except OSError as error: print(type(error).__name__)\n"
    "try: socket.getaddrinfo('example.org', 80); print('found')\n"
    "except OSError as error: print(type(error).__name__)\n"
    "with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as question:\n"
    "    try: question.sendto(b'who', ('192.0.2.53', 53)); print('asked')\n"
    "    except OSError as error: print(error.errno)\n"
)


def test_without_a_network_nobody_is_reached_or_asked_for_names(limited: Sandbox, folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        said = python(limited, folder, CONNECT, port).out.split()
    refused = {Tier.BWRAP: b"ConnectionRefusedError", Tier.NAMESPACES: b"OSError"}
    if limited.tier is Tier.LIMITS:
        assert said[0] == b"reached"
    else:
        assert said == [refused[limited.tier], b"gaierror", b"101"]


def test_a_service_that_listens_at_a_file_is_reached_only_where_that_file_is(limited: Sandbox, folder: Path) -> None:
    place = Path("/tmp") / f"etude-{secrets.token_hex(8)}"
    place.mkdir(mode=0o700)
    code = (
        "import socket, sys\n"
        "with socket.socket(socket.AF_UNIX) as one:\n"
        "    try: one.connect(sys.argv[1]); print('reached')\n"
        "    except OSError as error: print(type(error).__name__)\n"
    )
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(place / "service"))
            server.listen()
            said = python(limited, folder, code, place / "service").out
            assert said == (b"FileNotFoundError\n" if limited.tier is Tier.BWRAP else b"reached\n")
            # to be read is enough to be talked to: no socket belongs in what a job may read and does not hide
            assert python(limited, folder, code, place / "service", reads=(place,)).out == b"reached\n"
            assert "services that listen at a file" in told(Tier.NAMESPACES)
    finally:
        shutil.rmtree(place)


# --- what it leaves for us to read ----------------------------------------------------------------


def left(folder: Path, content: str, *, code: int = 0) -> Facts:
    """Return the facts of a run that has left its own instead of its watcher's."""
    out = folder / "facts.json"
    out.write_text(content)
    return facts_of(Ran(code=code), out, None, folder, {})


@pytest.mark.parametrize(
    "content",
    [
        '{"steps": "many"}',
        '{"unseen": 3}',
        '{"models": [1, 2]}',
        '{"losses": ' + "[" * 900 + "]" * 900 + "}",
        '{"unseen": [{}]}',
    ],
)
def test_forged_facts_of_the_wrong_kind_are_no_facts(folder: Path, content: str) -> None:
    facts = left(folder, content)
    assert (facts.steps, facts.models, facts.losses) == (0, (), ())
    assert NO_FACTS in facts.unseen


def test_forged_errors_are_no_errors_of_ours(folder: Path) -> None:
    for error in ("3", '{"code": "x"}', '{"frame": []}'):
        facts = left(folder, f'{{"why": "raised", "error": {error}}}', code=1)
        assert (facts.ended.code, facts.ended.why) == (1, "exit code 1")
    assert NOT_WATCHED in left(folder, "[" * 100_000).unseen


def test_a_pipe_in_place_of_facts_is_not_waited_for(folder: Path) -> None:
    (folder / "train.py").write_text(
        "import json, os\n"
        "began_with = dict(part.split('=', 1) for part in open('/proc/self/environ').read().split('\\0') if part)\n"
        "out = json.loads(began_with['ETUDE_PROBE'])['out']\n"
        "os.unlink(out)\n"
        "os.mkfifo(out)\n"
        "os.mkfifo('metrics.json')\n"
        "os._exit(0)\n"
    )
    facts = probe(folder, "python train.py", sandbox=permitted(Tier.LIMITS), metric_file="metrics.json")
    assert (facts.ended.code, facts.ended.why, facts.metrics) == (0, "finished", {})
    assert NOT_WATCHED in facts.unseen
    assert (folder / "metrics.json").is_fifo()


@pytest.mark.parametrize("line", ["a-" * 100_000, "a@" * 100_000, "a=" + "1" * 1_000_000 + "x", "a " * 300_000])
def test_lines_that_are_made_to_be_searched_for_hours_are_not(line: str) -> None:
    assert printed(f"{line}\nloss=0.5") == {"loss": 0.5}


def test_a_number_that_is_cut_off_is_no_number() -> None:
    assert printed("loss=0.25 " + "x" * 482 + " accuracy=0.875") == {"loss": 0.25}


def test_a_metrics_file_that_is_no_numbers_gives_none(folder: Path) -> None:
    file = folder / "metrics.json"
    for content in ("[" * 100_000, '{"a": 1' + "0" * 400 + "}", '{"a":' * 990 + "1" + "}" * 990, json.dumps([1])):
        file.write_text(content)
        assert written(file) == {}
