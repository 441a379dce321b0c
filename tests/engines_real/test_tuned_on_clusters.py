"""Machines are tuned while models train on Ray and on Spark: the same function, and the numbers of this machine."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from apart import from_others, started
from support import write_script

import etude
from etude.core.system import Phase

if sys.platform != "linux":
    pytest.skip("what is left of a script is told by what /proc says", allow_module_level=True)
pytest.importorskip("torch", reason="PyTorch is not installed, and loaders are its own")

SCRIPT = """
    import sys
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset
    import etude

    def model():
        return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))

    def data():
        x = torch.randn(512, 4, generator=torch.Generator().manual_seed(0))
        return DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), 16, shuffle=True)

    def train(model, data, run, *, lr: float = 0.1, epochs: int = 8):
        net, loader = model(), data()
        optimizer = torch.optim.SGD(net.parameters(), lr=lr)
        for _ in run.epochs(epochs):
            for x, y in loader:
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(net(x), y)
                loss.backward()
                optimizer.step()
            run.report(loss=loss.item())

    experiment = etude.Experiment(train, model=model, data=data, metric="loss", mode="min")

    if __name__ == "__main__":
        system = etude.System(knobs=["loader_workers", "prefetch"], history="history.sqlite", probes=3)
        search = experiment.tune(
            {"lr": [0.1, 0.05]}, sampler="grid", workers=2, engine=sys.argv[1], name="study", resources="cpus=1",
            system=system,
        )
        print(search.counts())
"""


@pytest.mark.parametrize(("engine", "package"), [("ray", "ray"), ("spark", "pyspark")])
def test_a_tuned_search_gives_the_numbers_of_this_machine(tmp_path: Path, engine: str, package: str) -> None:
    pytest.importorskip(package, reason=f"{package} is not installed")
    curves = {}
    for name in ("local", engine):
        (tmp_path / name).mkdir()
        with (
            from_others() as environment,
            started(write_script(tmp_path / name, SCRIPT), name, environment=environment) as driver,
        ):
            assert driver.end().splitlines()[-1] == "{'finished': 2}"
        search = etude.open(driver.study)
        curves[name] = [trial.curve for trial in search.trials]
        decided = search.machines.decided
        assert len(decided) == 16
        assert any(one.phase is Phase.PROBE and one.setting for one in decided)
    assert curves["local"] == curves[engine]
