"""Recognise handwritten digits."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import etude


def make_data(batch_size=50):
    digits = load_digits()
    x, y = torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target)
    train_loader = DataLoader(TensorDataset(x[:1200], y[:1200]), batch_size, shuffle=True)
    return train_loader, DataLoader(TensorDataset(x[1200:], y[1200:]), batch_size=200)


def make_model(width=64, dropout=0.1):
    return nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(width, 10))


def evaluate(model, loader):
    model.eval()
    with torch.no_grad():
        right = sum((model(x).argmax(1) == y).sum().item() for x, y in loader)
    return right / len(loader.dataset)


def train(model, data, run, lr=0.1, epochs=5):
    model = model()
    train_loader, valid_loader = data()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    for epoch in range(epochs):
        model.train()
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        accuracy = evaluate(model, valid_loader)
        print(f"epoch {epoch}: accuracy {accuracy:.4f}")
        run.report(accuracy=accuracy)
    return accuracy


experiment = etude.Experiment(train, model=make_model, data=make_data, metric="accuracy", mode="max")

if __name__ == "__main__":
    search = experiment.tune({"lr": etude.loguniform(0.01, 1.0)}, trials=8)
    print(experiment.ablate(["layer:1", "dropout"], at=search.best, seeds=7).summary())
    accuracy = experiment.fit(at=search.best, ranks=2).value
    print("accuracy", accuracy)
