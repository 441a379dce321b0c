"""Recognise handwritten digits."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


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


def train(lr=0.1, epochs=5):
    model = make_model()
    train_loader, valid_loader = make_data()
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
    return accuracy


if __name__ == "__main__":
    torch.manual_seed(0)
    accuracy = train()
    print("accuracy", accuracy)
