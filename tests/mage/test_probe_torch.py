"""The probe on PyTorch: it sees what is trained, and nothing is computed differently because of it."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from watched_programs import needs, seen, seen_and_alone

needs("torch")

TRAIN = """
import argparse
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIZE = 48


class Data(Dataset):
    def __init__(self, n):
        self.x, self.y = torch.randn(n, 1, 8, 8), torch.randint(0, 3, (n,))

    def __len__(self):
        return len(self.x)

    def __getitem__(self, n):
        return augment(self.x[n]), self.y[n]


def augment(x):
    return x.flip(-1) if torch.rand(1).item() < 0.5 else x + 0.01 * random.random() * np.random.rand()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 4, 3, padding=1)
        self.drop = nn.Dropout(0.25)
        self.head = nn.Linear(64, 3)
        self.unused = nn.Linear(2, 2)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.conv1(x))), 2)
        x = self.drop(F.relu(self.conv2(x)))
        return self.head(x.flatten(1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    random.seed(args.seed)
    np.random.seed(args.seed)
    loader = DataLoader(Data(SIZE), batch_size=16, shuffle=True, num_workers=args.workers)
    valid = DataLoader(Data(10), batch_size=4)
    net = Net()
    optimizer = torch.optim.SGD(
        [{"params": net.conv1.parameters()}, {"params": list(net.parameters())[2:], "weight_decay": 0.01}],
        lr=0.1, momentum=0.9,
    )
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    for epoch in range(2):
        net.train()
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            print("loss:", loss.item().hex())
        scheduler.step()
        net.eval()
        with torch.no_grad():
            print("valid", [net(x).sum().item().hex() for x, _ in valid])
    print([p.double().sum().item().hex() for p in net.parameters()])
    print(torch.rand(1).item().hex(), random.random().hex(), np.random.rand().hex())
    torch.save(net, "net.pt")
    print(type(torch.load("net.pt", weights_only=False)).__name__)


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("workers", [0, 2])
def test_the_watched_program_computes_and_prints_the_same(tmp_path: Path, workers: int) -> None:
    entry = f"python train.py --seed {{seed}} --workers {workers}"
    facts, ran, alone = seen_and_alone(tmp_path, TRAIN, entry, seed=3)
    assert ran.out == alone.out
    assert ran.err == alone.err
    assert len(ran.out.splitlines()) == 6 + 2 + 3
    assert [loss.hex() for loss in facts.losses] == [
        line.split()[1].decode() for line in alone.out.splitlines() if line.startswith(b"loss")
    ]
    assert (facts.ended.code, facts.ended.why, facts.steps) == (0, "finished", 6)


def test_all_of_a_model_is_seen_and_three_steps_are_enough(tmp_path: Path) -> None:
    facts = seen(tmp_path, TRAIN)
    assert (facts.ended.code, facts.ended.why, facts.steps) == (0, "enough seen", 3)
    assert facts.unseen == ()
    (net,) = facts.models
    assert net.type == "Net"
    assert {name: row.shape for name, row in net.parameters.items()} == {
        "conv1.weight": (4, 1, 3, 3),
        "conv1.bias": (4,),
        "norm.weight": (4,),
        "norm.bias": (4,),
        "conv2.weight": (4, 4, 3, 3),
        "conv2.bias": (4,),
        "head.weight": (3, 64),
        "head.bias": (3,),
        "unused.weight": (2, 2),
        "unused.bias": (2,),
    }
    dead = {name for name, row in net.parameters.items() if not row.got_gradient}
    assert dead == {"unused.weight", "unused.bias"}
    assert all(len(row.digest) == 16 for row in net.parameters.values())
    calls = {path: module.calls for path, module in net.modules.items()}
    assert calls == {"": 3, "conv1": 3, "norm": 3, "conv2": 3, "drop": 3, "head": 3, "unused": 0}
    assert net.modules["drop"].values == {"p": 0.25, "inplace": False, "training": True}
    assert net.modules["conv2"].type == "Conv2d"
    first, second = facts.optimizers[0]
    assert (first["type"], first["lr"], first["momentum"], first["weight_decay"]) == ("SGD", 0.1, 0.9, 0)
    assert second["weight_decay"] == 0.01
    assert facts.scheduled == ("StepLR",)
    assert facts.batches == (((16, 1, 8, 8), (16,)), ())
    assert facts.lengths == (3, 3)
    assert [len(digest) for digest in facts.batch_digests] == [16, 0]
    assert len(facts.losses) == 3
    assert facts.calls["train.py:Net.forward"] == 3
    assert facts.calls["train.py:augment"] == 48
    assert facts.calls["torch.nn.utils.clip_grad_norm_"] == 3
    assert facts.calls["torch.nn.functional.cross_entropy"] == 3
    assert (facts.operators["aten.convolution"], facts.operators["aten.convolution_backward"]) == (6, 6)
    assert facts.operators["aten.flip"] > 0
    assert facts.settings["SIZE"] == 48
    assert facts.settings["workers"] == 0
    assert facts.seeds == ("torch 0", "random 0", "numpy 0")
    assert {"torch", "numpy", "python"} <= set(facts.versions)


def test_two_runs_give_the_same_facts_and_another_seed_gives_others(tmp_path: Path) -> None:
    entry = "python train.py --seed {seed}"
    first, again, other = (seen(tmp_path, TRAIN, entry, seed=seed) for seed in (1, 1, 2))
    for name in ("models", "optimizers", "batch_digests", "losses", "calls", "operators", "settings", "seeds"):
        assert getattr(first, name) == getattr(again, name)
    assert first.losses != other.losses
    assert first.batch_digests != other.batch_digests
    assert first.models[0].parameters["conv1.weight"].digest != other.models[0].parameters["conv1.weight"].digest
    assert first.models[0].parameters["norm.weight"] == other.models[0].parameters["norm.weight"]


def test_what_loader_workers_do_is_not_seen_and_that_is_said(tmp_path: Path) -> None:
    facts = seen(tmp_path, TRAIN, "python train.py --workers 2")
    assert facts.unseen == ("calls of functions in the processes of loader workers were not counted",)
    assert "train.py:augment" not in facts.calls
    assert (facts.steps, facts.batches[0]) == (3, ((16, 1, 8, 8), (16,)))


def test_what_a_loader_worker_raises_is_told(tmp_path: Path) -> None:
    text = TRAIN.replace("return augment(self.x[n]), self.y[n]", "raise ValueError(f'no example {n}')")
    facts = seen(tmp_path, text, "python train.py --workers 1")
    assert (facts.ended.error, facts.steps) == ("ValueError", 0)
    assert "no example" in facts.ended.message
    assert facts.ended.frame.startswith("train.py:")


def test_facts_before_an_error_are_kept(tmp_path: Path) -> None:
    text = TRAIN.replace("            optimizer.step()\n", "            optimizer.step()\n            net.conv3\n")
    facts = seen(tmp_path, text)
    assert (facts.ended.why, facts.ended.error, facts.steps) == ("raised", "AttributeError", 1)
    assert "in main" in facts.ended.frame
    assert len(facts.losses) == 1
    assert facts.models[0].parameters["conv1.weight"].got_gradient is True


HEAD = "import torch\nfrom torch import nn\ntorch.manual_seed(0)\n"


def test_two_optimizers_take_their_steps_before_it_is_enough(tmp_path: Path) -> None:
    text = HEAD + (
        "make, tell = nn.Linear(2, 3), nn.Sequential(nn.Linear(3, 1))\n"
        "a, b = torch.optim.Adam(tell.parameters(), lr=0.1), torch.optim.SGD(make.parameters(), lr=0.2)\n"
        "while True:\n"
        "    a.zero_grad(); tell(make(torch.randn(4, 2)).detach()).mean().backward(); a.step()\n"
        "    b.zero_grad(); tell(make(torch.randn(4, 2))).mean().backward(); b.step()\n"
    )
    facts = seen(tmp_path, text, steps=2)
    assert (facts.ended.why, facts.steps) == ("enough seen", 4)
    assert [[group["type"] for group in groups] for groups in facts.optimizers] == [["Adam"], ["SGD"]]
    assert [set(model.parameters) for model in facts.models] == [{"0.weight", "0.bias"}, {"weight", "bias"}]


def test_a_container_that_is_never_called_itself_is_the_model(tmp_path: Path) -> None:
    text = HEAD + (
        "class All(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.body, self.frozen = nn.Linear(3, 3), nn.Linear(3, 3).requires_grad_(False)\n"
        "    def loss(self, x): return self.frozen(self.body(x)).pow(2).mean()\n"
        "net = All()\n"
        "optimizer = torch.optim.SGD(net.body.parameters(), lr=0.1)\n"
        "for _ in range(9):\n"
        "    optimizer.zero_grad(); net.loss(torch.ones(2, 3)).backward(); optimizer.step()\n"
    )
    facts = seen(tmp_path, text)
    (model,) = facts.models
    assert model.type == "All"
    assert {name: (row.trainable, row.got_gradient) for name, row in model.parameters.items()} == {
        "body.weight": (True, True),
        "body.bias": (True, True),
        "frozen.weight": (False, False),
        "frozen.bias": (False, False),
    }
    assert (model.modules[""].calls, model.modules["frozen"].calls) == (0, 3)
    assert facts.batches == (((2, 3),),)  # without a loader: what the first module was given


def test_a_gradient_of_nothing_but_zeros_is_dead(tmp_path: Path) -> None:
    text = HEAD + (
        "a, b = nn.Linear(3, 3), nn.Linear(3, 1)\n"
        "net = nn.Sequential(a, b)\n"
        "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "while True:\n"
        "    optimizer.zero_grad(); b(0.0 * a(torch.ones(2, 3))).sum().backward(); optimizer.step()\n"
    )
    rows = seen(tmp_path, text).models[0].parameters
    assert {name for name, row in rows.items() if not row.got_gradient} == {"0.weight", "0.bias", "1.weight"}


def test_without_an_optimizer_calls_of_backward_are_steps(tmp_path: Path) -> None:
    text = HEAD + (
        "net = nn.Linear(3, 1)\n"
        "while True:\n"
        "    net.zero_grad(); net(torch.ones(2, 3)).sum().backward()\n"
        "    with torch.no_grad():\n"
        "        for p in net.parameters(): p -= 0.1 * p.grad\n"
    )
    facts = seen(tmp_path, text)
    assert (facts.ended.why, facts.steps, facts.optimizers) == ("enough seen", 3, ())
    assert facts.models[0].type == "Linear"
    assert facts.unseen == ("there is no optimizer: calls of backward were counted as steps",)


def test_tensors_that_belong_to_no_module_are_seen(tmp_path: Path) -> None:
    text = HEAD + (
        "w = torch.zeros(3, requires_grad=True)\n"
        "optimizer = torch.optim.Adam([w], lr=0.1)\n"
        "for _ in range(5): optimizer.zero_grad(); (w - 1).pow(2).sum().backward(); optimizer.step()\n"
    )
    (model,) = seen(tmp_path, text).models
    assert (model.type, model.parameters["0"].shape, model.parameters["0"].got_gradient) == ("Tensor", (3,), True)


@pytest.mark.thorough
def test_a_compiled_model_stays_compiled(tmp_path: Path) -> None:
    text = HEAD + (
        "net = nn.Linear(3, 1)\n"
        "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "compiled = torch.compile(net, backend='aot_eager')\n"
        "for _ in range(3):\n"
        "    optimizer.zero_grad(); loss = compiled(torch.ones(2, 3)).sum(); loss.backward(); optimizer.step()\n"
        "    print(loss.item().hex())\n"
        "from torch._dynamo.utils import counters\n"
        "print('is compiled:', counters['frames']['ok'] > 0)\n"
    )
    facts, ran, alone = seen_and_alone(tmp_path, text)
    assert ran.out == alone.out
    assert b"is compiled: True" in ran.out
    assert facts.unseen == ("calls of modules and operators were not counted: the program compiles its model",)
    assert set(facts.models[0].parameters) == {"weight", "bias"}


def test_an_experiment_is_watched_as_a_script_is(tmp_path: Path) -> None:
    text = (
        "import torch\nfrom torch import nn\nimport etude\n"
        "def model(width: int = 4): return nn.Sequential(nn.Linear(2, width), nn.Linear(width, 1))\n"
        "def data():\n"
        "    x = torch.randn(12, 2)\n"
        "    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x.sum(1)), batch_size=4)\n"
        "def train(model, data, run, *, lr: float = 0.1, epochs: int = 5):\n"
        "    net, loader = model(), data()\n"
        "    optimizer = torch.optim.SGD(net.parameters(), lr=lr)\n"
        "    for epoch in run.epochs(epochs):\n"
        "        for x, y in loader:\n"
        "            optimizer.zero_grad()\n"
        "            loss = (net(x).squeeze(1) - y).pow(2).mean()\n"
        "            loss.backward()\n"
        "            optimizer.step()\n"
        "    return loss.item()\n"
        "experiment = etude.Experiment(train, model=model, data=data, metric='loss', mode='min')\n"
    )
    facts = seen(tmp_path, text, "train.py:experiment", seed=1)
    assert (facts.ended.why, facts.ended.traceback, facts.steps) == ("enough seen", "", 3)
    assert facts.models[0].parameters["0.weight"].shape == (4, 2)
    assert facts.batches[0] == ((4, 2), (4,))
    whole = seen(tmp_path, text, "train.py:experiment", seed=1, steps=1_000)
    assert (whole.ended.why, whole.steps, set(whole.metrics)) == ("finished", 15, {"loss"})
    assert whole.losses[:3] == facts.losses


def test_calls_that_methods_of_a_model_make_apart_from_its_own_are_told(tmp_path: Path) -> None:
    text = """
        import torch
        from torch import nn

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.code, self.head = nn.Sequential(nn.Linear(4, 4)), nn.Linear(4, 1)
            def encode(self, x):
                return self.code(x)
            def forward(self, x):
                return self.head(self.encode(x))

        net = Net()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            x = torch.ones(2, 4)
            (net(x).mean() + net.encode(x).mean() + net.encode(2 * x).mean()).backward()
            optimizer.step()
    """
    modules = seen(tmp_path, textwrap.dedent(text)).models[0].modules
    assert {path: (one.calls, one.apart) for path, one in modules.items()} == {
        "": (3, 3),
        "code": (9, 6),
        "code.0": (9, 0),
        "head": (3, 0),
    }


def test_calls_of_a_copy_of_a_model_are_told_with_its_own_and_those_of_another_model_are_not(tmp_path: Path) -> None:
    text = """
        import copy
        import torch
        from torch import nn

        def net():
            return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))

        model, other, x = net(), nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1)), torch.ones(2, 4)
        average = copy.deepcopy(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            (model(x) + other(x).detach()).mean().backward()
            optimizer.step()
        with torch.no_grad():
            average(x), average(x), average(x)
    """
    (found,) = seen(tmp_path, textwrap.dedent(text)).models
    assert {path: (one.calls, one.apart) for path, one in found.modules.items()} == {
        "": (5, 5),
        "0": (5, 0),
        "1": (5, 0),
        "2": (5, 0),
    }
    assert found.modules["1"].operators["aten.relu"] == 5
