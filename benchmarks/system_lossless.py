"""Whether a training whose settings change at random moments is the training that nobody touched."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.common import Benchmark, Cell, Quantity, Result, Target

POINTS: Final = 170
"""So many changes of settings that change no number, in each training; over 500 in three of them."""

EPOCHS: Final = 4
ROUNDING: Final = ("threads", "channels_last", "compile")
TIMES: Final = 8
"""So many changes of each setting that changes numbers by rounding."""

AT_ONCE: Final = 10
LATER: Final = 50
"""Losses are compared over so many steps after such a change, and once more after so many."""

NEAR: Final = 1e-5
TRAININGS: Final = ("digits", "augmented by index", "augmented by chance", "by importance")


def cells(small: bool) -> Sequence[Cell]:
    points, times = (3, 1) if small else (POINTS, TIMES)
    trainings, knobs = (TRAININGS[2:], ROUNDING[:1]) if small else (TRAININGS, ROUNDING)
    same = [Cell(f"étude, {name}", {"training": name, "points": points}) for name in trainings]
    return [*same, *(Cell(f"étude, {knob}", {"knob": knob, "times": times}) for knob in knobs)]


def work(args: Mapping[str, Any], place: Path) -> Result:
    if "knob" in args:
        return rounding(args["knob"], args["times"])
    return same(args["training"], args["points"])


# --- settings that change no number ---------------------------------------------------------------


def same(name: str, points: int) -> Result:
    """Train again and again with changes at random moments, and compare each with the training that nobody touched."""
    import torch

    torch.set_num_threads(1)
    orders, losses, _ = trained(name, None)
    draws = random.Random(f"changes of {name}")
    done = runs = wrong_orders = wrong_losses = left_alone = 0
    while done < points:

        def change(knobs: Any, share: float) -> None:
            nonlocal done
            if draws.random() < share and done < points:
                done += 1
                knobs.apply(drawn(draws))

        found_orders, found_losses, is_left_alone = trained(name, change)
        runs += 1
        wrong_orders += found_orders != orders
        wrong_losses += found_losses != losses
        left_alone += is_left_alone
    if wrong_orders or wrong_losses:
        raise SystemExit(f"{name}: of {runs} trainings {wrong_orders} had another order, {wrong_losses} other losses.")
    return {
        "points": done,
        "trainings": runs,
        "order_percent": 100 * (1 - wrong_orders / runs),
        "losses_percent": 100 * (1 - wrong_losses / runs),
        "left_alone_percent": 100 * left_alone / runs,
        "details": {"steps": len(losses)},
    }


def drawn(draws: random.Random) -> dict[str, Any]:
    """Return a random setting of one knob or of several."""
    knobs: dict[str, Callable[[], Any]] = {
        "loader_workers": lambda: draws.randint(0, 3),
        "prefetch": lambda: draws.choice([1, 2, 4, 8]),
        "persistent_workers": lambda: draws.random() < 1 / 2,
        "cache": lambda: draws.random() < 1 / 2,
    }
    names = draws.sample(sorted(knobs), draws.randint(1, len(knobs)))
    return {name: knobs[name]() for name in names}


def trained(name: str, change: Callable[[Any, float], None] | None) -> tuple[list[list[int]], list[str], bool]:
    """Train for some epochs.

    Args:
        name: Which training it is.
        change: Called at each moment at which a setting may change, with how often it is to; None for nobody in hand.

    Returns:
        Which examples each step had, all losses to the last bit, and whether the loader was left alone in the end.
    """
    import numpy as np
    import torch

    from etude.frameworks.torch import prepare_data
    from etude.frameworks.torch_knobs import TorchKnobs

    loader, after = loader_of(name)  # before the seeds: what it imports may draw
    if name == "augmented by chance":
        prepare_data(loader, seed=4, device="cpu")  # as a study does
    random.seed(1)
    np.random.seed(2)
    torch.manual_seed(3)
    net = lenet()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    knobs = TorchKnobs(say=lambda line: None, stepped=lambda step_s, waited_s: None)
    if change is not None:
        knobs.data(loader)
        knobs.model(net)
    change = change or (lambda knobs, share: None)
    orders: list[list[int]] = []
    losses: list[str] = []
    for _ in range(EPOCHS):
        change(knobs, 1 / 2)
        for x, y, ids in loader:
            optimizer.zero_grad()
            each = torch.nn.functional.cross_entropy(net(x), y, reduction="none")
            each.mean().backward()
            optimizer.step()
            after(ids, each)
            orders.append(ids.tolist())
            losses.append(float(each.detach().mean()).hex())
            change(knobs, 1 / 8)
    left_alone = "loader_workers" in knobs.lacks
    knobs.close()
    return orders, losses, left_alone


def loader_of(name: str) -> tuple[Any, Callable[[Any, Any], None]]:
    """Return the loader of a training, and what is done after each of its steps."""
    import torch
    from torch.utils.data import DataLoader, Dataset, Sampler

    images, labels = digits()

    class Digits(Dataset[Any]):
        def __len__(self) -> int:
            return len(images)

        def __getitem__(self, index: int) -> Any:
            x = images[index]
            if name == "augmented by index":
                own = torch.Generator().manual_seed(index)
                x = x.roll(int(torch.randint(-1, 2, (), generator=own)), 2) + 0.1 * torch.rand(x.shape, generator=own)
            if name == "augmented by chance":
                x = x.roll(random.randint(-1, 1), 2) + 0.1 * torch.rand(x.shape)
            return x, labels[index], index

    class ByImportance(Sampler[int]):
        """Draws those more often whose losses were higher; what it knows changes with each step."""

        def __init__(self) -> None:
            self.weights = torch.ones(len(images))
            self.own = torch.Generator().manual_seed(5)

        def __len__(self) -> int:
            return len(images)

        def __iter__(self) -> Iterator[int]:
            yield from torch.multinomial(self.weights, len(images), replacement=True, generator=self.own).tolist()

    if name != "by importance":
        return DataLoader(Digits(), batch_size=32, shuffle=True), lambda ids, losses: None
    sampler = ByImportance()

    def after(ids: Any, losses: Any) -> None:
        sampler.weights[ids] = losses.detach() + 0.1

    return DataLoader(Digits(), batch_size=32, sampler=sampler), after


# --- settings that change numbers by rounding -----------------------------------------------------


def rounding(knob: str, times: int) -> Result:
    """Change one setting at random steps, and see how far losses are from those without the change."""
    import torch

    torch.set_num_threads(2)
    draws = random.Random(f"changes of {knob}")
    at_once, later = [], []
    for _ in range(times):
        at = draws.randrange(5, 60)
        plain, changed = (losses_of(knob, at=at, change=change) for change in (False, True))
        if plain[:at] != changed[:at]:
            raise SystemExit(f"{knob}: losses differ before anything was changed.")
        apart = [abs(one - other) for one, other in zip(plain[at:], changed[at:], strict=True)]
        at_once.append(max(apart[:AT_ONCE]))
        later.append(max(apart))
    return {"points": times, "apart_at_once": max(at_once), "apart_later": max(later)}


def losses_of(knob: str, *, at: int, change: bool) -> list[float]:
    """Return the losses of a training up to some steps after a step at which it may be changed."""
    import torch

    from etude.frameworks.torch_knobs import TorchKnobs

    torch.manual_seed(at)
    images, labels = digits()
    net = lenet(width=6)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    said: list[str] = []
    knobs = TorchKnobs(say=said.append, stepped=lambda step_s, waited_s: None)
    knobs.model(net)
    order = torch.randint(len(images), (at + LATER, 128))
    losses = []
    for nth, ids in enumerate(order):
        if nth == at and change:
            value: Any = 1 if knob == "threads" else True
            knobs.apply({knob: value})
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(images[ids]), labels[ids])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    knobs.close()
    if said:
        raise SystemExit(f"{knob}: {said[0]}")
    return losses


# --- what they share ------------------------------------------------------------------------------


def digits() -> tuple[Any, Any]:
    """Return 512 handwritten digits, and which ones they are."""
    import torch
    from sklearn.datasets import load_digits

    found = load_digits()
    images = torch.tensor(found.images[:512], dtype=torch.float32).div(16).unsqueeze(1)
    return images, torch.tensor(found.target[:512])


def lenet(width: int = 1) -> Any:
    """Return a small LeNet, so many times as wide."""
    from torch import nn

    return nn.Sequential(
        *(nn.Conv2d(1, 6 * width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(6 * width, 16 * width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.1)),
        *(nn.Linear(64 * width, 32), nn.ReLU(), nn.Linear(32, 10)),
    )


def totals(found: Mapping[str, Result]) -> Mapping[str, Result]:
    """Return the rows of all trainings together."""
    probe = max(result["probe"] for result in found.values())
    exact = [result for result in found.values() if "order_percent" in result]
    near = [result for result in found.values() if "apart_at_once" in result]
    rows: dict[str, Result] = {}
    if exact:
        worst = {key: min(result[key] for result in exact) for key in ("order_percent", "losses_percent")}
        points = sum(result["points"] for result in exact if not result["left_alone_percent"])
        rows["étude, no number changes"] = {"points": points, **worst, "probe": probe}
    if near:
        far = {key: max(result[key] for result in near) for key in ("apart_at_once", "apart_later")}
        rows["étude, rounding"] = {"points": sum(result["points"] for result in near), **far, "probe": probe}
    return rows


BENCHMARK = Benchmark(
    name="system_lossless",
    cells=cells,
    work=work,
    totals=totals,
    quantities=(
        Quantity("points", "changes", 0),
        Quantity("trainings", "", 0),
        Quantity("order_percent", "%", 0),
        Quantity("losses_percent", "%", 0),
        Quantity("left_alone_percent", "%", 0),
        Quantity("apart_at_once", "", 8),
        Quantity("apart_later", "", 8),
    ),
    targets=(
        Target("changes of what changes no number", "étude, no number changes: points", 500, "changes"),
        Target("order to the bit", "étude, no number changes: order_percent", 100, "%", worst=True),
        Target("losses to the bit", "étude, no number changes: losses_percent", 100, "%", worst=True),
        Target("10 steps after", "étude, rounding: apart_at_once", NEAR, "", at_least=False, worst=True),
    ),
    note=(
        "Changes come at random moments: between epochs, and after any step. order, losses: trainings that had the\n"
        "same examples at each step, and the same losses, as the one that nobody touched; a training with others ends\n"
        "the benchmark. left_alone: of the trainings, those whose loader was left as it is in the end: with\n"
        "any, it does not count. apart: how far a loss is from that without the change, at\n"
        "most, over 10 and over 50 steps after it. Rounding makes trainings drift apart, whatever is done. All is the\n"
        "same in each run, so --runs 1 will do."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
