"""Sandboxes by name: what they say, what they refuse, and that none is taken in another's place."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiers import Left, permitted

import etude
from etude.core.errors import ConfigError, SandboxMissing
from etude.mage.sandbox.finding import find_sandbox, told, why_not
from etude.mage.sandbox.kept import Kept
from etude.mage.sandbox.namespaces import Namespaces
from etude.mage.sandbox.protocol import Job, Limits, Sandbox, Tier
from etude.mage.sandbox.supervising import below

MB = 2**20
PATH = {"PATH": "/usr/bin:/bin"}


@pytest.fixture(params=list(Tier))
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    """Give a sandbox of each tier."""
    return permitted(request.param)


def python(code: str, folder: Path, **limits: object) -> Job:
    return Job(
        command=[sys.executable, "-c", code],
        folder=folder,
        reads=[Path(sys.prefix), Path(sys.base_prefix)],
        environment=PATH,
        limits=Limits(**{"wall_s": 60.0, **limits}),  # type: ignore[arg-type]
    )


# --- what every tier does -------------------------------------------------------------------------


def test_exit_codes_signals_and_both_outputs_are_told_right(sandbox: Sandbox, tmp_path: Path) -> None:
    ran = sandbox.run(Job(["sh", "-c", "echo out; echo err >&2; exit 7"], tmp_path, environment=PATH))
    assert (ran.code, ran.signal, ran.timed_out, ran.stopped) == (7, None, False, "")
    assert (ran.out, ran.err, ran.tier) == (b"out\n", b"err\n", sandbox.tier)
    for number in (9, 11, 15):
        ran = sandbox.run(Job(["sh", "-c", f"kill -{number} $$"], tmp_path, environment=PATH))
        assert (ran.code, ran.signal) == (None, number)
    assert sandbox.run(Job(["sh", "-c", "exit 137"], tmp_path, environment=PATH)).code == 137


def test_a_command_that_is_not_there_ends_as_in_a_shell(sandbox: Sandbox, tmp_path: Path) -> None:
    ran = sandbox.run(Job(["no-such-program"], tmp_path, environment=PATH))
    assert (ran.code, ran.err) == (127, b"no-such-program: No such file or directory\n")


def test_the_environment_is_what_the_job_says(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_SECRET_KEY", "of no concern to anybody")
    ran = sandbox.run(Job(["env"], tmp_path, environment={**PATH, "LANG": "C"}))
    assert sorted(ran.out.split()) == [b"LANG=C", b"PATH=/usr/bin:/bin"]


def test_it_runs_in_its_folder_and_may_write_there(sandbox: Sandbox, tmp_path: Path) -> None:
    assert sandbox.run(Job(["sh", "-c", "echo here > file; pwd"], tmp_path, environment=PATH)).code == 0
    assert (tmp_path / "file").read_text() == "here\n"


def test_of_a_long_output_both_ends_are_kept(sandbox: Sandbox, tmp_path: Path) -> None:
    code = "print('first'); print('x' * 3_000_000); print('last')"
    ran = sandbox.run(python(code, tmp_path, output_bytes=1_000))
    assert ran.code == 0
    assert ran.out.startswith(b"first\nxxx")
    assert ran.out.endswith(b"xxx\nlast\n")
    assert b"\n[... 2,999,012 bytes are left out ...]\n" in ran.out


def test_many_runs_leave_no_process_and_no_file(sandbox: Sandbox, tmp_path: Path) -> None:
    files, children = len(os.listdir("/proc/self/fd")), len(below(os.getpid()))
    for _ in range(50):  # of each of four tiers
        assert sandbox.run(Job(["sh", "-c", "sleep 60 & exit 0"], tmp_path, environment=PATH)).code == 0
    assert len(os.listdir("/proc/self/fd")) == files
    assert len(below(os.getpid())) == children


def test_what_cannot_be_started_is_no_exit_code(tmp_path: Path) -> None:
    broken = tmp_path / "unshare"
    broken.write_text("#!/bin/sh\necho broken >&2\nexit 1\n")
    broken.chmod(0o755)
    sandbox = Namespaces(str(broken), shutil.which("setpriv") or "setpriv")
    with pytest.raises(SandboxMissing) as refused:
        sandbox.run(Job(["true"], tmp_path))
    told_by = "The sandbox (namespaces) could not start the command, and nothing was run: broken"
    assert str(refused.value) == told_by


# --- limits ---------------------------------------------------------------------------------------


@pytest.fixture(params=[tier for tier in Tier if tier is not Tier.OUTER])
def limited(request: pytest.FixtureRequest) -> Sandbox:
    """Give a sandbox of each tier that has limits."""
    return permitted(request.param)


def test_too_much_memory_is_a_clean_error(limited: Sandbox, tmp_path: Path) -> None:
    ran = limited.run(python("bytearray(3 << 30)", tmp_path, memory_mb=1024))
    assert (ran.code, ran.signal) == (1, None)
    assert ran.err.endswith(b"MemoryError\n")


def test_too_large_a_tensor_is_a_clean_error(limited: Sandbox, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    code = "import torch; print(torch.ones(10).sum().item(), flush=True); torch.ones(2 << 30)"
    ran = limited.run(python(code, tmp_path, memory_mb=4096))
    assert (ran.code, ran.signal, ran.out) == (1, None, b"10.0\n")
    assert b"DefaultCPUAllocator: can't allocate memory" in ran.err


def test_a_file_may_not_become_too_large(limited: Sandbox, tmp_path: Path) -> None:
    ran = limited.run(python("open('file', 'wb').write(bytes(3 << 20))", tmp_path, file_mb=1))
    assert ran.code == 1
    assert b"File too large" in ran.err
    assert (tmp_path / "file").stat().st_size <= MB


def test_cpu_time_ends(limited: Sandbox, tmp_path: Path) -> None:
    ran = limited.run(python("while True: pass", tmp_path, cpu_s=1))
    assert (ran.code, ran.signal, ran.timed_out) == (None, 24, False)  # SIGXCPU


def test_a_fork_bomb_is_ended_with_all_that_it_forked(limited: Sandbox, tmp_path: Path, left_below: Left) -> None:
    # Where the kernel counts as well it may be the first to say no, and a bomb does not go by that.
    code = "import os, time\nfor _ in range(2000):\n try: os.fork() or time.sleep(60)\n except OSError: time.sleep(60)"
    ran = limited.run(python(code, tmp_path, processes=20))
    assert (ran.code, ran.signal, ran.timed_out, ran.stopped) == (None, 9, False, "more than 20 processes")
    assert ran.wall_s < 30
    assert not left_below()


# --- which one ------------------------------------------------------------------------------------


def test_a_tier_goes_by_its_name() -> None:
    assert find_sandbox("limits").tier is Tier.LIMITS
    assert find_sandbox(Tier.OUTER).tier is Tier.OUTER
    with pytest.raises(ConfigError) as refused:
        find_sandbox("docker")
    assert str(refused.value) == "There is no sandbox 'docker'. There are: bwrap, namespaces, limits, outer."


def test_without_bubblewrap_nothing_is_run_and_no_other_tier_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for tier in (None, Tier.BWRAP):
        with pytest.raises(SandboxMissing) as refused:
            find_sandbox(tier)
        assert str(refused.value) == (
            "bubblewrap is not installed: there is no bwrap on the PATH. Not running generated code. Options: install "
            "it (apt-get install bubblewrap; dnf install bubblewrap); name the tier 'namespaces', which has no network "
            "either, but can read all of your files; name the tier 'outer', if this is a container or a virtual "
            "machine that holds nothing of value; or name the tier 'limits', which keeps neither your files nor the "
            "network from the code."
        )
    with pytest.raises(SandboxMissing, match="no unshare on the PATH, which is part of util-linux"):
        find_sandbox(Tier.NAMESPACES)


def test_a_kernel_that_forbids_user_namespaces_is_named_with_the_way_out() -> None:
    said = "bwrap: setting up uid map: Permission denied"
    text = why_not("bubblewrap", {"kernel.apparmor_restrict_unprivileged_userns": "1"}, said)
    assert text == (
        "bubblewrap cannot create a user namespace (kernel.apparmor_restrict_unprivileged_userns=1). Not running "
        "generated code. Options: allow it (sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0); name the "
        "tier 'outer', if this is a container or a virtual machine that holds nothing of value; or name the tier "
        "'limits', which keeps neither your files nor the network from the code."
    )
    assert "(bwrap: No permissions to create new namespace)" in why_not(
        "bubblewrap", {}, "bwrap: No permissions to create new namespace"
    )
    masked = why_not("bubblewrap", {}, "bwrap: Can't mount proc on /newroot/proc: Operation not permitted")
    assert masked.startswith("bubblewrap cannot mount a /proc of its own, as inside a container that hides parts of it")


@pytest.mark.parametrize("tier", [Tier.BWRAP, Tier.NAMESPACES])
def test_a_real_kernel_that_forbids_them_is_refused(tier: Tier) -> None:
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("unshare is not installed, which is part of util-linux")
    inside = [unshare, "--user", "--map-root-user", "--mount"]
    if subprocess.run([*inside, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this kernel forbids user namespaces altogether")
    if tier is Tier.BWRAP and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    code = (
        "from etude.mage.sandbox.finding import find_sandbox\n"
        "from etude.core.errors import SandboxMissing\n"
        f"try: find_sandbox({tier.value!r})\nexcept SandboxMissing as error: print(error)"
    )
    script = f'echo 0 > /proc/sys/user/max_user_namespaces && exec {sys.executable} -c "$0"'
    environment = {**os.environ, "PYTHONPATH": str(Path(etude.__file__).parent.parent)}
    done = subprocess.run(
        [*inside, "sh", "-c", script, code], capture_output=True, text=True, env=environment, check=False
    )
    program = "bubblewrap" if tier is Tier.BWRAP else "unshare"
    start = f"{program} cannot create a user namespace (user.max_user_namespaces=0). Not running generated code."
    assert done.stdout.startswith(start), done.stderr


def test_every_tier_says_what_it_lacks() -> None:
    assert {tier: told(tier).split(":")[0] for tier in Tier} == {tier: tier.value for tier in Tier}
    assert "It can still read everything" in told(Tier.NAMESPACES)
    assert "Files and the network are open to it" in told(Tier.LIMITS)
    assert "nothing from us" in told(Tier.OUTER)


# --- output ---------------------------------------------------------------------------------------


@given(st.lists(st.binary(max_size=30)), st.integers(0, 40))
def test_what_is_kept_is_the_beginning_and_the_end(parts: list[bytes], most: int) -> None:
    kept, whole = Kept(most), b"".join(parts)
    for part in parts:
        kept.add(part)
    if len(whole) <= most:
        assert kept.whole() == whole
    else:
        tail = most // 2
        told_in_between = f"\n[... {len(whole) - most:,} bytes are left out ...]\n".encode()
        assert kept.whole() == whole[: most - tail] + told_in_between + whole[len(whole) - tail :]


# --- who runs it ----------------------------------------------------------------------------------


NOBODY = 65534
AS_NOBODY = (
    "import json, os, sys\n"
    "from pathlib import Path\n"
    "from etude.core.errors import SandboxMissing\n"
    "from etude.mage.sandbox.finding import find_sandbox\n"
    "from etude.mage.sandbox.protocol import Job, Limits\n"
    "try: sandbox = find_sandbox(sys.argv[1])\n"
    "except SandboxMissing as error: sys.exit(json.dumps({'missing': str(error)}))\n"
    "script = 'id -u; echo x > file; cat file; cat /etc/shadow ../closed && echo READ; setsid sleep 600 & exit 3'\n"
    "ran = sandbox.run(Job(['sh', '-c', script], Path(sys.argv[2]), environment={'PATH': '/usr/bin:/bin'}))\n"
    "late = sandbox.run(Job(['sleep', '600'], Path(sys.argv[2]), environment={'PATH': '/usr/bin:/bin'},\n"
    "                       limits=Limits(wall_s=1.0)))\n"
    "sys.exit(json.dumps({'as': os.getuid(), 'code': ran.code, 'out': ran.out.decode(), 'late': late.stopped}))\n"
)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="whoever runs this is unprivileged already")
@pytest.mark.parametrize("tier", Tier)
def test_an_unprivileged_user_has_the_same_sandboxes(tier: Tier, left_below: Left) -> None:
    with tempfile.TemporaryDirectory(prefix="etude-") as place:
        os.chmod(place, 0o755)  # tmp_path is root's alone
        folder, source = Path(place, "folder"), Path(place, "source")
        folder.mkdir()
        os.chown(folder, NOBODY, NOBODY)
        (Path(place) / "closed").write_text("root's own")
        (Path(place) / "closed").chmod(0o600)
        shutil.copytree(Path(etude.__file__).parent, source / "etude", ignore=shutil.ignore_patterns("__pycache__"))

        def run(python: str, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [python, "-B", "-c", code, *arguments],
                capture_output=True,
                text=True,
                check=False,
                cwd=place,
                env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(source)},
                user=NOBODY,
                group=NOBODY,
                extra_groups=[],
            )

        def may_run(python: str) -> bool:
            try:
                return run(python, "import sys; sys.exit(sys.version_info < (3, 11))").returncode == 0
            except OSError:
                return False

        python = next(filter(may_run, (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3")), None)
        if python is None:
            pytest.skip(f"no Python 3.11 or later that user {NOBODY} may run: {sys.executable} is root's own")
        done = run(python, AS_NOBODY, tier.value, str(folder))
        try:
            told = json.loads(done.stderr)
        except ValueError:
            pytest.fail(done.stderr)
        if "missing" in told:
            pytest.skip(told["missing"])
        assert told == {"as": NOBODY, "code": 3, "out": f"{NOBODY}\nx\n", "late": "time limit"}
        assert not left_below()
