"""Small programs as people mark them, and what is seen of their networks when they are really built."""

from __future__ import annotations

from typing import Any

from etude.mage.facts import Ended, Facts, FitFacts, ModelFacts, ModuleFacts, ParameterFacts
from etude.mage.tree import Tree

CNN = '''\
"""Listing 1 of the paper, with what it leaves out."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn, optim


class CIFAR10CNN(nn.Module):
    def __init__(self):
        super(CIFAR10CNN, self).__init__()
        self.conv1 = nn.Conv2d(3, 32, kernel_size=3, padding=1)
        self.conv2 = nn.Conv2d(32, 64, kernel_size=3, padding=1)  #ABLATABLE_COMPONENT
        self.conv3 = nn.Conv2d(64, 128, kernel_size=3, padding=1)
        self.pool = nn.MaxPool2d(2, 2)
        self.fc1 = nn.Linear(128 * 4 * 4, 512)  # ABLATABLE_COMPONENT
        self.fc2 = nn.Linear(512, 10)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        x = self.pool(F.relu(self.conv1(x)))
        x = self.pool(F.relu(self.conv2(x)))
        x = self.pool(F.relu(self.conv3(x)))
        x = x.view(-1, 128 * 4 * 4)
        x = self.dropout(F.relu(self.fc1(x)))
        return self.fc2(x)


def train(net, loader, *, clip=True):
    optimizer = optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    scheduler = optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
    scheduler.step()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    torch.manual_seed(parser.parse_args().seed)
    train(CIFAR10CNN(), [])
'''

SAGE = '''\
import torch
import torch.nn.functional as F


class SAGEConv(torch.nn.Module):
    """A layer of GraphSAGE, by hand: the maximum over neighbours."""

    def __init__(self, dim_in, dim_out):
        super().__init__()
        self.lin_l = torch.nn.Linear(dim_in, dim_out)
        self.lin_r = torch.nn.Linear(dim_in, dim_out, bias=False)

    def forward(self, x, neighbours):
        return self.lin_l(x[neighbours].amax(1)) + self.lin_r(x)


#ABLATION_HINT_START
# The ablation study should consist of the following layer ablation trials on GraphSAGE:
# - the second layer removed
# - the third layer removed
# - the fourth layer removed
# - the second, third, and fourth layers removed, while the number of output neurons of the first layer is 8
# - the second, third, and fourth layers removed, while the number of output neurons of the first layer is 64
# ABLATION_HINT_END
class GraphSAGE(torch.nn.Module):
    def __init__(self, dim_in, dim_out):
        super().__init__()
        self.sage1 = SAGEConv(dim_in, 32)
        self.sage2 = SAGEConv(32, 16)
        self.sage3 = SAGEConv(16, 8)
        self.sage4 = SAGEConv(8, 8)
        self.sage5 = SAGEConv(8, dim_out)

    def forward(self, x, neighbours):
        x = F.relu(self.sage1(x, neighbours))
        x = F.relu(self.sage2(x, neighbours))
        x = F.relu(self.sage3(x, neighbours))
        x = F.relu(self.sage4(x, neighbours))
        return self.sage5(x, neighbours)
'''

SIX = (
    "DER_mass_transverse_met_lep",
    "DER_mass_vis",
    "DER_pt_h",
    "DER_deltaeta_jet_jet",
    "DER_deltar_tau_lep",
    "DER_mass_jet_jet",
)
COLUMNS = ("EventId", "DER_mass_MMC", *SIX, "DER_prodeta_jet_jet", "PRI_tau_pt", "PRI_met", "Weight", "Label")

HIGGS = """\
import pandas as pd
import xgboost as xgb


def main():
    data = pd.read_csv('training.csv')
    #ABLATION_HINT_START
    # The ablation study should consist of the following feature ablation trials:
{items}
    # - remove pairs of the above features, one pair at a time
    #ABLATION_HINT_END
    data['Label'] = data['Label'].map({{'s': 1, 'b': 0}})
    X = data.drop(columns=['EventId', 'Weight', 'Label'])
    y = data['Label']
    model = xgb.XGBClassifier(n_estimators=20)
    model.fit(X, y)


if __name__ == '__main__':
    main()
"""


def higgs(names: tuple[str, ...] = SIX) -> str:
    """Return listing 4 of the paper with some features in its hint."""
    return HIGGS.format(items="\n".join(f"    # - remove '{name}'" for name in names))


def tree_of(**files: str) -> Tree:
    """Return a tree of files; ``train`` stands for ``train.py``, and ``conf__base_yaml`` for ``conf/base.yaml``."""
    suffixes = ("yaml", "toml", "json")
    named = {}
    for name, text in files.items():
        path = name.replace("__", "/")
        stem, _, suffix = path.rpartition("_")
        named[f"{stem}.{suffix}" if suffix in suffixes else f"{path}.py"] = text.encode()
    return Tree(named)


def facts_of_network(net: Any, *shape: int) -> Facts:
    """Return what is seen of a network of torch: its parameters, its modules, and the first batch."""
    parameters = {name: ParameterFacts(shape=tuple(one.shape)) for name, one in net.named_parameters()}
    modules = {name: ModuleFacts(type=type(one).__name__) for name, one in net.named_modules()}
    model = ModelFacts(type=type(net).__name__, parameters=parameters, modules=modules)
    return Facts(ended=Ended(code=0, why="finished"), steps=3, models=(model,), batches=((shape,),) if shape else ())


def facts_of_source(source: str, name: str, *arguments: Any, batch: tuple[int, ...] = ()) -> Facts:
    """Return what is seen of a network that a source defines."""
    return facts_of_network(built(source, name, *arguments), *batch)


def built(source: str, name: str, *arguments: Any) -> Any:
    """Return an object that a source defines."""
    space: dict[str, Any] = {"__name__": "program"}
    exec(compile(source, "program.py", "exec"), space)
    return space[name](*arguments)


def facts_of_table() -> Facts:
    """Return what is seen of the program on a table."""
    columns = tuple(name for name in COLUMNS if name not in ("EventId", "Weight", "Label"))
    return Facts(ended=Ended(code=0, why="finished"), fits=(FitFacts(type="XGBClassifier", rows=100, columns=columns),))
