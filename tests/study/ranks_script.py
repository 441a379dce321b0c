"""A script whose trials several ranks train, wherever their workers are.

Whoever uses it adds what a rank says when it begins, ``tell(run)``, what may hold it in the middle, ``hold(run)``, and
what is run.
"""

from __future__ import annotations

RANKS_SCRIPT = """
    import json, os, sys, time
    from pathlib import Path
    import etude, torch
    from torch import nn
    from torch.nn import functional as F
    from torch.utils.data import DataLoader, TensorDataset

    PROJECT = Path(os.getcwd())

    def model():
        return nn.Linear(4, 2).double()

    def data():
        x = torch.randn(36, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        return DataLoader(TensorDataset(x, (x.sum(1) > 0).long()), batch_size=8, shuffle=True)

    def train(model, data, run, lr: float, epochs: int = 4):
        net, loader = model(), data()
        kept = run.keep(net=net, optimizer=torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9))
        tell(run)
        (run.folder / "weights.bin").write_bytes(b"w" * 300_000)
        for epoch in run.epochs(epochs):
            for x, y in loader:
                kept.optimizer.zero_grad()
                loss = F.cross_entropy(net(x) + 0.1 * torch.randn(len(x), 2, dtype=torch.float64), y)
                loss.backward()
                kept.optimizer.step()
            run.report(loss=loss.item())
            if epoch == 2:
                hold(run)

    experiment = etude.Experiment(train, model=model, data=data, metric="loss", mode="min")
"""
