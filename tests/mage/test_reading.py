"""What of a project is read, what would be sent, and what is left out of both."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from marked_programs import CNN, tree_of

from etude.core.errors import ConfigError
from etude.mage.annotations import Annotation, Mark
from etude.mage.plan.marking import find_marks
from etude.mage.sources.choosing import choose
from etude.mage.sources.columns import columns_of_data
from etude.mage.sources.entry import entry_file
from etude.mage.sources.importing import imports_of
from etude.mage.sources.reading import Reading, read_tree
from etude.mage.tree import Tree


def write(root: Path, **files: str | bytes) -> None:
    """Write files; ``__`` in a name is a slash, and ``_dot_`` a dot."""
    for name, content in files.items():
        path = root / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def why(reading: Reading) -> dict[str, str]:
    """Return what was left out, and why."""
    return {one.path: one.why for one in reading.left_out}


def git(root: Path, *arguments: str) -> None:
    """Run git there, without anybody's settings."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(root), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", *arguments], cwd=root, env=environment, check=True, capture_output=True)


needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git to ask")

# --- what is read ---------------------------------------------------------------------------------


def test_texts_of_a_program_are_read_and_all_else_is_told(tmp_path: Path) -> None:
    write(
        tmp_path,
        train_dot_py="x = 1\n",
        pkg__model_dot_py="y = 'ä'\n",
        conf__base_dot_yaml="lr: 0.1\n",
        README_dot_md="# What\n",
        run_dot_sh="python train.py\n",
        study_dot_ipynb="{}",
        data_dot_csv="a,b\n1,2\n",
        weights_dot_pt=b"\0\1",
        big_dot_json='{"a": "' + "x" * 30_000 + '"}',
        latin_dot_py=b"x = '\xe4'\n",
        null_dot_py=b"x = '\0'\n",
    )
    reading = read_tree(tmp_path)
    assert list(reading.tree) == ["README.md", "conf/base.yaml", "pkg/model.py", "run.sh", "train.py"]
    assert reading.tree.text("pkg/model.py") == "y = 'ä'\n"
    assert why(reading) == {
        "big.json": "30,009 bytes, more than the 20,000 of .json files that are no data",
        "data.csv": "no text that a program is made of (.csv)",
        "latin.py": "no UTF-8",
        "null.py": "no text: it has null bytes",
        "study.ipynb": "a notebook, which holds results",
        "weights.pt": "no text that a program is made of (.pt)",
    }


@pytest.mark.parametrize(
    "name",
    [
        ".env",
        ".env.local",
        "secrets.yaml",
        "aws-credentials.json",
        "id_rsa",
        "token.txt",
        "api_key.txt",
        "server.pem",
        "secrets.py",
    ],
)
def test_names_of_keys_are_never_read(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("KEY=1\n")
    reading = read_tree(tmp_path)
    assert list(reading.tree) == []
    assert why(reading)[name] == "may hold keys or passwords, by its name"


@pytest.mark.parametrize("name", ["tokenizer.py", "keys.py", "passing.py", "secretary.md"])
def test_names_that_only_look_alike_are_read(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("x = 1\n")
    assert list(read_tree(tmp_path).tree) == [name]


@pytest.mark.parametrize(
    "text",
    [
        "key = 'sk-ant-" + "a1B2" * 12 + "'",
        "AKIA" + "ABCD" * 4,
        "-----BEGIN " + "PRIVATE KEY-----",
        "token = 'hf_" + "aB3" * 12 + "'",
        "ghp_" + "a1" * 18,
    ],
)
def test_a_file_with_a_key_in_it_is_not_read(tmp_path: Path, text: str) -> None:
    write(tmp_path, train_dot_py=text)
    assert why(read_tree(tmp_path)) == {"train.py": "holds what looks like a key"}


def test_a_folder_that_is_called_like_keys_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "notes.md").write_text("the safe opens with 31\n")
    assert why(read_tree(tmp_path)) == {"secrets/": "may hold keys or passwords, by its name"}


def test_names_that_nobody_sees_are_left_out_and_spelled_out(tmp_path: Path) -> None:
    for name in (b"a\n- b.py", b"\x1b[2J.py", "\u202e.py".encode(), b"\xff.py", "\u00e4.py".encode()):
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_text("x = 1\n")
    reading = read_tree(tmp_path)
    assert list(reading.tree) == ["\u00e4.py"]
    assert sorted(why(reading)) == ["\\u202e.py", "\\udcff.py", "\\x1b[2J.py", "a\\n- b.py"]
    assert set(why(reading).values()) == {"its name has a character that nobody sees"}


def test_the_file_of_the_metric_is_a_result_and_no_source(tmp_path: Path) -> None:
    write(tmp_path, train_dot_py="x = 1\n")
    before = read_tree(tmp_path, metric="metrics.json:accuracy").tree
    (tmp_path / "metrics.json").write_text('{"accuracy": 0.5}')
    after = read_tree(tmp_path, metric="metrics.json:accuracy")
    assert after.tree.digest == before.digest
    assert why(after) == {"metrics.json": "the program writes its metric there"}
    assert "metrics.json" in read_tree(tmp_path, metric="accuracy").tree  # that one is printed


def test_folders_that_are_not_the_projects_own_are_told_as_one(tmp_path: Path) -> None:
    for folder in (".git", "venv", "myenv", "__pycache__", "node_modules", "sub", "env"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.py").write_text("x = 1\n")
    (tmp_path / "myenv" / "pyvenv.cfg").write_text("")
    (tmp_path / "sub" / ".git").write_text("gitdir: elsewhere\n")
    reading = read_tree(tmp_path)
    assert list(reading.tree) == ["env/a.py"]  # a folder of environments of reinforcement learning
    assert why(reading) == {
        ".git/": "a hidden folder",
        "__pycache__/": "a cache",
        "myenv/": "a virtual environment",
        "node_modules/": "packages",
        "sub/": "a repository of its own",
        "venv/": "a virtual environment",
    }


def test_symbolic_links_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.py").write_text("x = 1\n")
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.py").write_text("x = 1\n")
    (root / "b.py").symlink_to(outside / "secret.py")
    (root / "c").symlink_to(outside)
    (root / "d.py").symlink_to("a.py")
    (root / "e.py").symlink_to("e.py")
    os.mkfifo(root / "f.py")
    reading = read_tree(root)
    assert list(reading.tree) == ["a.py"]
    assert why(reading) == {
        "b.py": "a symbolic link out of the project",
        "c": "a symbolic link out of the project",
        "d.py": "a symbolic link; what it leads to is read where it is",
        "e.py": "a symbolic link that leads nowhere",
        "f.py": "no ordinary file",
    }


def test_many_files_of_one_kind_are_told_as_one(tmp_path: Path) -> None:
    for n in range(30):
        write(tmp_path, **{f"images__{n}_dot_png": b"\x89"})
    assert [str(one) for one in read_tree(tmp_path).left_out] == [
        "images/ (30 files): no text that a program is made of (.png)"
    ]


@needs_git
def test_what_git_ignores_is_left_out(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    write(tmp_path, a_dot_py="x = 1\n", old_dot_py="x = 2\n", runs__b_dot_py="x = 3\n", pkg__gen_dot_py="x = 4\n")
    (tmp_path / ".gitignore").write_text("old.py\nruns/\ngen.py\n")
    reading = read_tree(tmp_path)
    assert list(reading.tree) == ["a.py"]
    told = why(reading)
    assert {path: told[path] for path in ("old.py", "runs/")} == dict.fromkeys(("old.py", "runs/"), "git ignores it")
    assert "git ignores it" in (told.get("pkg/"), told.get("pkg/gen.py"))


@needs_git
def test_a_repositorys_own_settings_start_no_program(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    git(tmp_path, "config", "core.fsmonitor", f"touch {tmp_path}/was_run; false")
    write(tmp_path, a_dot_py="x = 1\n")
    assert list(read_tree(tmp_path).tree) == ["a.py"]
    assert not (tmp_path / "was_run").exists()


def test_without_git_the_folder_is_walked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    write(tmp_path, a_dot_py="x = 1\n", _dot_gitignore="a.py\n")
    assert list(read_tree(tmp_path).tree) == ["a.py"]


def test_a_folder_that_is_none_or_too_large_is_refused(tmp_path: Path) -> None:
    write(tmp_path, a_dot_py="x = 1\n", b_dot_py="x = 1\n")
    with pytest.raises(ConfigError) as refused:
        read_tree(tmp_path / "nowhere")
    assert str(refused.value) == (
        f"{tmp_path}/nowhere does not exist, and it takes the folder of a project. Pass the project's folder."
    )
    with pytest.raises(ConfigError) as refused:
        read_tree(tmp_path / "a.py")
    assert str(refused.value) == (
        f"{tmp_path}/a.py is a file, and it takes the folder of a project. Pass its folder, and entry='a.py'."
    )
    with pytest.raises(ConfigError, match="has more than 1 text files"):
        read_tree(tmp_path, most_files=1)


# --- the entry ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "file"),
    [
        ("train.py", "train.py"),
        ("./train.py", "train.py"),
        ("train.py:experiment", "train.py"),
        ("python train.py --seed {seed}", "train.py"),
        ("python3 -u pkg/run.py --out 'a b'", "pkg/run.py"),
        ("python -m pkg.run", "pkg/run.py"),
        ("python -m pkg", "pkg/__main__.py"),
        ("python -m torch.distributed.run --nproc 2 train.py", "train.py"),
        ("torchrun --standalone train.py", "train.py"),
    ],
)
def test_an_entry_names_its_file(entry: str, file: str) -> None:
    tree = tree_of(train="", pkg__run="").with_files({"pkg/__main__.py": b""})
    assert entry_file(entry, tree) == file


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("", "entry='' is empty: nothing says how the program is run. Pass entry='train.py', or a command."),
        (
            "python trian.py",
            "entry='python trian.py' begins with 'trian.py', which is not among the project's files. Did "
            "you mean `train.py`?",
        ),
        (
            "run.py",
            "entry='run.py' begins with 'run.py', which is not among the project's files. Did you mean `pkg/run.py`?",
        ),
        (
            "zzzzzzzzz.py",
            "entry='zzzzzzzzz.py' begins with 'zzzzzzzzz.py', which is not among the project's files. "
            "There are `pkg/run.py`, `train.py`.",
        ),
        (
            "make all",
            "entry='make all' names no Python file, so it is not known where the program begins. Pass a file such as "
            "'train.py', 'train.py:experiment', or a command such as 'python train.py --seed {seed}'.",
        ),
        ("python 'a", 'entry="python \'a" cannot be taken apart: No closing quotation. Close the quote.'),
    ],
)
def test_an_entry_that_cannot_be_is_refused_with_the_mend(entry: str, told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        entry_file(entry, tree_of(train="", pkg__run=""))
    assert str(refused.value) == told


def test_an_entry_that_is_left_out_is_refused_with_the_reason(tmp_path: Path) -> None:
    write(tmp_path, venv__train_dot_py="x = 1\n", a_dot_py="x = 1\n")
    with pytest.raises(ConfigError) as refused:
        read_tree(tmp_path, entry="python venv/train.py")
    assert str(refused.value) == (
        "entry='python venv/train.py' begins with a file that is left out: venv/: a virtual environment. "
        "Only files that "
        "may be read can be changed and run. Move it, or stop ignoring it."
    )
    assert read_tree(tmp_path, entry="a.py").tree.files["a.py"] == b"x = 1\n"


# --- imports and what would be sent ---------------------------------------------------------------


def test_imports_are_followed_absolute_relative_and_by_text() -> None:
    tree = tree_of(
        train="import pkg.models.cnn\nfrom utils import seed\nimport numpy\nimportlib.import_module('plugins.extra')\n",
        utils="",
        plugins__extra="",
        pkg__models__cnn="from . import parts\nfrom ..data import load\nfrom ... import beyond\n"
        "from .parts import Block\n",
        pkg__models__parts="",
        pkg__data="from .models import cnn\n",
        scripts__run="from helper import go\nfrom pkg import data\n",
        scripts__helper="",
    )
    tree = tree.with_files({"pkg/__init__.py": b"", "pkg/models/__init__.py": b""})
    found = imports_of(tree)
    assert set(found["train.py"]) == {
        "pkg/__init__.py",
        "pkg/models/__init__.py",
        "pkg/models/cnn.py",
        "utils.py",
        "plugins/extra.py",
    }
    assert set(found["pkg/models/cnn.py"]) == {"pkg/models/__init__.py", "pkg/models/parts.py", "pkg/data.py"}
    assert set(found["pkg/data.py"]) == {"pkg/models/__init__.py", "pkg/models/cnn.py"}
    assert set(found["scripts/run.py"]) == {"scripts/helper.py", "pkg/__init__.py", "pkg/data.py"}


def test_what_is_near_is_sent_and_all_else_is_listed() -> None:
    tree = tree_of(
        train="from model import Net\nimport hydra\n\n@hydra.main(config_name='base')\ndef main(cfg):\n"
        "    open('conf/data.json')\n",
        model="from layers import Block\nx = f()  # ABLATABLE_COMPONENT\n",
        layers="import deep\n",
        deep="",
        evaluate="from model import Net\n",
        plot="import matplotlib\n",
        conf__base_yaml="lr: 0.1\n",
        conf__data_json="{}\n",
        conf__other_yaml="lr: 1\n",
    )
    annotations, _ = find_marks(tree)
    chosen = choose(tree, annotations, "python train.py --config conf/base.yaml")
    assert chosen.sent == (
        "train.py",
        "model.py",
        "layers.py",
        "evaluate.py",
        "conf/base.yaml",
        "conf/data.json",
        "deep.py",
    )
    assert [one.path for one in chosen.left_out] == ["conf/other.yaml", "plot.py"]
    assert chosen.bytes == sum(len(tree.files[path]) for path in chosen.sent)


def test_what_passes_the_limit_is_left_out_and_said() -> None:
    tree = tree_of(train="import large\nimport small\n", large="x = 1\n" * 50, small="y = 1\n")
    chosen = choose(tree, [], "train.py", most_bytes=100)
    assert chosen.sent == ("train.py", "small.py")
    assert [str(one) for one in chosen.left_out] == ["large.py: 300 bytes, which would pass the limit of 100"]


def test_what_has_to_be_sent_and_does_not_fit_is_refused() -> None:
    tree = tree_of(train=CNN)
    with pytest.raises(ConfigError) as refused:
        choose(tree, [], "train.py", most_bytes=100)
    assert str(refused.value) == (
        f"What is marked and the entry have {len(CNN.encode()):,} bytes (train.py), and most_bytes=100 may be sent. "
        "Nothing of them can be left out. Mark fewer files, split them, or raise the limit."
    )


def test_marks_of_files_that_are_no_longer_there_count_nothing() -> None:
    gone = Annotation(mark=Mark.HINT, file="gone.py", lines=(1, 2))
    assert choose(tree_of(train=""), [gone], "train.py").sent == ("train.py",)


def test_a_repository_of_150_files_is_read_and_chosen_of(tmp_path: Path) -> None:
    for n in range(150):
        body = f"from pkg.m{(n * 7 + 1) % 150} import f as g\n" if n % 3 else ""
        write(tmp_path, **{f"pkg__m{n}_dot_py": body + CNN})
    write(tmp_path, train_dot_py="from pkg.m1 import f\n")
    reading = read_tree(tmp_path, entry="train.py")
    annotations, _ = find_marks(reading.tree)
    assert len(annotations) == 300
    chosen = choose(reading.tree, annotations[:2], "train.py", most_bytes=20_000)
    assert chosen.sent[0] == "train.py"
    assert chosen.bytes <= 20_000
    assert len(chosen.sent) + len(chosen.left_out) == 151


def test_a_tree_is_what_was_read_at_one_moment(tmp_path: Path) -> None:
    write(tmp_path, a_dot_py="x = 1\r\n")
    reading = read_tree(tmp_path)
    (tmp_path / "a.py").write_text("x = 2\n")
    assert reading.tree.files == {"a.py": b"x = 1\r\n"}
    assert reading.tree.digest == Tree({"a.py": b"x = 1\r\n"}).digest


# --- columns --------------------------------------------------------------------------------------


def test_of_a_table_only_its_first_line_is_read_and_only_inside_the_project(tmp_path: Path) -> None:
    root = tmp_path / "project"
    write(root, data__a_dot_csv=b'\xef\xbb\xbfage,"fare, in pounds"\r\n1,2\r\n', b_dot_tsv="x\ty\n")
    write(tmp_path, outside_dot_csv="secret\n")
    (root / "link.csv").symlink_to(tmp_path / "outside.csv")
    source = (
        "import pandas as pd\npd.read_csv('data/a.csv')\npd.read_csv('b.tsv', sep='\\t')\n"
        "pd.read_csv('../outside.csv')\n"
        "pd.read_csv('link.csv')\npd.read_csv('none.csv')\npd.read_csv(path)\npd.read_csv(path, names=['z'])\n"
    )
    assert columns_of_data(root, tree_of(train=source)) == ("age", "fare, in pounds", "x", "y", "z")
