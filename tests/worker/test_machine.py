"""What this machine has: GPUs as the environment or nvidia-smi says, memory as control groups leave it."""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path

import pytest

from etude.system.knobs import catalogue
from etude.system.meters import nvml
from etude.worker import machine
from etude.worker.machine import gpu_memory_mb, gpus, gpus_of, memory_gb, name, this_machine, tunable

TWO_GPUS = """\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-aaaa)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-bbbb)
"""

ONE_OF_THEM_SPLIT = """\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-aaaa)
  MIG 3g.20gb     Device  0: (UUID: MIG-1111)
  MIG 3g.20gb     Device  1: (UUID: MIG-2222)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-bbbb)
"""


def have_nvidia_smi(folder: Path, monkeypatch: pytest.MonkeyPatch, says: str) -> None:
    """Put a program of that name on the path, and let the environment name no GPUs."""
    program = folder / "nvidia-smi"
    program.write_text(f"#!{sys.executable}\n{says}")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.mark.parametrize(
    ("said", "ids"),
    [
        ("0,1,2,3", ("0", "1", "2", "3")),
        (" 2 , 0 ", ("2", "0")),
        ("GPU-8932f937,MIG-GPU-b8ea3855/1/0", ("GPU-8932f937", "MIG-GPU-b8ea3855/1/0")),
        ("1,1", ("1",)),
        ("", ()),
        ("-1", ()),
        ("0,-1,1", ("0",)),
        ("NoDevFiles", ()),
    ],
)
def test_the_environment_says_which_gpus_there_are(
    said: str, ids: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    have_nvidia_smi(tmp_path, monkeypatch, f"print({TWO_GPUS!r})")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", said)
    assert gpus() == ids


@pytest.mark.parametrize(
    ("says", "ids"),
    [
        (f"import sys\nassert sys.argv[1:] == ['-L']\nprint({TWO_GPUS!r})", ("0", "1")),
        (f"print({ONE_OF_THEM_SPLIT!r})", ("MIG-1111", "MIG-2222", "GPU-bbbb")),
        ("print('No devices found.')", ()),
        (f"import sys\nprint({TWO_GPUS!r})\nsys.exit(9)", ()),
        ("import sys\nsys.stdout.buffer.write(bytes([255]))", ()),
    ],
)
def test_else_nvidia_smi_is_asked(
    says: str, ids: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    have_nvidia_smi(tmp_path, monkeypatch, says)
    assert gpus() == ids
    assert this_machine().gpus == ids


TABLE = "0, GPU-aaaa, 40960\n1, GPU-bbbb, 81920\n2, GPU-cccc, [N/A]\n"


@pytest.mark.parametrize(
    ("ids", "sizes"),
    [
        (("0", "1"), {"0": 40960.0, "1": 81920.0}),
        (("GPU-b",), {"GPU-b": 81920.0}),
        (("MIG-2222", "GPU-bbbb"), {"MIG-2222": 20480.0, "GPU-bbbb": 81920.0}),
        (("2", "7"), {"2": 0.0, "7": 0.0}),
        ((), {}),
    ],
)
def test_nvidia_smi_says_how_large_gpus_are(
    ids: tuple[str, ...], sizes: dict[str, float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    have_nvidia_smi(
        tmp_path, monkeypatch, f"import sys\nprint({ONE_OF_THEM_SPLIT!r} if '-L' in sys.argv else {TABLE!r})"
    )
    assert gpu_memory_mb(ids) == sizes


def test_who_waits_for_nvidia_smi_does_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    have_nvidia_smi(tmp_path, monkeypatch, "import signal\nsignal.pause()")
    monkeypatch.setattr(machine, "ANSWER_S", 0.2)
    assert gpus() == ()


def test_where_nobody_says_anything_there_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpus() == ()


@pytest.mark.parametrize(
    ("line", "files", "limit_gb"),
    [
        ("0::/a/b", {"a/b/memory.max": "max", "a/memory.max": f"{2**28}"}, 0.25),
        ("0::/", {"memory.max": f"{2**27}"}, 0.125),
        ("0::/../elsewhere", {"memory.max": f"{2**27}"}, 0.125),
        ("3:cpu,memory:/a", {"memory/a/memory.limit_in_bytes": f"{2**28}"}, 0.25),
        ("3:cpu:/a", {"memory/a/memory.limit_in_bytes": f"{2**28}"}, None),
        ("0::/a", {"a/memory.max": "max"}, None),
        ("0::/a", {}, None),
    ],
)
def test_memory_is_what_the_control_groups_leave_of_it(
    line: str, files: dict[str, str], limit_gb: float | None, tmp_path: Path
) -> None:
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "self" / "cgroup").write_text(f"{line}\n")
    for file, content in files.items():
        (tmp_path / "groups" / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "groups" / file).write_text(content + "\n")
    whole = memory_gb(str(tmp_path / "nowhere"))
    assert whole is not None
    assert memory_gb(str(tmp_path / "proc"), str(tmp_path / "groups")) == (limit_gb or whole)


def test_jobs_with_memory_of_their_own_are_machines_of_their_own(tmp_path: Path) -> None:
    def in_group(group: str) -> str:
        proc = tmp_path / group.replace("/", "-")
        (proc / "self").mkdir(parents=True)
        (proc / "self" / "cgroup").write_text(f"0::{group}\n")
        return name(str(proc), str(tmp_path / "groups"))

    for group in ("job-1", "job-2"):
        (tmp_path / "groups" / group).mkdir(parents=True)
        (tmp_path / "groups" / group / "memory.max").write_text(f"{2**28}\n")
    one, two, other = in_group("/job-1/step"), in_group("/job-2/step"), in_group("/job-1")
    assert one != two
    assert one == other, "the group whose memory they share"
    assert in_group("/elsewhere") == name(str(tmp_path / "nowhere")) == one.removesuffix(":/job-1")


def test_what_can_be_tuned_of_a_trial_has_its_memory_and_the_power_of_its_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "memory_gb", lambda: 12.0)
    monkeypatch.setattr(nvml, "power_limits_w", lambda ids: (100.0, 300.0, 250.0) if ids == ("0",) else None)
    found = tunable(2, ("0",))
    assert (found.cores, found.memory_gb, found.gpus, found.gpu_power_w) == (2, 12.0, ("0",), (100.0, 300.0, 250.0))
    assert tunable(2, ()).gpu_power_w == ()
    knobs = catalogue(dataclasses.replace(found, controllers=("memory",), cgroup=2, may_set_power=True), "torch")
    assert knobs["memory_limit"].values == (None, 6.0, 3.0)
    assert knobs["gpu_power_limit"].values[:2] == (250, 225)


def test_a_training_on_a_gpu_uses_what_it_was_given_or_else_what_it_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert gpus_of(("1",), "cuda") == ("1",)
    assert gpus_of(None, "cuda") == ("0", "1")
    assert gpus_of(None, "cpu") == ()
    assert gpus_of((), "cuda") == ()
