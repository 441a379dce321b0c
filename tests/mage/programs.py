"""Small programs as somebody writes them: what variants are made of. ``METRICS`` stands for the agreed file."""

CNN = """
import argparse, random
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 2
LR = 0.05
MOMENTUM = 0.9


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, kernel_size=3, padding=1)
        self.conv2 = nn.Conv2d(8, 16, kernel_size=3, padding=1)
        self.conv3 = nn.Conv2d(16, 16, kernel_size=3, padding=1)
        self.bn = nn.BatchNorm2d(16)
        self.pool = nn.MaxPool2d(2, 2)
        self.fc1 = nn.Linear(16 * 2 * 2, 32)
        self.fc2 = nn.Linear(32, 10)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        x = self.pool(F.relu(self.conv1(x)))
        x = self.pool(F.relu(self.conv2(x)))
        x = self.pool(F.relu(self.bn(self.conv3(x))))
        x = x.view(x.size(0), -1)
        x = self.dropout(F.relu(self.fc1(x)))
        return self.fc2(x)


def load(n):
    generator = torch.Generator().manual_seed(7)
    x = torch.randn(n, 3, 16, 16, generator=generator)
    y = torch.randint(0, 10, (n,), generator=generator)
    return TensorDataset((x - 0.5) / 0.5, y)


def evaluate(net, loader):
    net.eval()
    right = 0
    with torch.no_grad():
        for x, y in loader:
            right += int((net(x).argmax(1) == y).sum())
    return right / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    np.random.seed(args.seed)
    random.seed(args.seed)
    train = DataLoader(load(48), batch_size=16, shuffle=True)
    test = DataLoader(load(30), batch_size=10)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=LR, momentum=MOMENTUM)
    for epoch in range(EPOCHS):
        net.train()
        for x, y in train:
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
        METRICS["accuracy"] = evaluate(net, test)


main()
"""

SAGE = """
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class SAGE(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.own = nn.Linear(n_in, n_out)
        self.near = nn.Linear(n_in, n_out, bias=False)

    def forward(self, x, adjacency):
        return self.own(x) + self.near(mean_of_neighbours(x, adjacency))


def mean_of_neighbours(x, adjacency):
    return adjacency @ x / adjacency.sum(1, keepdim=True).clamp(min=1)


class GraphSAGE(nn.Module):
    def __init__(self, dim_in, dim_out):
        super().__init__()
        self.sage1 = SAGE(dim_in, 32)
        self.sage2 = SAGE(32, 32)
        self.sage3 = SAGE(32, 16)
        self.sage4 = SAGE(16, dim_out)

    def forward(self, x, adjacency):
        h = F.relu(self.sage1(x, adjacency))
        h = F.dropout(h, p=0.5, training=self.training)
        h = F.relu(self.sage2(h, adjacency))
        h = F.dropout(h, p=0.5, training=self.training)
        h = F.relu(self.sage3(h, adjacency))
        h = F.dropout(h, p=0.5, training=self.training)
        return F.log_softmax(self.sage4(h, adjacency), dim=1)


def main():
    x = torch.randn(60, 12)
    y = torch.randint(0, 4, (60,))
    adjacency = (torch.rand(60, 60) < 0.1).float()
    net = GraphSAGE(12, 4)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=5e-4)
    for epoch in range(20):
        optimizer.zero_grad()
        loss = F.nll_loss(net(x, adjacency)[:40], y[:40])
        loss.backward()
        optimizer.step()
    METRICS["accuracy"] = float((net(x, adjacency).detach()[40:].argmax(1) == y[40:]).float().mean())


main()
"""

STACK = """
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Tower(nn.Module):
    def __init__(self, depth=3, width=16):
        super().__init__()
        self.embed = nn.Embedding(50, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, 50, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x):
        h = self.embed(x)
        for block in self.blocks:
            h = block(h)
        return self.head(h)


def main():
    tokens = torch.randint(0, 50, (24, 9))
    net = Tower()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for step in range(10):
        batch = tokens[torch.randperm(24)[:8]]
        optimizer.zero_grad()
        loss = F.cross_entropy(net(batch[:, :-1]).reshape(-1, 50), batch[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
    METRICS["loss"] = loss.item()


main()
"""

TABLE = """
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from xgboost import XGBClassifier

FEATURES = ["DER_mass_MMC", "DER_pt_h", "PRI_tau_pt", "PRI_met", "PRI_jet_num"]
SEED = 0


def table():
    draws = np.random.default_rng(3)
    frame = pd.DataFrame({name: draws.normal(size=120) for name in ["EventId", *FEATURES, "Weight"]})
    frame["Label"] = (frame["DER_mass_MMC"] + 0.5 * frame["PRI_met"] + draws.normal(size=120) > 0).astype(int)
    return frame


def split(frame):
    order = np.random.default_rng(SEED).permutation(len(frame))
    return frame.iloc[order[:90]], frame.iloc[order[90:]]


def score(model, x, y):
    return float((model.predict(x) == y).mean())


def main():
    train, test = split(table())
    model = XGBClassifier(n_estimators=8, max_depth=3, learning_rate=0.3, random_state=SEED)
    model.fit(train[FEATURES], train["Label"])
    METRICS["accuracy"] = score(model, test[FEATURES], test["Label"])


main()
"""

ARRAYS = TABLE.replace(
    """    model = XGBClassifier(n_estimators=8, max_depth=3, learning_rate=0.3, random_state=SEED)
    model.fit(train[FEATURES], train["Label"])
    METRICS["accuracy"] = score(model, test[FEATURES], test["Label"])
""",
    """    scaler = StandardScaler().fit(train[FEATURES].values)
    model = LogisticRegression(C=1.0)
    model.fit(scaler.transform(train[FEATURES].values), train["Label"].values)
    METRICS["accuracy"] = score(model, scaler.transform(test[FEATURES].values), test["Label"].values)
""",
)

TRICKS = """
import argparse
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--dropout", type=float, default=0.3)
parser.add_argument("--smooth", type=float, default=0.1)
parser.add_argument("--augment", type=int, default=1)
parser.add_argument("--weight-decay", type=float, default=0.01)
args = parser.parse_args()
torch.manual_seed(args.seed)


def jitter(x):
    return x + 0.1 * torch.randn_like(x)


class Points(Dataset):
    def __init__(self, n, augment):
        generator = torch.Generator().manual_seed(5)
        self.x = torch.randn(n, 6, generator=generator)
        self.y = (self.x.sum(1) > 0).long()
        self.augment = augment

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        x = self.x[i]
        if self.augment:
            x = jitter(x)
        return x, self.y[i]


class MLP(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(p), nn.Linear(16, 16), nn.ReLU())
        self.head = nn.Linear(16, 2)
        self.aux = nn.Linear(16, 6)

    def forward(self, x):
        h = self.body(x)
        return self.head(h), self.aux(h)


def rebuild(x, again):
    return F.mse_loss(again, x)


def total(net, x, y):
    logits, again = net(x)
    return F.cross_entropy(logits, y) + args.smooth * rebuild(x, again)


def accuracy(net, data):
    net.eval()
    with torch.no_grad():
        return float((net(data.x)[0].argmax(1) == data.y).float().mean())


def main():
    loader = DataLoader(Points(48, args.augment), batch_size=12, shuffle=True)
    net = MLP(args.dropout)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01, weight_decay=args.weight_decay)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    for epoch in range(3):
        net.train()
        for x, y in loader:
            optimizer.zero_grad()
            loss = total(net, x, y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
        scheduler.step()
        METRICS["accuracy"] = accuracy(net, Points(30, False))


main()
"""
