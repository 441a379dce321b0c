"""The record of where a study was started, and the secrets that are not in it."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from etude.store import provenance
from etude.store.provenance import LARGEST_DIFF_BYTES, collect

SECRET = "hush-hush-1234"


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A work tree with one commit and a file ``train.py``."""
    git(tmp_path, "init")
    (tmp_path / "train.py").write_text("lr = 0.1\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "first")
    return tmp_path


def read(folder: Path) -> dict[str, Any]:
    return dict(collect(folder))


def test_the_record_can_be_written_as_json_and_names_machine_python_and_packages(tmp_path: Path) -> None:
    record = json.loads(json.dumps(read(tmp_path)))
    assert set(record) == {
        *("time", "host", "platform", "python", "packages", "hardware", "git", "argv", "environment")
    }
    assert record["time"].endswith("+00:00")
    assert record["python"]["executable"] == Path(sys.executable).name
    assert list(record["packages"]) == sorted(record["packages"])
    assert "hypothesis" in record["packages"]
    assert record["hardware"]["cores"] == os.cpu_count()
    assert record["hardware"]["memory_gb"] > 0


def test_outside_of_a_work_tree_and_without_git_there_is_no_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read(tmp_path)["git"] is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert read(Path.cwd())["git"] is None
    assert read(Path.cwd())["hardware"]["gpus"] == []


def test_a_clean_work_tree_is_named_by_its_commit(project: Path) -> None:
    state = read(project)["git"]
    assert len(state["commit"]) == 40
    assert (state["branch"], state["dirty"], state["diff"], state["remote"]) == ("main", False, "", None)


def test_a_work_tree_before_its_first_commit_can_be_read(tmp_path: Path) -> None:
    git(tmp_path, "init")
    (tmp_path / "new.py").touch()
    state = read(tmp_path)["git"]
    assert (state["commit"], state["branch"], state["dirty"]) == (None, "main", True)


def test_an_edit_is_kept_as_a_diff_and_a_large_one_is_cut(project: Path) -> None:
    (project / "train.py").write_text("lr = 0.2\n")
    state = read(project)["git"]
    assert state["dirty"]
    assert "+lr = 0.2" in state["diff"]
    (project / "train.py").write_text("x" * 2 * LARGEST_DIFF_BYTES)
    state = read(project)["git"]
    assert state["diff_is_cut"]
    assert len(state["diff"]) == LARGEST_DIFF_BYTES


def test_a_secret_of_the_environment_is_nowhere(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_api_key", SECRET)
    monkeypatch.setenv("SIGNING_KEY", "-----BEGIN-----\nfirst-line-of-it\nsecond-line-of-it")
    monkeypatch.setenv("ETUDE_TOKEN", "another-hushed-one")
    monkeypatch.setenv("ETUDE_STORE", f"s3://bucket?{SECRET}")
    monkeypatch.setattr(sys, "argv", ["/home/me/train.py", SECRET, f"--url=x{SECRET}y"])
    git(project, "remote", "add", "origin", f"https://me:{SECRET}@example.org/{SECRET}/repo.git")
    git(project, "checkout", "-b", SECRET)
    (project / "train.py").write_text(f"key = '{SECRET}'\npem = '''\nfirst-line-of-it\nsecond-line-of-it'''\n")
    record = read(project)
    text = json.dumps(record)
    for secret in (SECRET, "first-line-of-it", "second-line-of-it", "another-hushed-one", "me:"):
        assert secret not in text
    assert "ETUDE_TOKEN" not in text
    assert "+key = '***'" in record["git"]["diff"]
    assert record["git"]["remote"] == "https://example.org/***/repo.git"
    assert record["argv"] == ["train.py", "***", "--url=x***y"]
    assert record["environment"]["ETUDE_STORE"] == "s3://bucket?***"


def test_a_secret_on_the_edge_of_the_cut_leaves_no_half(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APP_PASSWORD", SECRET)
    (project / "train.py").write_text(SECRET * (LARGEST_DIFF_BYTES // len(SECRET) + 1))
    assert "hush" not in read(project)["git"]["diff"]


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (["--token", "abc"], ["--token", "***"]),
        (["--token", "-abc"], ["--token", "***"]),
        (["--wandb-api-key=abc"], ["--wandb-api-key=***"]),
        (["password=abc"], ["password=***"]),
        (['{"lr": 1, "secret": "abc"}'], ['{"lr": 1, "secret": ***']),
        (["https://example.org?token=abc"], ["https://example.org?token=***"]),
        (["--dry-run", "--lr", "0.1"], ["--dry-run", "--lr", "0.1"]),
        (["--tokenizer", "bert", "--max-tokens=512"], ["--tokenizer", "bert", "--max-tokens=512"]),
        (["--key", "--lr", "0.1"], ["--key", "--lr", "0.1"]),
        (["https://me:abc@example.org/x"], ["https://***@example.org/x"]),
        (["hf_abcdefghijklmnopqrstuv"], ["***"]),
    ],
)
def test_arguments_are_kept_without_what_their_names_call_secret(
    given: list[str], shown: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py", *given])
    assert read(tmp_path)["argv"] == ["train.py", *shown]


def test_only_listed_variables_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        monkeypatch.delenv(name)
    names = ("OMP_NUM_THREADS", "ETUDE_ENGINE", "ETUDE_PASSPHRASE", "ETUDE_KEYRING", "HOME", "USER")
    for name in names:
        monkeypatch.setenv(name, "1")
    assert read(tmp_path)["environment"] == {"ETUDE_ENGINE": "1", "OMP_NUM_THREADS": "1"}


def test_a_part_that_cannot_be_read_says_so_and_the_others_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr(provenance, "_packages", fail)
    monkeypatch.setattr(platform, "node", fail)
    monkeypatch.setattr(provenance, "_cpu", fail)
    record = read(tmp_path)
    assert record["packages"] == record["host"] == {"error": "OSError: the disk is gone"}
    assert record["hardware"]["cpu"] == {"error": "OSError: the disk is gone"}
    assert record["hardware"]["cores"] == os.cpu_count()
