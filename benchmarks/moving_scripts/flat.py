"""Recognise handwritten digits."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

BATCH_SIZE = 50
WIDTH = 64
DROPOUT = 0.1
LR = 0.1
EPOCHS = 5

torch.manual_seed(0)

digits = load_digits()
x, y = torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target)
train_loader = DataLoader(TensorDataset(x[:1200], y[:1200]), BATCH_SIZE, shuffle=True)
valid_loader = DataLoader(TensorDataset(x[1200:], y[1200:]), batch_size=200)

model = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Dropout(DROPOUT), nn.Linear(WIDTH, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)

for epoch in range(EPOCHS):
    model.train()
    for x, y in train_loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        right = sum((model(x).argmax(1) == y).sum().item() for x, y in valid_loader)
    accuracy = right / len(valid_loader.dataset)
    print(f"epoch {epoch}: accuracy {accuracy:.4f}")

print("accuracy", accuracy)
