"""The demo: tune a small PyTorch CNN on real images, with two workers, in well under a minute.

    etude demo

It is written as your own script would be: three functions, an experiment, and what to do with it. The
images are scikit-learn's 1,797 handwritten digits, which lie on disk. They are split once into training,
validation and test images; the search chooses on the validation images alone.
"""
# ruff: noqa: T201 - a script talks to the person who started it

from __future__ import annotations

from typing import Any, Final

import etude
from etude.core.text import show
from etude.worker.processes import available_cores

try:
    import torch
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
    from torch import nn, optim
    from torch.utils.data import DataLoader, TensorDataset
except ModuleNotFoundError as missing:
    raise SystemExit(
        f"The demo needs PyTorch and scikit-learn, and {missing.name!r} is not installed. "
        "Run: pip install torch scikit-learn"
    ) from None

NAME: Final = "digits-demo"
WORKERS: Final = 2
SPACE: Final = {
    "lr": etude.loguniform(1e-3, 1.0),
    "width": etude.ordered([8, 16, 32]),
    "dropout": etude.uniform(0.0, 0.5),
    "batch_size": etude.ordered([32, 64, 128]),
}


def model(width: int = 16, dropout: float = 0.1) -> nn.Module:
    """Return a small convolutional network for images of 8 by 8."""
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1),
        nn.BatchNorm2d(2 * width),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(2 * width * 2 * 2, 10),
    )


def data(batch_size: int = 64) -> etude.Data:
    """Return loaders of training, validation and test images; which image is in which never changes."""
    images, labels = load_digits(return_X_y=True)
    rest, test = train_test_split(range(len(labels)), test_size=360, random_state=0, stratify=labels)
    train, valid = train_test_split(rest, test_size=360, random_state=0, stratify=labels[rest])
    x = torch.tensor(images / 16, dtype=torch.float32).reshape(-1, 1, 8, 8)
    y = torch.tensor(labels)

    def loader(rows: list[int], **settings: Any) -> DataLoader[Any]:
        return DataLoader(TensorDataset(x[rows], y[rows]), **settings)

    return etude.Data(
        loader(train, batch_size=batch_size, shuffle=True),
        loader(valid, batch_size=360),
        loader(test, batch_size=360),
    )


def train(
    model: Any, data: Any, run: Any, *, lr: float, epochs: int = 12, final: etude.Stateless[bool] = False
) -> dict[str, float]:
    """Train a network and return its accuracy."""
    net, (train_loader, valid_loader, test_loader) = model(), data()
    optimizer = optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for _ in run.epochs(epochs):
        net.train()
        for images, labels in train_loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(images), labels)
            loss.backward()
            optimizer.step()
        schedule.step()
        run.report(accuracy=accuracy(net, valid_loader))
    result = {"accuracy": accuracy(net, valid_loader)}
    if final:  # once, after everything was chosen
        result["test_accuracy"] = accuracy(net, test_loader)
    return result


@torch.no_grad()
def accuracy(net: nn.Module, loader: DataLoader[Any]) -> float:
    """Return the share of images that a network names rightly."""
    net.eval()
    right = [(net(images).argmax(1) == labels).float() for images, labels in loader]
    return float(torch.cat(right).mean())


experiment = etude.Experiment(train, model=model, data=data, metric="accuracy", mode="max")


def tune(*, trials: int = 24, epochs: int = 12, progress: bool | None = None) -> etude.Search:
    """Run the search of the demo, or go on with it."""
    return experiment.tune({**SPACE, "epochs": epochs}, trials=trials, workers=WORKERS, name=NAME, progress=progress)


def main(*, trials: int = 24, epochs: int = 12, progress: bool | None = None) -> float:
    """Run the demo, or go on with it, or show what came of it; return the winner's test accuracy."""
    search = tune(trials=trials, epochs=epochs, progress=progress)
    print(search.summary())
    print("\nThe five best, by accuracy on the validation images:\n")
    print(f"{'trial':>7}{'accuracy':>10}" + "".join(f"{name:>12}" for name in SPACE))
    for trial in search.top(5):
        print(f"{trial.number:>7}{trial.value:>10.4f}" + "".join(f"{show(trial.params[n]):>12}" for n in SPACE))

    best = search.best
    torch.set_num_threads(max(1, available_cores() // WORKERS))  # as in a trial: the same numbers, to the last bit
    result = experiment.run(**best.params, seed=best.seed, final=True)
    again = "the same as" if result["accuracy"] == best.value else f"{result['accuracy']:.4f}, which differs from"
    print(f"\nThe winner once more, as a plain call: validation accuracy is {again} in the search.")
    print(f"Accuracy on 360 test images that neither training nor search has seen: {result['test_accuracy']:.4f}")
    print(f"\nThe study is in {search.folder}. Show it again:   etude show {NAME}")
    print(f"The demo does not run twice what has ended. Start over:   rm -r {search.folder}")
    return float(result["test_accuracy"])


if __name__ == "__main__":
    from etude import demo  # noqa: PLW0406 - as `etude demo` does: one module, one definition, one study

    demo.main()
