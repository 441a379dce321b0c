"""The definition of a study: what is read, what changes its digest, and what does not."""

import functools
import hashlib
import json
import linecache
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from etude.definition import Code, difference, read_code, source_line, where_is
from etude.definition.meaning import bytecode

SCALE = 2
HELD = open(os.devnull)  # noqa: SIM115 - a global that no text can stand for
HELD.close()


@dataclass
class Told:
    """What a script says about its own functions."""

    digest: str
    parts: dict[str, str]
    packages: dict[str, str]
    preload: list[str]
    unseen: list[str]
    files: dict[str, str] = field(repr=False, compare=False)  # by absolute path


TELL = """
if __name__ == "__main__":
    import json
    from etude.definition import read_code
    code = read_code({"train": train})
    print(json.dumps([code.digest, dict(code.parts), dict(code.packages), code.preload, code.unseen, dict(code.files)]))
"""


def told_by(folder: Path, script: str, *, hash_seed: str = "0", **modules: str) -> Told:
    """Run a script that defines ``train`` beside its ``modules``, and return what it depends on."""
    folder.mkdir(exist_ok=True)
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(text))
    (folder / "script.py").write_text(textwrap.dedent(script) + TELL)
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Told(*json.loads(done.stdout))


def notebook(text: str, cell: str = "<cell-1>", **names: Any) -> dict[str, Any]:
    """Run a cell the way notebooks do: its text is known to linecache, and no file holds it."""
    text = textwrap.dedent(text)
    linecache.cache[cell] = (len(text), None, text.splitlines(keepends=True), cell)
    scope = {"__name__": "__main__", **names}
    exec(compile(text, cell, "exec"), scope)
    return scope


def digest(function: Callable[..., Any]) -> str:
    return read_code({"train": function}).digest


SCRIPT = """
    import enum
    from pathlib import Path
    from helpers import loss

    class Kind(enum.Enum):
        SMALL = "small"

    NAMES = {"b", "a", "c", "e", "d"}
    FOLDER = Path("data")

    def scale(x):
        return loss(x), Kind.SMALL, FOLDER

    def train(lr=0.1):
        return scale(lr), NAMES
"""
HELPERS = "from deeper import base\n\ndef loss(x):\n    return base(x)\n"
DEEPER = "def base(x):\n    return x + 1\n"


def test_the_digest_is_the_same_in_every_process_folder_and_hash_seed(tmp_path: Path) -> None:
    told = [told_by(tmp_path / name, SCRIPT, hash_seed=name, helpers=HELPERS, deeper=DEEPER) for name in ("1", "2")]
    assert told[0] == told[1]
    assert told[0].unseen == []
    assert str(tmp_path) not in str(told[0])


def test_a_script_is_read_by_name_and_its_project_modules_whole(tmp_path: Path) -> None:
    told = told_by(tmp_path, SCRIPT, helpers=HELPERS, deeper=DEEPER)
    assert told.parts["module helpers"] == HELPERS
    assert told.parts["module deeper"] == DEEPER
    assert told.parts["function scale"] == "def scale(x):\n    return loss(x), Kind.SMALL, FOLDER\n"
    assert told.parts["class Kind"] == 'class Kind(enum.Enum):\n    SMALL = "small"\n'
    assert told.parts["global NAMES"] == "set('a', 'b', 'c', 'd', 'e')"
    assert told.parts["global FOLDER"] == "Path('data')"
    assert told.parts["default lr of function train"] == "0.1"
    assert told.parts["train"] == "function train"


def test_an_edited_module_changes_the_digest_and_a_comment_in_it_does_not(tmp_path: Path) -> None:
    before = told_by(tmp_path / "before", SCRIPT, helpers=HELPERS, deeper=DEEPER)
    edited = told_by(tmp_path / "edited", SCRIPT, helpers=HELPERS, deeper=DEEPER.replace("1", "2"))
    remark = '"""Deep."""\n# very deep\n' + DEEPER.replace(":\n", ':\n\n    """Add."""\n')
    remarked = told_by(tmp_path / "remarked", SCRIPT, helpers=HELPERS, deeper=remark)
    assert edited.digest != before.digest
    assert remarked.digest == before.digest
    assert difference(before.parts, remarked.parts) == ""
    assert "module deeper:" in difference(before.parts, edited.parts)


def test_imports_inside_functions_count_without_being_carried_out(tmp_path: Path) -> None:
    script = """
        def train():
            import numpy.linalg
            from numpy import random
            from inner import f
            import not_there
    """
    told = told_by(tmp_path, script, inner="raise SystemExit('imported')")
    assert list(told.packages) == ["numpy"]
    assert told.preload == ["numpy", "numpy.linalg", "numpy.random"]
    assert "module inner" in told.parts
    assert told.unseen == ["module not_there cannot be found and is not part of the identity"]


def test_relative_imports_are_followed_with_the_packages_around_them(tmp_path: Path) -> None:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("START = 1\n")
    (tmp_path / "pack" / "near.py").write_text("from . import far\n")
    (tmp_path / "pack" / "far.py").write_text("END = 1\n")
    told = told_by(tmp_path, "import pack.near\n\ndef train():\n    return pack.near.far\n")
    assert {"module pack", "module pack.near", "module pack.far"} < set(told.parts)


def test_installed_packages_count_by_version_and_their_public_modules_are_preloaded() -> None:
    scope = notebook(
        """
        import numpy as np
        from numpy.linalg import norm
        import json
        def train():
            return np.mean(norm([1])), np.fft.fft, json.dumps
        """
    )
    code = read_code({"train": scope["train"]})
    assert list(code.packages) == ["numpy"]
    assert code.preload == ("numpy", "numpy.fft", "numpy.linalg")
    assert code.unseen == ()


def test_a_distribution_with_another_name_than_its_package_is_found() -> None:
    scope = notebook("def train():\n    import sklearn.datasets\n")
    code = read_code({"train": scope["train"]})
    assert code.packages["sklearn"][0].isdigit()
    assert code.preload == ("sklearn.datasets",)


def test_the_small_global_that_a_function_reads_counts_by_value() -> None:
    text = "def train():\n    return helper()\ndef helper():\n    return SIZE\n"
    one, two, same = (notebook(text, SIZE=size, OTHER=size)["train"] for size in (1, 2, 1))
    assert digest(one) != digest(two)
    assert digest(one) == digest(same)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("1", "1.0"),
        ("0.0", "-0.0"),
        ("'a'", "'b'"),
        ("'1'", "1"),
        ("[1, 2]", "(1, 2)"),
        ("{'a': {1, 2}}", "{'a': {1, 3}}"),
        ("re.compile('a')", "re.compile('a', re.I)"),
        ("functools.partial(max, 1)", "functools.partial(max, 2)"),
        ("functools.partial(max, 1)", "functools.partial(min, 1)"),
        ("Scale(1)", "Scale(2)"),
        ("Scale(1).apply", "Scale(2).apply"),
        ("Slotted(1)", "Slotted(2)"),
        ("[lambda x: x + 1]", "[lambda x: x + 2]"),
        ("{'f': math.sin}", "{'f': math.cos}"),
    ],
)
def test_values_that_differ_have_different_digests(one: str, two: str) -> None:
    text = """
        import functools, math, re
        class Scale:
            def __init__(self, by): self.by = by
            def apply(self, x): return x * self.by
        class Slotted:
            __slots__ = ("by",)
            def __init__(self, by): self.by = by
        VALUE = ...
        def train():
            return VALUE
    """
    codes = [read_code({"train": notebook(text.replace("...", value))["train"]}) for value in (one, two, one)]
    assert codes[0].digest != codes[1].digest
    assert codes[0].digest == codes[2].digest
    assert {code.unseen for code in codes} == {()}


def test_what_cannot_be_read_is_named_and_counts_by_its_type() -> None:
    text = "def train():\n    return table, handle, rng, both\n"
    import random

    import numpy as np

    rng = random.Random(0)
    held: dict[str, Any] = {"table": np.zeros(3), "handle": HELD, "rng": rng, "both": [1, HELD]}
    code = read_code({"train": notebook(text, **held)["train"]})
    assert code.parts["global table"] == "numpy.ndarray"
    assert code.unseen == (
        "global `both` (list holding _io.TextIOWrapper) is not part of the identity",
        "global `handle` (_io.TextIOWrapper) is not part of the identity",
        "global `rng` (random.Random) is not part of the identity",
        "global `table` (numpy.ndarray) is not part of the identity",
    )


def test_a_large_or_endless_global_is_no_trouble() -> None:
    endless: list[Any] = [1]
    endless.append(endless)
    held: dict[str, Any] = {"large": [0] * 20_000, "nested": [[0] * 9_000] * 9_000, "endless": endless}
    code = read_code({"train": notebook("def train():\n    large, nested, endless\n", **held)["train"]})
    assert code.parts["global endless"] == "[1, ...]"
    assert len(code.unseen) == 2


def test_closures_count_by_value_also_those_made_in_another_module(tmp_path: Path) -> None:
    def make(width: int) -> Callable[[], int]:
        return lambda: width

    assert digest(make(1)) != digest(make(2))
    assert digest(make(1)) == digest(make(1))
    factory = "def make(width):\n    def train():\n        return width\n    return train\n"
    script = "from factory import make\ntrain = make(3)\n"
    told = told_by(tmp_path, script, factory=factory)
    assert told.parts["closure value width of function make.train"] == "3"


def test_partials_count_with_their_function_and_arguments() -> None:
    def train(lr: float) -> float:
        return lr * SCALE

    code = read_code({"train": functools.partial(train, lr=0.1)})
    name = train.__qualname__.replace("<locals>.", "")
    assert code.parts["train"] == f"partial(function {name}, (), {{'lr': 0.1}})"
    assert code.parts["global SCALE"] == "2"
    assert digest(functools.partial(train, lr=0.1)) != digest(functools.partial(train, lr=0.2))


def test_a_decorated_function_counts_with_its_decorator() -> None:
    text = """
        import functools
        def twice(f):
            @functools.wraps(f)
            def wrapper(*args):
                return f(*args) * 2
            return wrapper
        @twice
        def train(): return inner()
        @functools.lru_cache
        def inner(): return 1
    """
    before = digest(notebook(text)["train"])
    assert digest(notebook(text.replace("* 2", "* 3"))["train"]) != before
    assert digest(notebook(text.replace("return 1", "return 9"))["train"]) != before
    assert digest(notebook(text.replace("return 1", "return 1  # one"))["train"]) == before


def test_a_notebook_cell_is_read_and_other_cells_are_free_to_change() -> None:
    net = "class Net:\n    def size(self): return {0}\n"
    cell = f"{net}def train(): return Net().size()\ndef other(): return {{1}}\n"
    before = notebook(cell.format(1, 1))["train"]
    code = read_code({"train": before})
    assert code.parts["class Net"] == "class Net:\n    def size(self): return 1\n"
    assert digest(notebook(cell.format(1, 2))["train"]) == code.digest
    assert digest(notebook(cell.format(2, 1))["train"]) != code.digest


def test_lambdas_of_one_line_are_told_apart() -> None:
    scope = notebook("one, two = lambda x: x + 1, lambda x: x + 2\n")
    assert read_code({"train": scope["two"]}).parts["function <lambda>"] == "lambda x: x + 2\n"


EDITED = """\
import functools
import helpers

def other():
    return 7

def train():
    return helpers.loss(other()) + Net().size()

class Net:
    def size(self):
        return 2

from pathlib import Path

def edit(name, old, new):
    file = Path(__file__).with_name(name)
    file.write_text(file.read_text().replace(old, new))

"""
OWN_HELPERS = "LIMIT = 1\n\ndef loss(x):\n    return x + 1\n"


def edited(folder: Path, name: str, old: str, new: str) -> Told:
    """Return what a script depends on that was edited while it ran, before anything was read."""
    return told_by(folder, f"{EDITED}edit({name!r}, {old!r}, {new!r})\n", helpers=OWN_HELPERS)


def test_an_edit_elsewhere_in_a_running_script_changes_nothing(tmp_path: Path) -> None:
    before = told_by(tmp_path / "before", EDITED, helpers=OWN_HELPERS)
    # Another `train` and another `Net`, where those that run stood when they were loaded.
    decoy = (
        "class A:\n    x = 1\n\n\n\n    def train():\n        return 0\n\nclass Net:\n    def size(self): return 0\n\n"
    )
    remark = decoy + "import functools\n# new\n"
    moved = edited(tmp_path / "moved", "script.py", "import functools\n", remark)
    assert moved.parts == before.parts
    assert moved.digest == before.digest
    assert moved.unseen == []
    assert before.parts["function train"] == "def train():\n    return helpers.loss(other()) + Net().size()\n"
    assert before.parts["class Net"] == "class Net:\n    def size(self):\n        return 2\n"


def test_what_runs_is_recorded_and_not_what_a_script_was_edited_to(tmp_path: Path) -> None:
    before = told_by(tmp_path / "before", EDITED, helpers=OWN_HELPERS)
    told = edited(tmp_path / "function", "script.py", "return 7", "return 8")
    assert told.parts["function other"].startswith("bytecode ")
    assert told.parts["function train"] == before.parts["function train"]
    assert told.unseen == [
        "script.py was edited after it was loaded: of function other the bytecode is part of the identity, "
        "since its text is not what runs"
    ]
    told = edited(tmp_path / "class", "script.py", "return 2", "return 3")
    assert told.parts["function Net.size"].startswith("bytecode ")
    assert "class Net" not in told.parts
    assert [sentence.partition(" of ")[2].partition(" the ")[0] for sentence in told.unseen] == ["function Net.size"]


def test_an_edited_module_is_recorded_as_workers_will_import_it(tmp_path: Path) -> None:
    told = edited(tmp_path, "helpers.py", "return x + 1", "return x + 2")
    assert told.parts["module helpers"] == OWN_HELPERS.replace("+ 1", "+ 2")
    assert told.unseen == []


@pytest.mark.parametrize("how", ["by reference", "by value"])
def test_the_module_of_the_functions_is_recorded_as_it_travels(tmp_path: Path, how: str) -> None:
    pinned = "import cloudpickle\ncloudpickle.register_pickle_by_value(helpers)\n" if how == "by value" else ""
    script = f"{EDITED}from helpers import loss as train\n{pinned}"
    new = "    # new\n    return x + LIMIT"
    told = told_by(tmp_path, f"{script}edit('helpers.py', '    return x + 1', {new!r})\n", helpers=OWN_HELPERS)
    if how == "by value":
        assert told.parts["function loss"].startswith("bytecode ")
        assert told.unseen[0].startswith("helpers.py was edited after it was loaded")
        assert told.files == {}
    else:
        assert told.parts["function loss"] == f"def loss(x):\n{new}\n"
        assert told.parts["global LIMIT"] == "1"
        assert told.unseen == []
        assert list(told.files) == [str(tmp_path / "helpers.py")]


def test_a_function_of_a_module_that_travels_by_value_is_held_against_its_text(tmp_path: Path) -> None:
    helpers = "def make():\n    def inner():\n        return 1\n    return inner\n"
    script = f"{EDITED}inner = helpers.make()\ndef train():\n    return inner()\n"
    told = told_by(tmp_path / "before", script, helpers=helpers)
    assert "function helpers.make.<locals>.inner" not in told.parts
    told = told_by(tmp_path / "after", f"{script}edit('helpers.py', 'return 1', 'return 2')\n", helpers=helpers)
    assert told.parts["function helpers.make.<locals>.inner"].startswith("bytecode ")
    assert len(told.unseen) == 1


def test_code_that_an_import_hook_changed_keeps_its_text() -> None:
    def train(x: int) -> int:
        assert x > SCALE, "pytest makes other bytecode of this than Python does"
        return x

    code = read_code({"train": train})
    (text,) = (part for name, part in code.parts.items() if name.endswith(".train"))
    assert text.startswith("def train(x: int) -> int:\n    assert x > SCALE")
    assert not [sentence for sentence in code.unseen if "edited" in sentence]


def test_the_files_that_workers_import_are_named_with_what_they_held(tmp_path: Path) -> None:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("")
    (tmp_path / "pack" / "deep.py").write_text("def train():\n    import helpers, numpy\n")
    told = told_by(tmp_path, "from pack.deep import train\n", helpers=HELPERS, deeper=DEEPER, unused="")
    assert told.files == {
        str(tmp_path / name): hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()
        for name in ("deeper.py", "helpers.py", "pack/__init__.py", "pack/deep.py")
    }


def test_bytecode_tells_apart_what_differs_in_its_shape_alone() -> None:
    shapes = ["def f(a, b): pass", "def f(a, *, b): pass", "def f(a, /, b): pass", "def f(a, *b): pass"]
    texts = [*shapes, "def f(a, b):\n try: a()\n except: b()\n", "def f(a, b):\n try: pass\n except: b()\n a()\n"]
    codes = [compile(text, "f", "exec").co_consts[0] for text in texts]
    assert len({bytecode(code) for code in codes}) == len(texts)


def test_functions_without_source_count_by_their_bytecode() -> None:
    def make(text: str) -> Callable[..., Any]:
        scope: dict[str, Any] = {"__name__": "__main__"}
        exec(text, scope)
        function: Callable[..., Any] = scope["train"]
        return function

    text = "def train():\n    def inner(): return x in {1, 2}\n    return inner, unknown\n"
    code = read_code({"train": make(text)})
    assert code.parts["function train"].startswith("bytecode ")
    assert code.digest == digest(make(text))
    assert code.digest != digest(make(text.replace("2", "3")))


def test_roles_count() -> None:
    scope = notebook("def a(): return 1\ndef b(): return 2\n")
    one = read_code({"train": scope["a"], "model": scope["b"]})
    assert one.digest != read_code({"train": scope["b"], "model": scope["a"]}).digest
    assert one.digest == read_code({"model": scope["b"], "train": scope["a"]}).digest


@pytest.mark.parametrize("strange", [3, len, int, object(), [].append, HELD])
def test_nothing_raises(strange: Any) -> None:
    assert isinstance(read_code({"train": strange}), Code)


def test_the_difference_names_what_changed_was_added_and_went() -> None:
    old = {"lr": "uniform(0.0, 1.0)", "gone": "1", "function f": "def f():\n    return 1\n", "same": "'a  b'"}
    new = {
        "lr": "uniform(0.0, 2.0)",
        "module m": "x\ny\n",
        "function f": "def f():\n    return 2\n",
        "same": "'a  b'",
    }
    assert difference(old, new) == textwrap.dedent(
        """\
        function f:
          @@ -1,2 +1,2 @@
           def f():
          -    return 1
          +    return 2
        removed gone: 1
        lr: uniform(0.0, 1.0) -> uniform(0.0, 2.0)
        added module m"""
    )
    assert difference(old, old) == ""


def test_a_hash_sign_in_a_value_is_no_comment() -> None:
    assert difference({"a": "x # 1"}, {"a": "x # 2"}) == "a: x # 1 -> x # 2"


def test_a_long_difference_is_cut() -> None:
    old, new = ("".join(f"{name}{i} = 1\n" for i in range(40)) for name in "ab")
    lines = difference({"m": old}, {"m": new}).splitlines()
    assert lines[-1] == "  ... and 51 more lines"
    assert len(lines) == 32


def outer_function() -> None:
    """Do nothing, at a known line."""


def test_a_function_is_located_relative_to_the_working_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    line = outer_function.__code__.co_firstlineno
    monkeypatch.chdir(Path(__file__).parent.parent)
    assert source_line(outer_function) == ("tests/test_definition.py", line)
    assert source_line(functools.partial(functools.lru_cache(outer_function))) == (
        "tests/test_definition.py",
        line,
    )
    monkeypatch.chdir(Path(__file__).parent / "store")
    assert source_line(outer_function) == ("test_definition.py", line)
    assert source_line(len) is None
    assert source_line(notebook("def f(): pass\n")["f"]) is None


NAMED: Mapping[str, int] = {"an": 1, "experiment": 2}


def test_an_object_is_found_by_its_module_level_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent.parent)
    assert where_is(NAMED) == "tests/test_definition.py:NAMED"
    assert where_is(object()) is None


def test_the_module_is_light() -> None:
    heavy = "{'torch', 'optuna', 'numpy', 'rich'} & set(sys.modules)"
    told = f"import sys, etude.definition, etude.store.provenance; print({heavy} or 'light')"
    assert subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True).stdout == "light\n"
