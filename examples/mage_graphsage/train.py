"""Trains GraphSAGE on Cora, or on a graph of its kind that is drawn if there is none."""

import argparse
import json
import os
from pathlib import Path

import numpy as np
import torch
from layers import SAGEConv


#ABLATION_HINT_START
# The ablation study should consist of the following layer ablation trials on GraphSAGE:
# - the second layer removed
# - the third layer removed
# - the fourth layer removed
# - the second, third, and fourth layers removed, while the number of output neurons of the first layer is 8
# - the second, third, and fourth layers removed, while the number of output neurons of the first layer is 64
#ABLATION_HINT_END
class GraphSAGE(torch.nn.Module):
    def __init__(self, dim_in, dim_out):
        super().__init__()
        self.sage1 = SAGEConv(dim_in, 32)
        self.sage2 = SAGEConv(32, 24)
        self.sage3 = SAGEConv(24, 16)
        self.sage4 = SAGEConv(16, 8)
        self.sage5 = SAGEConv(8, dim_out)

    def forward(self, x, edges):
        x = torch.nn.functional.relu(self.sage1(x, edges))
        x = torch.nn.functional.relu(self.sage2(x, edges))
        x = torch.nn.functional.relu(self.sage3(x, edges))
        x = torch.nn.functional.relu(self.sage4(x, edges))
        return self.sage5(x, edges)


def load(path):
    """Return features, labels, edges in both directions, and the nodes to train and to test with."""
    if path:
        graph = np.load(path)
        n, width = (int(one) for one in graph["shape"])
        rows = np.repeat(np.arange(n), np.diff(graph["indptr"]))
        x = np.zeros((n, width), dtype="float32")
        x[rows, graph["indices"]] = 1.0
        y, pairs, train, test = graph["y"], graph["edges"], graph["train_idx"], graph["test_idx"]
    else:  # papers of seven fields that mostly cite their own
        draw = np.random.default_rng(0)
        n, width = 210, 40
        y = draw.integers(0, 7, n)
        x = (draw.random((n, width)) < 0.05 + 0.5 * (np.arange(width) % 7 == y[:, None])).astype("float32")
        pairs = draw.integers(0, n, (4 * n, 2))
        pairs = pairs[(y[pairs[:, 0]] == y[pairs[:, 1]]) | (draw.random(len(pairs)) < 0.2)]
        train, test = np.arange(140), np.arange(140, n)
    both = np.concatenate([pairs, pairs[:, ::-1]]).T.astype("int64")
    whole = (part.astype("int64") for part in (y, both, train, test))
    return (torch.from_numpy(part) for part in (x, *whole))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", default=os.environ.get("CORA", ""), help="cora.npz")
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--quick", action="store_true", help="ten epochs")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    x, y, edges, train, test = load(args.data)
    model = GraphSAGE(x.shape[1], int(y.max()) + 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    loss_of = torch.nn.CrossEntropyLoss()
    for epoch in range(10 if args.quick else args.epochs):
        model.train()
        optimizer.zero_grad()
        loss = loss_of(model(x, edges)[train], y[train])
        loss.backward()
        optimizer.step()
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1}: loss: {loss.item():.4f}", flush=True)
    model.eval()
    with torch.no_grad():
        found = (model(x, edges)[test].argmax(1) == y[test]).float().mean().item()
    print(f"accuracy: {found:.4f}")
    Path("metrics.json").write_text(json.dumps({"accuracy": found}))


if __name__ == "__main__":
    main()
