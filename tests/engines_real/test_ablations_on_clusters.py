"""An ablation on Ray and on Spark: the numbers of this machine, and pairs that begin alike."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from apart import from_others, started
from support import write_script

import etude

if sys.platform != "linux":
    pytest.skip("what is left of a script is told by what /proc says", allow_module_level=True)
pytest.importorskip("torch", reason="PyTorch is not installed, and layers are taken out of its models")

SCRIPT = """
    import sys
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset
    import etude

    def model():
        return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.Linear(8, 2))

    def data():
        x = torch.randn(32, 4, generator=torch.Generator().manual_seed(0))
        loader = DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), 8, shuffle=True)
        return etude.Data(loader, features=["a", "b", "c", "d"])

    def train(model, data, run, lr: float = 0.1):
        net, parts = model(), data()
        optimizer = torch.optim.SGD(net.parameters(), lr=lr)
        for _ in run.epochs(2):
            for x, y in parts.train:
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(net(x), y)
                loss.backward()
                optimizer.step()
        return loss.item()

    experiment = etude.Experiment(train, model=model, data=data, metric="loss", mode="min")

    if __name__ == "__main__":
        ablation = experiment.ablate(
            ["layer:2", "feature:a"], seeds=2, workers=2, engine=sys.argv[1], name="study", resources="cpus=1",
            force=True,
        )
        print(ablation.counts())
"""


@pytest.mark.parametrize(("engine", "package"), [("ray", "ray"), ("spark", "pyspark")])
def test_an_ablation_gives_the_numbers_of_this_machine(tmp_path: Path, engine: str, package: str) -> None:
    pytest.importorskip(package, reason=f"{package} is not installed")
    values = {}
    for name in ("local", engine):
        (tmp_path / name).mkdir()
        with (
            from_others() as environment,
            started(write_script(tmp_path / name, SCRIPT), name, environment=environment) as driver,
        ):
            assert driver.end().splitlines()[-1] == "{'finished': 6}"
        ablation = etude.open(driver.study)
        assert isinstance(ablation, etude.Ablation)
        values[name] = {arm.name: arm.values for arm in ablation.arms}
        for arm in ("layer:2", "feature:a"):
            assert all(pair.is_pair and pair.batches for pair in ablation.pairing(arm).values())
    assert values["local"] == values[engine]
