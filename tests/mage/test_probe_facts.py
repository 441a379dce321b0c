"""What the judge reads, the probe fills; equal programs give equal facts, and a change is found by its fact."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from watched_programs import needs, sandbox_of_tests, seen

import etude.mage.judge
from etude.mage.facts import Ended, Facts, FitFacts, ModelFacts, ModuleFacts, ParameterFacts
from etude.mage.judge.baseline import Baseline, compare_runs
from etude.mage.judge.judging import judge_baseline
from etude.mage.probe.run import probe
from etude.mage.verdicts import Outcome, Verdict

needs("torch", "sklearn")

TRAIN = """
import argparse, json
import numpy as np
import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.norm, self.drop = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.25)
        self.head = nn.Linear(8, 3)

    def eval(self):
        return super().eval()

    def forward(self, x):
        return self.head(self.drop(F.relu(self.norm(self.body(x)))))


def load(n):
    draws = torch.Generator().manual_seed(5)
    return TensorDataset(torch.randn(n, 6, generator=draws), torch.randint(0, 3, (n,), generator=draws))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    loader = DataLoader(load(60), batch_size=16, shuffle=True)
    net = Net()
    rate = 0.1
    optimizer = torch.optim.SGD(net.parameters(), lr=rate, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
    table, labels = loader.dataset.tensors
    found = make_pipeline(LogisticRegression()).fit(table.numpy(), labels.numpy()).predict(table.numpy())
    json.dump({"accuracy": float((found == labels.numpy()).mean())}, open("metrics.json", "w"))


main()
"""
ENTRY = "python train.py --seed {seed}"
STRUCTS = (Facts, ModelFacts, ModuleFacts, ParameterFacts, FitFacts, Ended)


# --- nothing that is read is empty ----------------------------------------------------------------


def read_by_the_judge() -> set[str]:
    """Return the names of all attributes that the judge's sources ask for."""
    (folder,) = etude.mage.judge.__path__
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in Path(folder).glob("*.py")]
    names = {node.attr for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    texts = {node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    return names | {one for one in texts if isinstance(one, str)}  # compare_runs lists some as texts


def filled(value: Any) -> Iterator[tuple[str, str]]:
    """Yield struct and field of everything in some facts that is not as it is where nobody looked."""
    if isinstance(value, msgspec.Struct):
        for field in msgspec.structs.fields(type(value)):
            found = getattr(value, field.name)
            default = None if field.default is msgspec.NODEFAULT else field.default
            if field.default_factory is not msgspec.NODEFAULT:
                default = field.default_factory()
            if found != default:
                yield type(value).__name__, field.name
            yield from filled(found)
    elif isinstance(value, dict):
        for one in value.values():
            yield from filled(one)
    elif isinstance(value, tuple | list):
        for one in value:
            yield from filled(one)


def test_every_fact_that_the_judge_reads_is_filled_by_the_probe(tmp_path: Path) -> None:
    whole = seen(tmp_path, TRAIN, ENTRY, steps=99, rows=20, other_seed=1, metric_file="metrics.json")
    assert whole.ended.why == "finished", whole.ended
    broken = seen(tmp_path, TRAIN.replace("        scheduler.step()\n", "        net.none\n"), ENTRY)
    found = {*filled(whole), *filled(broken)}
    read = read_by_the_judge()
    assert {"arguments", "elsewhere", "moved", "digests", "batch_values", "rates"} <= read
    fields = {(one.__name__, field.name) for one in STRUCTS for field in msgspec.structs.fields(one)}
    nobody = {(owner, name) for owner, name in fields - found if name in read} - {("ParameterFacts", "trainable")}
    assert not nobody, f"the judge reads what no probe fills: {sorted(nobody)}"


# --- laws -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Any:
    @cache
    def run(text: str, again: int = 0) -> Facts:
        folder = tmp_path_factory.mktemp("run")
        (folder / "train.py").write_text(text)
        return probe(folder, ENTRY, sandbox=sandbox_of_tests(), other_seed=1)

    return run


@pytest.fixture(scope="module")
def base(watched: Any) -> Baseline:
    return compare_runs([watched(TRAIN), watched(TRAIN, 1)])


def told(verdict: Verdict) -> str:
    return "\n".join(reason.text for reason in verdict.reasons)


def test_equal_programs_give_equal_facts(watched: Any, base: Baseline) -> None:
    assert (base.varies, base.deterministic) == ((), True)
    again = watched(TRAIN, 2)
    verdict = judge_baseline(base, again)
    assert verdict.outcome is Outcome.PASSED, told(verdict)
    assert again.other.seeds != again.seeds
    plain = [msgspec.structs.replace(one, wall_s=0.0, peak_mb=0.0, other=None) for one in (base.facts, again)]
    assert plain[0] == plain[1]


def test_code_that_is_written_otherwise_and_does_the_same_gives_equal_facts(watched: Any, base: Baseline) -> None:
    text = TRAIN.replace("F.relu(self.norm(self.body(x)))", "torch.relu(self.norm(self.body(x)))")
    text = text.replace(
        "loss = F.cross_entropy(net(x), y)", "scores = net(x)\n        loss = F.cross_entropy(scores, y)"
    )
    facts = watched(text)
    assert (facts.elsewhere, facts.operators, facts.losses) == (
        base.facts.elsewhere,
        base.facts.operators,
        base.facts.losses,
    )


LOSS = "loss = F.cross_entropy(net(x), y)"
CHANGES = {
    "another norm": (
        "(net.parameters(), 1.0)",
        "(net.parameters(), 2.0)",
        "`torch.nn.utils.clip_grad_norm_` is called with max_norm=2.0, max_norm=1.0 in the baseline",
    ),
    "weights of classes": (
        LOSS,
        "loss = F.cross_entropy(net(x), y, torch.tensor([1.0, 2.0, 1.0]))",
        "`torch.nn.functional.cross_entropy` is called with weight=tensor:",
    ),
    "some rows": (LOSS, "loss = F.cross_entropy(net(x)[:8], y[:8])", "is called with input.rows=8 target.rows=8,"),
    "twice the loss": ("loss.backward()", "(2 * loss).backward()", "Outside of the model mul runs"),
    "fewer digits": (
        LOSS,
        "with torch.autocast('cpu', dtype=torch.bfloat16):\n            " + LOSS,
        "`body` gives numbers of type `bfloat16`, `float32` in the baseline",
    ),
    "fewer examples": ("load(60)", "load(50)", "The numbers of examples in an epoch are [50], [60] in the baseline"),
    "no evaluation mode": ("net = Net()", "net = Net(); net.train = lambda mode=True: net", "the model has `train` in"),
    "averaged weights": (
        "net = Net()",
        "net = Net(); mean = torch.optim.swa_utils.AveragedModel(net)",
        "`torch.optim.swa_utils.AveragedModel` is called in the variant and not in the baseline",
    ),
    "a part that is not trained": (
        "SGD(net.parameters()",
        "SGD([*net.body.parameters(), *net.norm.parameters()]",
        "head keeps its first values in this variant",
    ),
    "for other seeds alone": (
        "rate = 0.1",
        "rate = 0.2 if args.seed else 0.1",
        "With another seed: The learning rate is 0.2, 0.1 in the baseline",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_found_by_the_fact_that_it_is_of(name: str, watched: Any, base: Baseline) -> None:
    old, new, found = CHANGES[name]
    assert TRAIN.count(old) == 1
    verdict = judge_baseline(base, watched(TRAIN.replace(old, new)))
    assert verdict.outcome is Outcome.FAILED
    assert found in told(verdict)
