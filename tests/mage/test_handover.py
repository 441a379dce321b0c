"""Accepted variants become arms of an ordinary ablation, and run from their own trees."""

from __future__ import annotations

import dataclasses
import difflib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle
import pytest

import etude
from etude.core.errors import BaselineError, CommandError, ConfigError, SignatureError
from etude.definition import read_code
from etude.files.scripts import load
from etude.mage.handover.commands import Command
from etude.mage.handover.components import Accepted, commands_of, components_of, hand_over
from etude.mage.handover.from_tree import functions_of
from etude.mage.handover.metrics_of import Metric
from etude.mage.handover.travelling import Files
from etude.mage.judge.baseline import Pairing
from etude.mage.patch.blocks import Author, Patch
from etude.mage.patch.making import with_arguments
from etude.mage.tree import Tree, digest_of

SCRIPT = """
import etude
from pieces import build


def model(width: int = 4):
    return build(width)


def data():
    return [1.0, 2.0, 3.0]


def train(model, data, run, seed, lr: float = 0.1):
    built = model()
    from late import bonus  # found long after the script was loaded
    for _ in run.epochs(2):
        run.report(score=built["worth"] + bonus() + lr + sum(data()) / 100 + (seed % 7) / 1000)


experiment = etude.Experiment(train, model=model, data=data, metric="score", mode="max")

if __name__ == "__main__":
    raise SystemExit("never run as a program")
"""
PIECES = """
def build(width):
    return {"worth": float(width)}
"""
LATE = """
def bonus():
    return 0.5
"""
BASE = {"script.py": SCRIPT, "pieces.py": PIECES, "late.py": LATE}


def tree_of(files: dict[str, str]) -> Tree:
    return Tree({path: text.encode() for path, text in files.items()})


def accepted(name: str, base: Tree, changed: dict[str, str], *arguments: str) -> Accepted:
    tree = base.with_files({path: text.encode() for path, text in changed.items()})
    lines = [
        line
        for path in changed
        for line in difflib.unified_diff(base.text(path).splitlines(True), tree.text(path).splitlines(True), path, path)
    ]
    diff = "".join(lines)
    patch = Patch(
        base=base.digest, result=tree.digest, diff=diff, digest=digest_of(diff.encode()), author=Author(name="a person")
    )
    return Accepted(name, with_arguments(patch, arguments) if arguments else patch, tree)


class Project:
    """A project on disk, loaded as the command line loads it."""

    def __init__(self, root: Path, files: dict[str, str]) -> None:
        self.root = root
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        self.tree = tree_of(files)

    def experiment(self) -> Any:
        return load(str(self.root / "script.py") + ":experiment")[0]

    def components(self, *variants: Accepted) -> list[Any]:
        return components_of(
            variants, entry="script.py:experiment", base=self.tree, root=self.root, experiment=self.experiment()
        )


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Project]]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    before = set(sys.modules)

    def make(**changed: str) -> Project:
        root = tmp_path / "project"
        root.mkdir()
        monkeypatch.chdir(root)
        return Project(root, {**BASE, **{name.replace("__", "/") + ".py": text for name, text in changed.items()}})

    yield make
    for name in ("script", "pieces", "late", "nets"):
        if name not in before and isinstance(sys.modules.get(name), ModuleType):
            for module in list(cloudpickle.list_registry_pickle_by_value()):
                if module == name:
                    cloudpickle.unregister_pickle_by_value(sys.modules[name])
            del sys.modules[name]


def halved(project: Project) -> Accepted:
    return accepted("half", project.tree, {"pieces.py": PIECES.replace("float(width)", "width / 2")})


def without_bonus(project: Project) -> Accepted:
    return accepted("no-bonus", project.tree, {"late.py": LATE.replace("0.5", "0.0")})


def test_variants_run_from_their_own_trees_in_one_ordinary_ablation(project: Callable[..., Project]) -> None:
    here = project()
    experiment = here.experiment()
    components = here.components(halved(here), without_bonus(here))
    done = hand_over(experiment, components, name="two", seeds=3, workers=1, force=True)
    means = {arm.name: round(arm.effect, 6) for arm in done.ablation.arms}
    assert means["custom:half"] == 2.0
    assert means["custom:no-bonus"] == 0.5  # the import inside train() found the variant's late.py
    assert done.ablation.name == done.first.name == "two"  # it went on: nothing ran twice
    assert len(done.ablation.trials) == 9
    assert {trial.state for trial in done.ablation.trials} == {"finished"}
    assert done.pulled == {}


def test_both_trees_live_in_one_process(project: Callable[..., Project]) -> None:
    here = project()
    experiment = here.experiment()
    half = here.components(halved(here))[0]
    assert half.model() == {"worth": 2.0}
    assert experiment.functions["model"]() == {"worth": 4.0}
    assert half.model(width=10) == {"worth": 5.0}
    assert sys.modules["pieces"].build(4) == {"worth": 4.0}
    assert sys.path.count(str(here.root)) == 1
    assert not any("etude-mage" in place for place in sys.path)


def test_an_import_that_runs_long_after_the_call_is_of_the_same_tree(project: Callable[..., Project]) -> None:
    pieces = "def build(width):\n    def later():\n        import late\n        return late.bonus()\n    return later\n"
    here = project(pieces=pieces)
    here.experiment()
    other = here.components(without_bonus(here))[0]
    assert other.model()() == 0.0
    assert here.experiment().functions["model"]()() == 0.5


def test_the_identity_of_a_stand_in_is_that_of_its_patch(project: Callable[..., Project]) -> None:
    here = project()
    one, other = here.components(halved(here), without_bonus(here))
    again = here.components(halved(here))[0]
    digests = [read_code(component.functions).digest for component in (one, other, again)]
    assert digests[0] != digests[1]
    assert digests[0] == digests[2]
    assert not read_code(one.functions).unseen


def test_a_stand_in_travels_with_its_files(project: Callable[..., Project], tmp_path: Path) -> None:
    import subprocess

    here = project()
    half = here.components(halved(here))[0]
    (tmp_path / "function").write_bytes(cloudpickle.dumps(half.model))
    for path in BASE:  # this machine has none of them
        (here.root / path).unlink()
    code = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb'))(width=6))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "function")],
        cwd=tmp_path, capture_output=True, text=True, check=False, env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert done.stdout.strip() == "{'worth': 3.0}", done.stderr


def test_what_somebody_changed_in_the_laid_files_is_not_run(project: Callable[..., Project]) -> None:
    here = project()
    files = Files.of(halved(here).tree, root=here.root)
    place = files.laid()
    (place / "pieces.py").write_text("def build(width):\n    return 'something else'\n")
    again = files.laid()
    assert (again / "pieces.py").read_bytes() == files.tree.files["pieces.py"]


def test_a_script_without_a_main_guard_starts_no_study_in_a_trial(project: Callable[..., Project]) -> None:
    here = project(script=SCRIPT.partition("if __name__")[0] + "experiment.tune({'lr': [0.1]}, trials=1)\n")
    half = here.components(halved(here))[0]
    assert half.model() == {"worth": 2.0}
    assert not (here.root / "etude-studies").exists()


def test_signatures_are_read_from_the_source(project: Callable[..., Project]) -> None:
    here = project()
    script = SCRIPT.replace("lr: float = 0.1", "lr: float = 0.1, warmup: int = 3")
    changed = here.components(accepted("warm", here.tree, {"script.py": script}))[0]
    import inspect

    assert str(inspect.signature(changed.train)) == "(model, data, run, seed, lr: float = 0.1, warmup=3)"
    signature = etude.Experiment(
        changed.train, model=changed.model, data=changed.data, metric="score", mode="max"
    ).signature
    assert signature.parameters["warmup"].annotation is int
    assert signature.parameters["lr"].annotation is float


def test_a_default_that_only_running_the_file_could_tell_is_refused(project: Callable[..., Project]) -> None:
    here = project()
    script = SCRIPT.replace("lr: float = 0.1", "lr: float = default_of('lr')")
    with pytest.raises(SignatureError) as refused:
        here.components(accepted("odd", here.tree, {"script.py": script}))
    assert str(refused.value) == (
        "script.py: the default of 'lr' in train() is now `default_of('lr')`, which is known only once the file runs. "
        "Give it a plain value, or leave that parameter as the project has it."
    )


def test_a_variant_whose_first_trial_fails_is_pulled_before_its_other_seeds(project: Callable[..., Project]) -> None:
    here = project()
    broken = accepted("broken", here.tree, {"late.py": "def bonus():\n    raise RuntimeError('shapes do not fit')\n"})
    components = here.components(halved(here), broken)
    done = hand_over(here.experiment(), components, name="pulls", seeds=2, workers=1, force=True, retries=0)
    assert list(done.pulled) == ["broken"]
    assert "shapes do not fit" in done.pulled["broken"]
    assert {arm.name for arm in done.ablation.arms} == {"base", "custom:half"}
    assert "broken was pulled: its first trial failed." in str(done)
    failed = [trial for study in (done.first, done.ablation) for trial in study.trials if trial.state == "failed"]
    assert len(failed) == 1
    assert (done.first.name, done.ablation.name) == ("pulls", "pulls-kept")


def test_a_project_that_does_not_run_by_itself_is_said_to_be_the_users(project: Callable[..., Project]) -> None:
    here = project(late="def bonus():\n    raise RuntimeError('no such file')\n")
    fixed = accepted("half", here.tree, {"pieces.py": PIECES.replace("float(width)", "width / 2")})
    with pytest.raises(BaselineError, match=r"Your code, not the patch\. Mend that first\."):
        hand_over(here.experiment(), here.components(fixed), name="broken", seeds=[1, 2], workers=1, retries=0)


def test_an_approved_patch_is_of_these_files_and_makes_those(project: Callable[..., Project]) -> None:
    here = project()
    half = halved(here)
    edited = here.tree.with_files({"late.py": b"def bonus():\n    return 9\n"})
    with pytest.raises(ConfigError) as refused:
        components_of([half], entry="script.py:experiment", base=edited, root=here.root, experiment=here.experiment())
    assert str(refused.value) == (
        "'half' is a patch of other files than these: the project was edited since. "
        "Check its variants again, or take the edit back."
    )
    other = Accepted("half", half.patch, edited)
    with pytest.raises(ConfigError, match="not what its approved patch makes of the project"):
        here.components(other)
    with pytest.raises(ConfigError, match="names no experiment of these files"):
        functions_of(half.tree, here.tree, here.experiment(), entry="other.py:x", root=here.root, identity="")


# --- commands -------------------------------------------------------------------------------------

PROGRAM = """
import argparse, json, sys
from pathlib import Path
from parts import worth

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, required=True)
parser.add_argument("--without", default="")
args = parser.parse_args()
rows = len(Path("data/rows.csv").read_text().splitlines())
value = worth() + rows - len(args.without) + (args.seed % 7) / 1000
Path("metrics.json").write_text(json.dumps({"test": {"accuracy": value}}))
print("accuracy: 0.25")
print(f"accuracy: {value}")
"""
PARTS = "def worth():\n    return 10.0\n"
ENTRY = "python train.py --seed {seed}"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    root = tmp_path / "program"
    (root / "data").mkdir(parents=True)
    (root / "data" / "rows.csv").write_text("1\n2\n3\n")
    (root / "metrics.json").write_text('{"test": {"accuracy": 99}}')  # what an earlier run left there
    return Project(root, {"train.py": PROGRAM, "parts.py": PARTS})


def command(program: Project, entry: str = ENTRY, metric: str = "metrics.json:test.accuracy", **more: Any) -> Command:
    return Command.read(entry, metric, Files.of(program.tree, root=program.root), **more)


def test_a_program_that_knows_nothing_of_etude_is_ablated(program: Project) -> None:
    fewer = accepted("fewer", program.tree, {"parts.py": PARTS.replace("10.0", "7.0")})
    flagged = accepted("flagged", program.tree, {"parts.py": PARTS + "\n"}, "--without", "ab")
    train, components = commands_of(
        [fewer, flagged], entry=ENTRY, metric="metrics.json:test.accuracy", base=program.tree, root=program.root
    )
    experiment = etude.Experiment(train, metric="test.accuracy", mode="max")
    done = hand_over(experiment, components, name="commands", seeds=2, workers=1, force=True)
    effects = {arm.name: round(arm.effect, 6) for arm in done.ablation.arms}
    assert effects == {"base": 0.0, "custom:fewer": 3.0, "custom:flagged": 2.0}
    logs = [path.read_text() for path in Path(done.ablation.folder).rglob("log.txt")]
    assert any("accuracy: 0.25" in text for text in logs)
    assert (program.root / "metrics.json").read_text() == '{"test": {"accuracy": 99}}'  # nothing wrote through


def test_whether_seeds_pair_commands_is_what_the_probe_has_seen(program: Project) -> None:
    known = {
        "paired": Pairing(paired=True, text="Seeds pair these runs: initial values and first batches are equal."),
        "apart": Pairing(paired=False, text="Seeds do not pair these runs: the batch order differs."),
        "unknown": Pairing(paired=None, text="Whether seeds pair these runs could not be seen."),
    }
    variants = [
        dataclasses.replace(accepted(name, program.tree, {"parts.py": PARTS + f"# {name}\n"}), pairing=pairing)
        for name, pairing in known.items()
    ]
    train, components = commands_of(
        variants, entry=ENTRY, metric="metrics.json:test.accuracy", base=program.tree, root=program.root
    )
    experiment = etude.Experiment(train, metric="test.accuracy", mode="max")
    ablation = hand_over(experiment, components, name="pairs", seeds=2, workers=1, force=True).ablation
    assert ablation.paired() == {"custom:paired": (2, 2), "custom:apart": (0, 2), "custom:unknown": (0, 2)}
    assert "Not paired, as was said of them: custom:apart, custom:unknown." in str(ablation)
    assert "Seeds do not pair these runs: the batch order differs" in str(
        experiment.ablate(components, seeds=2, dry_run=True)
    )
    noted = {arm["name"]: arm["says"] for arm in etude.open("pairs").meta["question"]["arms"]}
    assert noted["custom:apart"] == ["Seeds do not pair these runs: the batch order differs"]


def test_a_metric_is_what_the_program_wrote_or_printed_last(program: Project, tmp_path: Path) -> None:
    assert command(program).run(tmp_path / "one", 3) == pytest.approx(13.003)
    assert command(program, metric="accuracy").run(tmp_path / "two", 3) == pytest.approx(13.003)
    printed = Metric.read("val_acc")
    assert printed.found(tmp_path, "best val_acc = 1e-3\nval_acc_top5: 7\n") == 0.001


@pytest.mark.parametrize(
    ("metric", "program_text", "said"),
    [
        ("metrics.json:loss", "from pathlib import Path\nPath('metrics.json').write_text('{\"a\": 1}')",
         "metrics.json was to have the metric 'loss': there is none. It has: 'a'."),
        ("metrics.json:loss", "print('done')", "The program wrote no metrics.json."),
        ("loss", "print('done')", "The program printed no 'loss: <number>'."),
        ("loss", "import sys; print('shapes do not fit'); sys.exit(3)", "ended with code 3. The last 1 line"),
        ("loss", "import os; os.kill(os.getpid(), 11)", "was killed by signal 11. It printed nothing."),
    ],
)  # fmt: skip
def test_a_command_that_leaves_no_metric_says_why(
    program: Project, tmp_path: Path, metric: str, program_text: str, said: str
) -> None:
    program.tree = tree_of({"train.py": program_text})
    with pytest.raises(CommandError) as failed:
        command(program, metric=metric).run(tmp_path / "folder", 0)
    assert said in str(failed.value)
    assert str(failed.value).startswith("`python train.py --seed 0` ")


def test_a_time_limit_holds_against_a_grandchild_in_a_session_of_its_own(program: Project, tmp_path: Path) -> None:
    program.tree = tree_of({"train.py": LINGERS})
    with pytest.raises(CommandError, match=r"took longer than 3 s and was ended"):
        command(program, limit_s=3.0).run(tmp_path / "folder", 0)
    grandchild = int((tmp_path / "folder" / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(grandchild, signal.SIGCONT)


def test_what_a_command_leaves_running_is_ended_with_it(program: Project, tmp_path: Path) -> None:
    program.tree = tree_of({"train.py": LINGERS.removesuffix("signal.pause()\n") + "print('accuracy: 1')"})
    assert command(program, metric="accuracy").run(tmp_path / "folder", 0) == 1.0
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "folder" / "pid").read_text()), signal.SIGCONT)


LINGERS = """
import os, signal, sys
from pathlib import Path
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    Path("pid").write_text(str(os.getpid()))
    os.write(write, b".")
    signal.pause()
os.read(read, 1)
signal.pause()
"""


def test_a_command_without_a_seed_is_refused(program: Project) -> None:
    with pytest.raises(ConfigError) as refused:
        command(program, entry="python train.py")
    assert str(refused.value) == (
        "'python train.py' takes no seed, so all trials of an arm would be one. Write {seed} where the program takes "
        "it: 'python train.py --seed {seed}'."
    )
    with pytest.raises(ConfigError, match="does not say where the metric is"):
        command(program, metric="../metrics.json:x")


def test_keys_of_whoever_wrote_the_variants_do_not_reach_them(
    program: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-very-secret")
    program.tree = tree_of({"train.py": "import os\nprint('found:', int('ANTHROPIC_API_KEY' in os.environ))"})
    assert command(program, metric="found").run(tmp_path / "folder", 0) == 0.0
