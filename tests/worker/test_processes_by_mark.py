"""Processes are found by what they were started with."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys

import pytest

from etude.worker import processes

if sys.platform != "linux":
    pytest.skip("what a process was started with is in /proc", allow_module_level=True)


def test_one_that_has_just_been_started_is_found() -> None:
    mark = secrets.token_hex(8)
    for _ in range(100):
        with subprocess.Popen(["cat"], stdin=subprocess.PIPE, env={**os.environ, "ETUDE_TEST": mark}) as cat:
            assert processes.marked("ETUDE_TEST", mark) == [cat.pid]
            cat.kill()


def test_those_that_have_ended_or_are_the_kernels_are_not_waited_for() -> None:
    with subprocess.Popen(["true"]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        assert processes._environment(ended.pid) == b""
    assert processes._environment(2**22) == b""
