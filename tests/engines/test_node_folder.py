"""The folder that a node works in goes with the node, if need be with the next one."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from etude.engines.node import folder_of_ours

STAY = "from etude.engines.node import folder_of_ours as f\nwith f() as path:\n    print(path, flush=True)\n    input()"


def test_what_a_killed_node_left_is_removed_and_what_a_living_one_has_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    other = tmp_path / "etude-node-without-a-lock"
    other.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", STAY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as node:
        assert node.stdout is not None
        left = Path(node.stdout.readline().strip())
        (left / "trials").mkdir()
        with folder_of_ours() as first:
            assert left.is_dir()
            node.kill()
            node.wait()
            with folder_of_ours() as second:
                assert sorted(tmp_path.iterdir()) == sorted([first, second, other])
    assert list(tmp_path.iterdir()) == [other]
