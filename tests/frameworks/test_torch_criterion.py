"""A watched criterion does what it did, to the bit, and what it saw of each example is what a loop would compute."""

from __future__ import annotations

import copy
import functools
import inspect
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from etude.core.errors import ConfigError, ResultError
from etude.frameworks import torch_watch
from etude.frameworks.aspects import ASPECTS, CORRECT, EL2N, LOSS, PROBABILITY
from etude.frameworks.torch_criterion import tracked
from etude.frameworks.torch_watch import Watch

JUST_LOSS = frozenset({LOSS})
OF_CLASSES = frozenset({CORRECT, PROBABILITY, EL2N})
B, C, T = 6, 5, 3


def seeded(make: Callable[[torch.Generator], Any], seed: int = 0) -> Any:
    return make(torch.Generator().manual_seed(seed))


def real(*shape: int) -> Callable[[torch.Generator], torch.Tensor]:
    return lambda g: torch.randn(*shape, generator=g)


def unit(*shape: int) -> Callable[[torch.Generator], torch.Tensor]:
    return lambda g: torch.rand(*shape, generator=g) * 0.9 + 0.05


def index(*shape: int, classes: int = C) -> Callable[[torch.Generator], torch.Tensor]:
    return lambda g: torch.randint(0, classes, shape, generator=g)


def soft(*shape: int) -> Callable[[torch.Generator], torch.Tensor]:
    return lambda g: torch.randn(*shape, generator=g).softmax(1)


def logs(*shape: int) -> Callable[[torch.Generator], torch.Tensor]:
    return lambda g: torch.randn(*shape, generator=g).log_softmax(1)


def signs(*shape: int) -> Callable[[torch.Generator], torch.Tensor]:
    return lambda g: torch.randint(0, 2, shape, generator=g) * 2.0 - 1.0


def some_ignored(*shape: int, ignored: int = -100) -> Callable[[torch.Generator], torch.Tensor]:
    def make(g: torch.Generator) -> torch.Tensor:
        found = torch.randint(0, C, shape, generator=g)
        found[..., 0] = ignored if found.dim() > 1 else found[..., 0]
        found[1] = ignored
        return found

    return make


WEIGHT = torch.tensor([0.2, 1.0, 3.0, 0.5, 2.0])

LOSSES: dict[str, tuple[Any, list[Any]]] = {
    "cross entropy": (nn.CrossEntropyLoss(), [real(B, C), index(B)]),
    "cross entropy, weights": (nn.CrossEntropyLoss(weight=WEIGHT), [real(B, C), index(B)]),
    "cross entropy, smoothed": (nn.CrossEntropyLoss(label_smoothing=0.1), [real(B, C), index(B)]),
    "cross entropy, ignored": (nn.CrossEntropyLoss(ignore_index=2), [real(B, C), some_ignored(B, ignored=2)]),
    "cross entropy, mixed": (nn.CrossEntropyLoss(), [real(B, C), soft(B, C)]),
    "cross entropy, tokens": (nn.CrossEntropyLoss(), [real(B, C, T), some_ignored(B, T)]),
    "cross entropy, images": (nn.CrossEntropyLoss(), [real(B, C, T, 2), index(B, T, 2)]),
    "cross entropy, sum": (nn.CrossEntropyLoss(reduction="sum"), [real(B, C, T), index(B, T)]),
    "nll": (nn.NLLLoss(), [logs(B, C), index(B)]),
    "nll, images": (nn.NLLLoss(), [logs(B, C, T, 2), index(B, T, 2)]),
    "bce": (nn.BCELoss(), [unit(B, 1), index(B, 1, classes=2)]),
    "bce, weights": (nn.BCELoss(weight=torch.rand(B, 1)), [unit(B, 1), index(B, 1, classes=2)]),
    "bce with logits": (nn.BCEWithLogitsLoss(pos_weight=WEIGHT), [real(B, C), index(B, C, classes=2)]),
    "mse": (nn.MSELoss(), [real(B, C), real(B, C)]),
    "mse, one": (nn.MSELoss(), [real(B), real(B)]),
    "mse, sum": (nn.MSELoss(reduction="sum"), [real(B, C, T), real(B, C, T)]),
    "l1": (nn.L1Loss(), [real(B, C), real(B, C)]),
    "smooth l1": (nn.SmoothL1Loss(beta=0.3), [real(B, C), real(B, C)]),
    "huber": (nn.HuberLoss(delta=0.5), [real(B, C), real(B, C)]),
    "kl": (nn.KLDivLoss(reduction="batchmean"), [logs(B, C), soft(B, C)]),
    "poisson": (nn.PoissonNLLLoss(), [real(B, C), unit(B, C)]),
    "gaussian": (nn.GaussianNLLLoss(), [real(B, C), real(B, C), unit(B, C)]),
    "multi margin": (nn.MultiMarginLoss(), [real(B, C), index(B)]),
    "multi label": (nn.MultiLabelSoftMarginLoss(), [real(B, C), index(B, C, classes=2)]),
    "soft margin": (nn.SoftMarginLoss(), [real(B, C), signs(B, C)]),
    "hinge": (nn.HingeEmbeddingLoss(), [real(B), signs(B)]),
    "cosine": (nn.CosineEmbeddingLoss(), [real(B, C), real(B, C), signs(B)]),
    "triplet": (nn.TripletMarginLoss(), [real(B, C), real(B, C), real(B, C)]),
    "F.cross_entropy": (F.cross_entropy, [real(B, C), index(B)]),
    "F.cross_entropy, partly": (functools.partial(F.cross_entropy, label_smoothing=0.2), [real(B, C), index(B)]),
    "F.mse_loss": (F.mse_loss, [real(B, C), real(B, C)]),
    "F.kl_div": (functools.partial(F.kl_div, reduction="batchmean"), [logs(B, C), soft(B, C)]),
}
FLOATS = {"bce", "bce, weights", "bce with logits", "multi label"}


def inputs(name: str, seed: int = 0) -> list[torch.Tensor]:
    found = [seeded(make, seed + nth) for nth, make in enumerate(LOSSES[name][1])]
    return [found[0], *(t.float() for t in found[1:])] if name in FLOATS else found


def one_by_one(loss: Any, given: list[torch.Tensor]) -> list[float]:
    """Return the loss of each example as the loss itself gives it for a batch of one."""
    if isinstance(loss, nn.Module):
        loss = copy.copy(loss)
        loss.reduction = {"mean": "mean", "batchmean": "batchmean"}.get(loss.reduction, "sum")
    found = []
    for nth in range(len(given[0])):
        alone = copy.deepcopy(loss)
        if getattr(loss, "weight", None) is not None and loss.weight.shape[0] == B:
            alone.weight = loss.weight[nth : nth + 1]
        found.append(float(alone(*(tensor[nth : nth + 1] for tensor in given))))
    return found


@pytest.mark.parametrize("name", LOSSES)
def test_value_and_gradients_are_those_of_the_plain_loss_to_the_bit(name: str) -> None:
    plain, watched = LOSSES[name][0], tracked(copy.deepcopy(LOSSES[name][0]), Watch(JUST_LOSS))
    given = inputs(name)
    found = []
    for loss in (plain, watched):
        for repeated in range(3):
            scores = given[0].clone().requires_grad_()
            value = loss(scores, *given[1:])
            value.backward()
            if repeated == 2:
                found.append((value.detach(), scores.grad))
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("name", LOSSES)
def test_the_loss_of_each_example_is_that_of_a_batch_of_one(name: str, steps: int) -> None:
    watch = Watch(JUST_LOSS)
    plain = LOSSES[name][0]
    loss = tracked(copy.deepcopy(plain), watch)
    expected: list[float] = []
    for step in range(steps):
        given = inputs(name, seed=10 * step)
        watch.drawn(np.arange(B) + 100 * step)
        loss(given[0].clone().requires_grad_(), *given[1:])
        expected += one_by_one(plain, given)
    taken = watch.take()
    assert taken.ids.tolist() == [nth + 100 * step for step in range(steps) for nth in range(B)]
    if name == "cross entropy, weights":  # the mean of one divides its weight away
        targets = torch.cat([inputs(name, seed=10 * step)[1] for step in range(steps)])
        expected = [float(WEIGHT[t]) * value for t, value in zip(targets, expected, strict=True)]
    expected = [0.0 if math.isnan(value) else value for value in expected]  # all of it ignored
    np.testing.assert_allclose(taken.values[LOSS], expected, rtol=2e-5, atol=1e-6)


def softly(scores: torch.Tensor, targets: torch.Tensor) -> dict[str, list[float]]:
    """Return the aspects of classes, by loops."""
    found: dict[str, list[float]] = {CORRECT: [], PROBABILITY: [], EL2N: []}
    for row, target in zip(scores, targets, strict=True):
        probabilities = row.exp() / row.exp().sum()
        true = int(target.argmax()) if target.dim() else int(target)
        aim = target if target.dim() else F.one_hot(target, len(row))
        found[CORRECT].append(float(int(row.argmax()) == true))
        found[PROBABILITY].append(float(probabilities[true]))
        found[EL2N].append(float((probabilities - aim).norm()))
    return found


@pytest.mark.parametrize("classes", [3, 40])
@pytest.mark.parametrize("examples", [4, 50])
@pytest.mark.parametrize("mixed", [False, True])
def test_correctness_probability_and_el2n(classes: int, examples: int, mixed: bool) -> None:
    watch = Watch(frozenset(ASPECTS))
    loss = tracked(nn.CrossEntropyLoss(label_smoothing=0.1, weight=torch.rand(classes)), watch)
    scores = seeded(real(examples, classes))
    targets = seeded(soft(examples, classes) if mixed else index(examples, classes=classes))
    watch.drawn(range(examples))
    loss(scores.clone().requires_grad_(), targets)
    found = watch.take().values
    for name, expected in softly(scores, targets).items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-5, atol=1e-6)
    none = nn.CrossEntropyLoss(label_smoothing=0.1, weight=loss.weight, reduction="none")(scores, targets)
    np.testing.assert_allclose(found[LOSS], none, rtol=1e-5, atol=1e-6)


def test_of_tokens_the_mean_of_those_that_count_is_taken() -> None:
    watch = Watch(frozenset(ASPECTS))
    loss = tracked(nn.CrossEntropyLoss(), watch)
    scores, targets = seeded(real(2, C, 4)), torch.tensor([[1, 2, -100, -100], [-100] * 4])
    watch.drawn([7, 8])
    loss(scores.clone().requires_grad_(), targets)
    taken = watch.take()
    tokens = softly(scores[0].t()[:2], targets[0, :2])
    for name, values in tokens.items():
        assert taken.values[name].tolist() == pytest.approx([np.mean(values), 0.0])
    assert taken.values[LOSS].tolist() == pytest.approx([float(F.cross_entropy(scores[:1], targets[:1])), 0.0])


@pytest.mark.parametrize("order", ["batch_first", "time_first"])
@pytest.mark.parametrize("at_once", [False, True])
def test_rows_of_tokens_are_put_back_together(order: Any, at_once: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if at_once:
        monkeypatch.setattr(torch_watch, "COPIED_B", 0)
    watch = Watch(frozenset(ASPECTS))
    loss = tracked(nn.CrossEntropyLoss(), watch, flattened=order)
    expected = []
    for seed in range(3):
        scores, targets = seeded(real(B, T, C), seed), seeded(some_ignored(B, T), seed)
        expected += [float(F.cross_entropy(s, t).nan_to_num()) for s, t in zip(scores, targets, strict=True)]
        if order == "time_first":
            scores, targets = scores.transpose(0, 1), targets.transpose(0, 1)
        watch.drawn(range(B))
        loss(scores.reshape(-1, C).requires_grad_(), targets.reshape(-1))
    taken = watch.take()
    assert taken.values[LOSS].tolist() == pytest.approx(expected, rel=1e-5)
    assert {len(values) for values in taken.values.values()} == {3 * B}


def test_labels_by_themselves() -> None:
    watch = Watch(frozenset(ASPECTS))
    loss = tracked(nn.BCEWithLogitsLoss(), watch)
    scores, targets = torch.tensor([[2.0, -1.0], [0.5, 0.5]]), torch.tensor([[1.0, 1.0], [0.0, 1.0]])
    watch.drawn([0, 1])
    loss(scores.clone().requires_grad_(), targets)
    found, given = watch.take().values, scores.sigmoid()
    assert found[CORRECT].tolist() == [0.5, 0.5]
    assert found[PROBABILITY].tolist() == pytest.approx([float((given[0, 0] + given[0, 1]) / 2), 0.5])
    assert found[EL2N].tolist() == pytest.approx((given - targets).norm(dim=1).tolist())


def test_what_is_nan_is_recorded_as_nan() -> None:
    watch = Watch(frozenset(ASPECTS))
    loss = tracked(nn.CrossEntropyLoss(), watch)
    scores = torch.zeros(3, C)
    scores[1, 2] = math.nan
    watch.drawn([0, 1, 2])
    loss(scores.requires_grad_(), torch.zeros(3, dtype=torch.long))
    for values in watch.take().values.values():
        assert np.isnan(values).tolist() == [False, True, False]


@pytest.mark.parametrize("name", sorted(LOSSES.keys() - {"gaussian"}))  # that looks at its variances itself
def test_nothing_waits_for_a_device(name: str) -> None:
    """A meta tensor has no values, so whatever would fetch one raises."""
    loss = LOSSES[name][0]
    classes = "entropy" in name or name.startswith(("nll", "bce"))
    watch = Watch(JUST_LOSS, OF_CLASSES if classes else frozenset())
    loss = copy.deepcopy(loss).to("meta") if isinstance(loss, nn.Module) else loss
    watched = tracked(loss, watch)
    for step in range(2):
        given = [tensor.to("meta") for tensor in inputs(name)]
        watch.drawn(range(step, step + B))
        watched(given[0].requires_grad_(), *given[1:])
    watch.flush()
    assert sum(len(batch) for batches, _ in watch._ready for batch in batches) == 2 * B
    assert {name for _, found in watch._ready for name in found} >= (set(ASPECTS) if classes else {LOSS})


# --- when -----------------------------------------------------------------------------------------


def scores_of(*values: float) -> torch.Tensor:
    return torch.tensor(values).requires_grad_()


def test_what_is_changed_in_place_afterwards_does_not_count() -> None:
    watch = Watch(JUST_LOSS)
    loss = tracked(nn.MSELoss(), watch)
    targets = torch.zeros(2)
    kept = torch.ones(2)
    for step in (1.0, 2.0):
        targets.fill_(step)
        scores = kept * 3.0 * scores_of(1.0, 1.0)
        watch.drawn([0, 1])
        loss(scores, targets)
        with torch.no_grad():
            scores.zero_()
        targets.zero_()
    assert watch.take().values[LOSS].tolist() == [4.0, 4.0, 1.0, 1.0]


@pytest.mark.parametrize("limit", ["STEPS", "WAITING_B", "COPIED_B"])
def test_what_waits_is_bounded(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_watch, limit, {"STEPS": 3, "WAITING_B": 16, "COPIED_B": 0}[limit])
    watch = Watch(JUST_LOSS)
    loss = tracked(nn.MSELoss(), watch)
    for step in range(7):
        watch.drawn([step, 100 + step])
        loss(scores_of(float(step), 0.0), torch.zeros(2))
        assert len(watch._waiting) < 3
    taken = watch.take()
    assert taken.ids.tolist() == [i for step in range(7) for i in (step, 100 + step)]
    assert taken.values[LOSS].tolist() == [v for step in range(7) for v in (float(step) ** 2, 0.0)]
    assert watch.take().ids.size == 0


def test_batches_of_another_size_or_kind_keep_their_order() -> None:
    watch = Watch(JUST_LOSS)
    mse, l1 = tracked(nn.MSELoss(), watch), tracked(F.l1_loss, watch)
    for ids, loss in (([0, 1], mse), ([2], mse), ([3, 4], l1), ([5, 6], mse)):
        watch.drawn(ids)
        loss(torch.full((len(ids),), 3.0, requires_grad=True), torch.zeros(len(ids)))
    taken = watch.take()
    assert taken.ids.tolist() == list(range(7))
    assert taken.values[LOSS].tolist() == [9, 9, 9, 3, 3, 9, 9]


def test_settings_of_a_call_count() -> None:
    watch = Watch(JUST_LOSS)
    loss = tracked(F.cross_entropy, watch)
    scores, targets = seeded(real(B, C)), seeded(index(B))
    expected = []
    for settings in ({}, {"weight": WEIGHT}, {"label_smoothing": 0.3}, {"label_smoothing": 0.1}, {"reduction": "sum"}):
        watch.drawn(range(B))
        loss(input=scores.clone().requires_grad_(), target=targets, **settings)
        expected += F.cross_entropy(scores, targets, **{**settings, "reduction": "none"}).tolist()
    assert watch.take().values[LOSS].tolist() == pytest.approx(expected, rel=1e-5)


def test_evaluation_does_not_count() -> None:
    watch = Watch(JUST_LOSS)
    loss = tracked(nn.MSELoss(), watch)
    watch.drawn([0])
    with torch.no_grad():
        loss(scores_of(1.0), torch.zeros(1))
    loss(torch.ones(1), torch.zeros(1))  # nothing of it wants a gradient
    loss(scores_of(2.0), torch.zeros(1))
    taken = watch.take()
    assert (taken.ids.tolist(), taken.values[LOSS].tolist(), taken.notes) == ([0], [4.0], ())


def test_the_first_call_after_a_batch_counts_and_others_are_told_of() -> None:
    watch = Watch(JUST_LOSS)
    loss = tracked(nn.MSELoss(), watch)
    watch.drawn([0])
    for value in (3.0, 4.0, 5.0):
        loss(scores_of(value), torch.zeros(1))
    watch.drawn([1])
    watch.drawn(None)
    loss(scores_of(9.0), torch.zeros(1))
    taken = watch.take()
    assert (taken.ids.tolist(), taken.values[LOSS].tolist()) == ([0], [9.0])
    assert taken.notes == (
        "3 calls of a criterion did not count: only the first one after a batch does.",
        "Of 1 batch no criterion saw anything.",
    )
    assert watch.take().notes == ()


@pytest.mark.parametrize("at_once", [False, True])
def test_other_rows_than_were_drawn_are_an_error_at_first(at_once: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if at_once:
        monkeypatch.setattr(torch_watch, "COPIED_B", -1)
    told = (
        "The criterion was given {} where the loader had drawn 4, so it cannot be told which losses are those of which "
        "examples. {}"
    )
    part = "Call it once for each batch, with the whole batch; or train without a partition."
    rows = (
        "If these are 3 of each example (tokens, say), pass run.criterion(loss, flattened='batch_first') where those "
        "of an example follow each other, or 'time_first'."
    )
    for n, given, way_out in ((2, "2 examples", part), (1, "1 example", part), (12, "12 examples", rows)):
        watch = Watch(JUST_LOSS)
        watch.drawn(range(4))
        with pytest.raises(ResultError) as refused:
            tracked(nn.MSELoss(), watch)(torch.ones(n, requires_grad=True), torch.zeros(n))
        assert str(refused.value) == told.format(given, way_out)


def test_other_rows_later_are_a_note() -> None:
    watch = Watch(JUST_LOSS)
    loss = tracked(nn.MSELoss(), watch)
    watch.drawn([0])
    loss(scores_of(1.0), torch.zeros(1))
    watch.flush()
    watch.drawn([1, 2])
    loss(scores_of(1.0), torch.zeros(1))
    taken = watch.take()
    assert taken.ids.tolist() == [0]
    assert taken.notes == ("1 call of a criterion did not count: the last had 1 example where the loader had drawn 2.",)


# --- the user's own -------------------------------------------------------------------------------


class Focal(nn.CrossEntropyLoss):
    """A loss as people write it, that knows reduction."""

    def __init__(self, gamma: float = 2.0, **more: Any) -> None:
        super().__init__(**more)
        self.gamma = gamma

    def forward(self, scores: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        losses = F.cross_entropy(scores, target, reduction="none")
        losses = (1 - (-losses).exp()) ** self.gamma * losses
        return losses if self.reduction == "none" else losses.mean()


class Noisy(nn.Module):
    """A loss that draws, counts and keeps a mean: to be called once more must change nothing of that."""

    def __init__(self) -> None:
        super().__init__()
        self.reduction = "mean"
        self.calls = 0
        self.register_buffer("mean", torch.zeros(()))

    def forward(self, scores: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        losses = (scores - target + 0.1 * torch.randn(scores.shape)) ** 2
        with torch.no_grad():
            self.mean.mul_(0.9).add_(0.1 * losses.mean())
        return losses if self.reduction == "none" else losses.mean()


def test_a_loss_of_ones_own_with_reduction_is_asked_for_each_example() -> None:
    watch = Watch(frozenset(ASPECTS))
    loss = tracked(Focal(gamma=3.0), watch)
    scores, targets = seeded(real(B, C)), seeded(index(B))
    watch.drawn(range(B))
    loss(scores.clone().requires_grad_(), targets)
    taken = watch.take()
    np.testing.assert_allclose(taken.values[LOSS], Focal(3.0, reduction="none")(scores, targets), rtol=1e-6)
    np.testing.assert_allclose(taken.values[PROBABILITY], softly(scores, targets)[PROBABILITY], rtol=1e-5)


def test_being_called_once_more_changes_nothing() -> None:
    found = []
    for watch in (None, Watch(JUST_LOSS)):
        loss = tracked(Noisy(), watch)
        torch.manual_seed(0)
        scores = torch.ones(4, requires_grad=True)
        values = []
        for _ in range(3):
            if watch is not None:
                watch.drawn(range(4))
            value = loss(scores, torch.zeros(4))
            value.backward()
            values.append(value.detach())
        found.append((torch.stack(values), scores.grad, loss.mean, torch.rand(3), torch.tensor(loss.calls)))
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def own(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(outputs, labels)


def test_a_loss_without_a_form_for_each_example_is_refused_at_once() -> None:
    message = (
        "The criterion {} gives one number for a batch, and has no reduction='none' that would give one for each "
        "example. Say how: run.criterion(loss, per_example=function). The function takes what the loss takes, and "
        "returns one number for each example."
    )
    for loss, name in ((own, "own"), (nn.Sequential(), "Sequential"), (3, "int")):
        with pytest.raises(ConfigError) as refused:
            tracked(loss, Watch(JUST_LOSS))
        assert str(refused.value) == message.format(name)


def test_the_users_own_form_sees_what_the_loss_saw() -> None:
    watch = Watch(JUST_LOSS, frozenset({CORRECT, PROBABILITY}))
    loss = tracked(own, watch, per_example=lambda outputs, labels: F.cross_entropy(outputs, labels, reduction="none"))
    scores, targets = seeded(real(B, C)), seeded(index(B))
    watch.drawn(range(B))
    loss(scores.clone().requires_grad_(), targets)
    taken = watch.take()
    np.testing.assert_allclose(taken.values[LOSS], F.cross_entropy(scores, targets, reduction="none"), rtol=1e-6)
    np.testing.assert_allclose(taken.values[CORRECT], softly(scores, targets)[CORRECT])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: tracked(nn.MSELoss(), Watch(OF_CLASSES)),
            "The measure needs correct, el2n, probability of each example, and MSELoss is no loss of classes. Take a "
            "measure of losses: 'mean', 'variance', 'last' or 'ema'.",
        ),
        (
            lambda: tracked(own, Watch(JUST_LOSS), per_example=3),  # type: ignore[arg-type]
            "per_example=3 (int) cannot be called. Pass a function that takes what own takes, and returns one number "
            "for each example.",
        ),
        (
            lambda: tracked(nn.MSELoss(), Watch(JUST_LOSS), flattened="rows"),  # type: ignore[arg-type]
            "flattened='rows' (str) is no order of rows. Pass 'batch_first' where those of an example follow each "
            "other, 'time_first' where the first ones of all examples come first.",
        ),
    ],
)
def test_what_cannot_be_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        make()
    assert str(refused.value) == message


def test_a_loss_of_ones_own_that_turns_out_to_have_no_classes_is_refused_at_the_first_step() -> None:
    watch = Watch(frozenset({CORRECT}))
    loss = tracked(Noisy(), watch)
    watch.drawn([0, 1])
    with pytest.raises(ConfigError, match="The measure needs correct of each example, and Noisy is no loss of classes"):
        loss(scores_of(1.0, 2.0), torch.zeros(2))


# --- it feels like the user's ---------------------------------------------------------------------


def test_where_nothing_is_watched_it_is_the_identity() -> None:
    loss = nn.CrossEntropyLoss()
    assert tracked(loss, None) is loss
    assert type(loss) is nn.CrossEntropyLoss
    assert tracked(own, None) is own


def test_a_module_stays_the_object_that_it_is() -> None:
    plain = nn.CrossEntropyLoss(weight=WEIGHT.clone())
    loss = tracked(plain, Watch(JUST_LOSS))
    assert loss is plain
    assert isinstance(loss, nn.CrossEntropyLoss)
    assert repr(loss) == "CrossEntropyLoss()"
    assert type(loss).__qualname__ == "CrossEntropyLoss"
    assert loss.reduction == "mean"
    assert list(loss.state_dict()) == ["weight"]
    assert loss.double() is loss
    assert loss.weight.dtype == torch.float64
    assert list(nn.ModuleList([loss]).children()) == [loss]


def test_what_is_changed_in_a_module_counts() -> None:
    watch = Watch(JUST_LOSS)
    loss = tracked(nn.CrossEntropyLoss(), watch)
    loss.label_smoothing = 0.5
    scores, targets = seeded(real(B, C)), seeded(index(B))
    watch.drawn(range(B))
    loss(scores.clone().requires_grad_(), targets)
    expected = F.cross_entropy(scores, targets, label_smoothing=0.5, reduction="none")
    np.testing.assert_allclose(watch.take().values[LOSS], expected, rtol=1e-5)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda loss: pickle.loads(pickle.dumps(loss))])
@pytest.mark.parametrize("loss", [nn.CrossEntropyLoss(weight=WEIGHT), F.cross_entropy], ids=["module", "function"])
def test_copies_are_the_plain_loss(loss: Any, copied: Any) -> None:
    watch = Watch(JUST_LOSS)
    found = copied(tracked(copy.deepcopy(loss), watch))
    assert type(found) is type(loss)
    watch.drawn(range(B))
    scores, targets = seeded(real(B, C)).requires_grad_(), seeded(index(B))
    assert torch.equal(found(scores, targets), loss(scores, targets))
    assert watch.take().ids.size == 0


def test_a_function_is_called_like_itself() -> None:
    loss = tracked(F.cross_entropy, Watch(JUST_LOSS))
    assert loss.__name__ == "cross_entropy"
    assert inspect.signature(loss) == inspect.signature(F.cross_entropy)
    assert repr(loss) == repr(F.cross_entropy)
    assert loss.__module__ == "torch.nn.functional"


def test_a_loss_may_be_watched_again() -> None:
    for loss in (nn.MSELoss(), F.mse_loss):
        first, second = Watch(JUST_LOSS), Watch(JUST_LOSS)
        again = tracked(tracked(loss, first), second)
        for watch in (first, second):
            watch.drawn([0])
        again(scores_of(2.0), torch.zeros(1))
        assert (first.take().ids.tolist(), second.take().ids.tolist()) == ([], [0])


def test_half_precision_is_computed_in_single() -> None:
    watch = Watch(JUST_LOSS)
    loss = tracked(nn.CrossEntropyLoss(), watch)
    scores, targets = seeded(real(B, C)), seeded(index(B))
    watch.drawn(range(B))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss(scores.bfloat16().requires_grad_(), targets)
    found = watch.take().values[LOSS]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, F.cross_entropy(scores.bfloat16().float(), targets, reduction="none"), rtol=1e-5)


def test_a_training_with_it_is_the_same_training() -> None:
    def train(watch: Watch | None) -> list[torch.Tensor]:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.2), nn.Linear(16, C))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        loss = tracked(nn.CrossEntropyLoss(label_smoothing=0.1), watch)
        for step in range(150):
            if watch is not None:
                watch.drawn(range(step, step + 10))
            optimizer.zero_grad()
            loss(net(seeded(real(10, 8), step)), seeded(index(10), step)).backward()
            optimizer.step()
        return [parameter.detach() for parameter in net.parameters()]

    watch = Watch(frozenset(ASPECTS))
    assert all(torch.equal(one, other) for one, other in zip(train(None), train(watch), strict=True))
    assert len(watch.take().ids) == 1500


def batch_of(step: int, n: int = 12) -> tuple[torch.Tensor, torch.Tensor]:
    draws = torch.Generator().manual_seed(step)
    return torch.randn(n, 3, generator=draws), torch.randint(3, (n,), generator=draws)


@pytest.mark.parametrize("given", ["the last", "changed", "one class", "few", "one before", "two before"])
def test_targets_of_an_earlier_batch_are_told(given: str) -> None:
    watch = Watch(JUST_LOSS)
    loss = tracked(nn.CrossEntropyLoss(), watch)
    n = 4 if given == "few" else 12
    batches = [batch_of(step, n) for step in range(8)]
    if given == "one class":
        batches = [(x, torch.ones_like(y)) for x, y in batches]
    back = {"the last": 0, "changed": 0, "two before": 2}.get(given, 1)
    for step in range(8):
        watch.drawn(range(n), batches[step])
        if step < back:
            continue
        x, y = batches[step - back]
        loss(x.clone().requires_grad_(), 2 - y if given == "changed" else y)
    if given in ("one before", "two before"):
        with pytest.raises(ResultError, match="targets of a batch before the one that the loader gave last"):
            watch.take()
    else:
        assert len(watch.take().ids) == (8 - back) * n
