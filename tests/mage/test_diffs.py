"""Diffs lead from one tree to another and back, and git reads them as we do."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etude.mage.patch.diffs import apply_diff, diff_of, files_of, read_diff, reversed_diff
from etude.mage.patch.refusals import PatchRefused
from etude.mage.tree import Tree

LINES = st.sampled_from(
    [
        *(
            "a\n",
            "b\n",
            "c\n",
            "\n",
            "  a\n",
            "a \n",
            "\ta\n",
            "a\r\n",
            "\r",
            "é\n",
            "- x\n",
            "+ y\n",
            "\\ No newline\n",
        ),
        *("diff --git a/x b/x\n", "@@ -1 +1 @@\n", "--- a/x\n", "\ufeffa\n", "\x0c\n", "\u2028\n", "z"),
    ]
)
CONTENTS = st.lists(LINES, max_size=25).map(lambda lines: "".join(lines).encode())
PATHS = st.sampled_from(["a.py", "b/c.py", "with space.py", "é.py", 'quo"te.py', "tab\there", "x b/x", "back\\slash"])
TREES = st.dictionaries(PATHS, CONTENTS, max_size=4).map(Tree)


@settings(max_examples=200)
@given(TREES, TREES)
def test_a_diff_leads_from_one_tree_to_the_other_and_back(base: Tree, new: Tree) -> None:
    diff = diff_of(base, new)
    assert apply_diff(base, diff) == new
    assert apply_diff(new, reversed_diff(diff)) == base
    assert reversed_diff(reversed_diff(diff)) == diff
    assert files_of(diff) == tuple(
        sorted(path for path in {*base, *new} if base.files.get(path) != new.files.get(path))
    )


@given(TREES)
def test_an_empty_diff_changes_no_byte(tree: Tree) -> None:
    assert diff_of(tree, tree) == ""
    assert apply_diff(tree, "") == tree


@given(TREES, TREES, TREES)
def test_a_diff_of_another_base_is_refused_or_means_the_same(base: Tree, new: Tree, other: Tree) -> None:
    diff = diff_of(base, new)
    try:
        found = apply_diff(other, diff)
    except PatchRefused:
        return
    # It fitted, so it took away exactly what it says, and the way back is there.
    assert apply_diff(found, reversed_diff(diff)) == other


def write(tree: Tree, folder: Path) -> None:
    """Write a tree into a folder."""
    for path, content in tree.files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)


def read(folder: Path) -> Tree:
    """Read a folder, without git's own."""
    paths = [path for path in folder.rglob("*") if path.is_file() and ".git" not in path.relative_to(folder).parts]
    return Tree({path.relative_to(folder).as_posix(): path.read_bytes() for path in paths})


def git(folder: Path, *args: str, given: bytes = b"") -> bytes:
    """Run git apart from anybody's settings."""
    environment = {"PATH": "/usr/bin:/bin", "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(folder), "LC_ALL": "C.UTF-8"}
    return subprocess.run(
        ["git", *args], cwd=folder, input=given, capture_output=True, check=True, env=environment
    ).stdout


OLD = Tree(
    {
        "plain.py": b"".join(b"line %d\n" % n for n in range(40)),
        "unended.py": b"a\nb",
        "ended.py": b"a\nb\n",
        "crlf.py": b"a\r\nb\r\nc\r\n",
        "gone.py": b"x\ny\n",
        "empty.py": b"",
        "folder/with space.py": "é\n".encode(),
        'é "q".py': b"x\n",
        "bom.py": "\ufeffx = 1\n".encode(),
        "same.py": b"same\n",
        "filled.py": b"",
        "emptied.py": b"x\n",
    }
)
NEW = OLD.with_files(
    {
        "plain.py": OLD.files["plain.py"].replace(b"line 3\n", b"").replace(b"line 30\n", b"line 30\nmore\n"),
        "unended.py": b"a\nc",
        "ended.py": b"a\nb",
        "crlf.py": b"a\r\nB\r\nc\r\n",
        "gone.py": None,
        "empty.py": None,
        "new.py": b"x\n",
        "new empty.py": b"",
        "deep/er/new.py": b"unended",
        "folder/with space.py": "é\nü\n".encode(),
        'é "q".py': b"y\n",
        "bom.py": "\ufeffx = 2\n".encode(),
        "filled.py": b"x\n",
        "emptied.py": b"",
    }
)


def test_git_applies_our_diffs_and_takes_them_back(tmp_path: Path) -> None:
    write(OLD, tmp_path)
    git(tmp_path, "init", "-q")
    diff = diff_of(OLD, NEW).encode()
    git(tmp_path, "apply", "--check", "-", given=diff)
    git(tmp_path, "apply", "-", given=diff)
    assert read(tmp_path) == NEW
    git(tmp_path, "apply", "-R", "-", given=diff)
    assert read(tmp_path) == OLD
    git(tmp_path, "apply", "-", given=diff)
    git(tmp_path, "apply", "-", given=reversed_diff(diff.decode()).encode())
    assert read(tmp_path) == OLD


def test_our_diff_is_git_s_own_but_for_hashes_and_headings(tmp_path: Path) -> None:
    write(OLD, tmp_path)
    git(tmp_path, "init", "-q")
    git(tmp_path, "config", "core.autocrlf", "false")
    git(tmp_path, "add", "-A")
    for path in OLD:
        if path not in NEW:
            (tmp_path / path).unlink()
    write(NEW, tmp_path)
    git(tmp_path, "add", "-N", *(path for path in NEW if path not in OLD))
    theirs = git(tmp_path, "diff", "--no-renames").decode().split("\n")
    kept = [line for line in theirs if not line.startswith("index ")]
    kept = [line.partition(" @@")[0] + " @@" if line.startswith("@@ ") else line for line in kept]
    assert sorted(diff_of(OLD, NEW).split("\n")) == sorted(kept)


def test_a_changed_diff_is_refused() -> None:
    diff = diff_of(OLD, NEW)
    for damaged, why in [
        (diff.replace("-line 3\n", "-line 5\n"), "does not fit plain.py"),
        (diff.replace("@@ -1,7", "@@ -2,7"), "does not fit plain.py"),
        (diff[:-1], "is cut off"),
        (diff.replace("@@ -1,7 +1,6 @@", "@@ -1,70 +1,69 @@"), "cannot be read"),
        (f"garbage\n{diff}", "cannot be read"),
        (diff.replace("+++ b/plain.py\n", ""), "cannot be read"),
        (diff + diff, "does not fit"),
    ]:
        with pytest.raises(PatchRefused, match=why):
            apply_diff(OLD, damaged)


def test_a_file_that_is_no_text_is_refused_and_one_that_stays_is_not_looked_at() -> None:
    base = Tree({"image.png": b"\x89PNG\0", "latin.py": "é".encode("latin-1"), "a.py": b"x\n"})
    assert "a.py" in diff_of(base, base.with_files({"a.py": b"y\n"}))
    with pytest.raises(PatchRefused, match=r"image\.png holds a zero byte"):
        diff_of(base, base.with_files({"image.png": b"other\0"}))
    with pytest.raises(PatchRefused, match=r"latin\.py is no UTF-8 \(byte 0\)"):
        diff_of(base, base.with_files({"latin.py": b"e"}))


def test_lines_are_told_with_their_numbers() -> None:
    (one,) = [one for one in read_diff(diff_of(OLD, NEW)) if one.path == "plain.py"]
    assert one.numbered("-") == [(4, "line 3\n")]
    assert one.numbered("+") == [(31, "more\n")]
