"""The probe: how programs end, what reaches them, and what of them is told."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tiers import permitted

from etude.core.errors import ConfigError
from etude.mage.facts import Facts
from etude.mage.keys import REMOVED
from etude.mage.probe.laying import lay, reached
from etude.mage.probe.metrics import printed
from etude.mage.probe.reading import NOT_WATCHED, NOTHING_KNOWN
from etude.mage.probe.run import probe
from etude.mage.sandbox.protocol import Limits, Sandbox, Tier
from etude.mage.tree import Tree

Probed = Callable[..., Facts]


@pytest.fixture(scope="module", params=[Tier.BWRAP, Tier.LIMITS])
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    """Give the sandbox with the most and that with the least of its own."""
    return permitted(request.param)


@pytest.fixture
def probed(sandbox: Sandbox, tmp_path: Path) -> Probed:
    """Give what writes ``train.py`` and probes it."""

    def probes(text: str, entry: str = "python train.py", **options: object) -> Facts:
        (tmp_path / "train.py").write_text(text)
        return probe(tmp_path, entry, sandbox=sandbox, **options)  # type: ignore[arg-type]

    return probes


# --- how it ends ----------------------------------------------------------------------------------


def test_without_a_known_framework_it_says_so_and_sees_the_rest(probed: Probed) -> None:
    text = (
        "import random\n"
        "STEPS = 4\n"
        "class Net:\n"
        "    def step(self): return 1\n"
        "def draws():\n"
        "    yield 1\n"
        "    yield 2\n"
        "random.seed(5)\n"
        "net = Net()\n"
        "for _ in range(STEPS): net.step()\n"
        "print(sum(draws()), [net.step() for _ in draws()])\n"
        "print('accuracy: 0.5')\n"
    )
    facts = probed(text)
    assert (facts.ended.code, facts.ended.why) == (0, "finished")
    assert facts.unseen == (NOTHING_KNOWN,)
    assert facts.calls == {"train.py:Net.step": 6, "train.py:draws": 2}
    assert facts.settings == {"STEPS": 4}
    assert facts.seeds == ("random 5",)
    assert facts.metrics == {"accuracy": 0.5}
    assert facts.versions == {"python": sys.version.split()[0]}
    assert facts.peak_mb > 1
    assert facts.wall_s > 0


def test_what_a_program_raises_is_told_with_the_innermost_frame_of_the_project(probed: Probed) -> None:
    text = (
        "import json\n"
        "def load():\n"
        "    return json.loads('{')\n"
        "try:\n"
        "    load()\n"
        "except ValueError as error:\n"
        "    raise KeyError('no data') from error\n"
    )
    ended = probed(text).ended
    assert (ended.code, ended.why, ended.error, ended.message) == (1, "raised", "KeyError", "'no data'")
    assert ended.frame == "train.py:7 in <module>"
    assert '  File "train.py", line 3, in load' in ended.traceback
    assert "direct cause" in ended.traceback
    assert "site-packages" not in ended.frame
    ended = probed("import json\nprint(json.loads('{'))\n").ended
    assert (ended.error, ended.frame) == ("JSONDecodeError", "train.py:2 in <module>")


def test_a_syntax_error_names_its_line(probed: Probed) -> None:
    ended = probed("x = 1\nif x\n").ended
    assert (ended.why, ended.error, ended.frame) == ("raised", "SyntaxError", "train.py:2")


@pytest.mark.parametrize(
    ("text", "code", "why"),
    [
        ("import sys; sys.exit(0)", 0, "finished"),
        ("import sys; sys.exit(4)", 4, "exit code 4"),
        ("import sys; sys.exit('no data')", 1, "exit code 1"),
        ("import os; os._exit(5)", 5, "exit code 5"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", None, "killed by signal 9"),
        ("import ctypes; ctypes.string_at(0)", None, "killed by signal 11"),
    ],
)
def test_every_end_is_told_right(probed: Probed, text: str, code: int | None, why: str) -> None:
    facts = probed(f"MODE = 'odd'\n{text}\n")
    assert (facts.ended.code, facts.ended.why) == (code, why)
    assert facts.versions


def test_what_was_seen_before_the_time_limit_is_kept(probed: Probed) -> None:
    text = (
        "import argparse, time\n"
        "parser = argparse.ArgumentParser(); parser.add_argument('--lr', type=float, default=0.5)\n"
        "args = parser.parse_args()\n"
        "time.sleep(600)\n"
    )
    facts = probed(text, "python train.py --lr 0.25", limits=Limits(wall_s=2.0))
    assert (facts.ended.code, facts.ended.why) == (None, "time limit")
    assert facts.settings["lr"] == 0.25


def test_a_program_that_leaves_out_its_site_is_not_watched_and_that_is_said(probed: Probed) -> None:
    facts = probed("print('loss: 2')", "python -I train.py")
    assert facts.unseen == (NOT_WATCHED,)
    assert facts.ended.why == "finished"
    assert facts.metrics == {"loss": 2.0}


# --- what reaches it ------------------------------------------------------------------------------


def test_its_environment_has_no_key_and_its_home_is_its_folder(
    probed: Probed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-aaaaaaaaaaaaaaaaaaaaaaaa")
    text = (
        "import os, json, sys\n"
        "print(os.environ['HOME'], os.getcwd())\n"
        "json.dump({name: len(value) for name, value in os.environ.items()}, open('environment.json', 'w'))\n"
        "json.dump(sys.path, open('path.json', 'w'))\n"
    )
    facts = probed(text, metric_file="environment.json")
    assert set(facts.metrics) >= {"PATH", "HOME"}
    allowed = {"PATH", "HOME", "PWD", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH", "KERAS_BACKEND"}
    others = {name for name in facts.metrics if not name.startswith("PYTHON") and not name.endswith("_NUM_THREADS")}
    assert others <= allowed
    assert "ETUDE_PROBE" not in facts.metrics
    assert "probe" not in (tmp_path / "path.json").read_text()


def test_keys_of_ours_do_not_reach_the_facts(probed: Probed, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-0123456789abcdef0123"
    monkeypatch.setenv("MY_TOKEN", key)
    facts = probed(f"KEY = {key!r}\nraise ValueError('bad key ' + KEY)\n")
    assert facts.settings == {"KEY": REMOVED}
    assert facts.ended.message == f"bad key {REMOVED}"
    assert key not in repr(facts)


def test_the_seed_is_put_where_it_belongs(probed: Probed) -> None:
    facts = probed("import sys\nprint('seed:', sys.argv[2])\n", "python3 train.py --seed {seed}", seed=17)
    assert facts.metrics == {"seed": 17.0}


def test_a_sitecustomize_that_was_there_still_runs(
    probed: Probed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place = tmp_path.parent / f"{tmp_path.name}-site"
    place.mkdir()
    (place / "sitecustomize.py").write_text("import builtins\nbuiltins.was_here = 3\n")
    ours = Path(probe.__code__.co_filename).parents[3]
    monkeypatch.setenv("PYTHONPATH", f"{place}:{ours}")
    text = (
        "import sitecustomize, sys, os\n"
        "print('here:', was_here)\n"
        "print('same:', int(os.environ['PYTHONPATH'] == sys.argv[1]))\n"
    )
    facts = probed(text, f"python train.py {place}:{ours}")
    assert facts.metrics == {"here": 3.0, "same": 1.0}


def test_what_a_program_starts_is_not_watched_and_works(probed: Probed) -> None:
    text = (
        "import os, subprocess, sys\n"
        "def train(): return 1\n"
        "code = 'import sys; print(\"traced:\", int(sys.gettrace() is not None))'\n"
        "subprocess.run([sys.executable, '-c', code], check=True)\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    train()\n"
        "    sys.exit(3)\n"
        "print('code:', os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    facts = probed(text)
    assert facts.metrics == {"traced": 0.0, "code": 3.0}
    assert facts.calls == {}
    assert facts.ended.why == "finished"


def test_a_laid_variant_reads_the_projects_data(sandbox: Sandbox, tmp_path: Path) -> None:
    root = tmp_path / "project"
    (root / "data").mkdir(parents=True)
    (root / "data" / "table.txt").write_text("12")
    (root / "metrics.json").write_text('{"value": 99}')
    tree = Tree({"train.py": b"import json\nvalue = int(open('data/table.txt').read())\n"})
    folder = lay(tree, root, tmp_path / "variant")
    options = {"sandbox": sandbox, "reads": reached(tree, root), "metric_file": "metrics.json"}
    facts = probe(folder, "python train.py", **options)  # type: ignore[arg-type]
    assert (facts.ended.why, facts.metrics) == ("finished", {})  # and not those of an earlier run
    with_metric = tree.files["train.py"] + b"json.dump({'value': value, 'by': {'a': 1}}, open('metrics.json', 'w'))\n"
    (folder / "train.py").write_bytes(with_metric)
    facts = probe(folder, "python train.py", **options)  # type: ignore[arg-type]
    assert facts.metrics == {"value": 12.0, "by.a": 1.0}
    assert (root / "metrics.json").read_text() == '{"value": 99}'
    assert not [path.name for path in folder.iterdir() if path.name.startswith(".etude-probe")]


# --- settings -------------------------------------------------------------------------------------


def test_settings_are_read_as_they_are_when_it_runs(probed: Probed, tmp_path: Path) -> None:
    (tmp_path / "config.py").write_text(
        "from dataclasses import dataclass\n"
        "@dataclass\nclass TrainConfig:\n    width: int = 8\n    name: str = 'a'\n"
        "WIDTH = 3\nLAYERS = (1, 2)\n"
    )
    text = (
        "import argparse\n"
        "from config import TrainConfig\n"
        "WIDTH = 5\n"
        "RATE = float('nan')\n"
        "parser = argparse.ArgumentParser()\n"
        "parser.add_argument('--no-clip', action='store_true')\n"
        "flags = parser.parse_args()\n"
        "made = TrainConfig(width=9)\n"
        "params = {'depth': 2, 'table': object}\n"
    )
    facts = probed(text, "python train.py --no-clip")
    assert facts.settings == {
        "no_clip": True,
        "width": 9,
        "name": "a",
        "TrainConfig.width": 9,
        "TrainConfig.name": "a",
        "WIDTH": 5,
        "RATE": "nan",
        "depth": 2,
        "params.depth": 2,
        "LAYERS": [1, 2],
        "config.WIDTH": 3,
        "config.LAYERS": [1, 2],
    }


# --- experiments ----------------------------------------------------------------------------------


def test_an_experiment_of_a_script_is_run_with_its_defaults(probed: Probed) -> None:
    text = (
        "import etude\n"
        "def train(seed, lr: float = 0.5):\n"
        "    return {'score': lr + seed, 'other': 1}\n"
        "experiment = etude.Experiment(train, metric='score', mode='max')\n"
        "if __name__ == '__main__':\n"
        "    raise SystemExit('it is read, and not run')\n"
    )
    facts = probed(text, "train.py:experiment", seed=2)
    assert (facts.ended.why, facts.ended.traceback) == ("finished", "")
    assert facts.metrics == {"score": 2.5, "other": 1.0}
    assert facts.calls["train.py:train"] == 1
    facts = probed(text, "train.py:other")
    assert facts.ended.why == "exit code 1"
    assert facts.ended.traceback == "train.py has no 'other'. Name what it has, as in script.py:experiment."


# --- what cannot be -------------------------------------------------------------------------------


def test_what_cannot_be_is_refused_before_anything_runs(sandbox: Sandbox, tmp_path: Path) -> None:
    for options, message in (
        ({"entry": ""}, "entry is empty. Pass a command such as 'python train.py --seed {seed}'."),
        ({"steps": 0}, "steps=0, rows=1000: nothing can be seen of less than 1. Pass 1 or more."),
    ):
        with pytest.raises(ConfigError) as refused:
            probe(tmp_path, **{"entry": "python x.py", "sandbox": sandbox, **options})  # type: ignore[arg-type]
        assert str(refused.value) == message
    with pytest.raises(ConfigError, match="is no command: No closing quotation"):
        probe(tmp_path, "python 'x", sandbox=sandbox)
    with pytest.raises(ConfigError, match="no-such-python is no Python that runs"):
        probe(tmp_path, "python x.py", sandbox=sandbox, interpreter=str(tmp_path / "no-such-python"))


def test_a_program_that_is_killed_by_a_signal_is_no_error_of_ours(probed: Probed) -> None:
    facts = probed(f"import os\nos.kill(os.getpid(), {int(signal.SIGTERM)})\n")
    assert facts.ended.why == "killed by signal 15"


# --- small parts ----------------------------------------------------------------------------------


def test_the_last_line_that_names_a_number_counts() -> None:
    out = "epoch 1 loss: 0.5 val_loss=1e-3\nloss: 0.25\nacc = -3, time 10:30\nnan_metric: nan\nsee http://a:80/\n"
    found = printed(out)
    assert found["loss"] == 0.25
    assert found["val_loss"] == 0.001
    assert found["acc"] == -3.0
    assert found["nan_metric"] != found["nan_metric"]
    assert not {"http", "a", "10"} & set(found)
