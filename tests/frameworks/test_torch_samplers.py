"""``etude.distribute``: any sampler over ranks, each example once per epoch, and an epoch that goes on with others."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)
from torchdata.stateful_dataloader import StatefulDataLoader

import etude
from etude.core.errors import ConfigError, StateError
from etude.frameworks.torch_samplers import Distributed, distribute

pytestmark = pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")


class Drawing(Sampler[int]):
    """A sampler of the user's own, which draws from every global generator, and between its indices."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __iter__(self) -> Iterator[int]:
        left = list(range(self.n))
        np.random.shuffle(left)
        for _ in torch.randperm(self.n):
            yield left.pop(random.randrange(len(left)))

    def __len__(self) -> int:
        return self.n


class Holding(Sampler[int]):
    """Draws from generators that it holds, of each kind, and hears of epochs."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.epoch = 0
        self.own = (random.Random(1), torch.Generator().manual_seed(2))
        self.first, self.second = self.own
        self.third, self.fourth = np.random.default_rng(3), np.random.RandomState(4)

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        order = list(range(self.n))
        self.first.shuffle(order)
        order = [order[i] for i in torch.randperm(self.n, generator=self.second).tolist()]
        self.third.shuffle(order)
        self.fourth.shuffle(order)
        return iter(order)

    def __len__(self) -> int:
        return self.n


class Endless(Sampler[int]):
    """Has no length and no end."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.generator = None

    def __iter__(self) -> Iterator[int]:
        while True:
            yield from torch.randperm(self.n, generator=self.generator).tolist()


class Unsized:
    """No sampler of torch, and without a length."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.n))


class Remembering(Sampler[int]):
    """Has a state of its own: each pass begins one further."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.shift = 0

    def __iter__(self) -> Iterator[int]:
        self.shift += 1
        return iter([(i + self.shift) % self.n for i in range(self.n)])

    def __len__(self) -> int:
        return self.n

    def state_dict(self) -> dict[str, int]:
        return {"shift": self.shift}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.shift = state["shift"]


KINDS: dict[str, Callable[[int], Any]] = {
    "random": lambda n: RandomSampler(range(n)),
    "sequential": lambda n: SequentialSampler(range(n)),
    "subset": lambda n: SubsetRandomSampler(range(n)),
    "drawing": Drawing,
    "holding": Holding,
    "remembering": Remembering,
    "unsized": Unsized,
    "list": lambda n: list(range(n)),
    "own generator": lambda n: RandomSampler(range(n), generator=torch.Generator().manual_seed(5)),
    "batches": lambda n: BatchSampler(RandomSampler(range(n)), 3, False),
    "batches of drawing": lambda n: BatchSampler(Drawing(n), 3, False),
    "list of batches": lambda n: [list(range(first, min(first + 3, n))) for first in range(0, n, 3)],
}


def on_rank(kind: str, n: int, rank: int, ranks: int, **options: Any) -> Distributed:
    """Return a rank's sampler, with global generators as they are on no other rank."""
    for seed in (random.seed, np.random.seed, torch.manual_seed):
        seed(1000 + rank)
    return distribute(KINDS[kind](n), rank=rank, ranks=ranks, **options)


def flat(items: Any) -> list[int]:
    return [index for item in items for index in (item if isinstance(item, list) else [item])]


# --- one pass after the other ---------------------------------------------------------------------


@given(
    kind=st.sampled_from(sorted(KINDS)),
    n=st.integers(1, 50),
    ranks=st.integers(1, 8),
    batch=st.sampled_from(["per_rank", "global"]),
    uneven=st.sampled_from(["keep", "repeat", "drop"]),
)
@settings(max_examples=300, deadline=None)
def test_each_example_is_given_once(kind: str, n: int, ranks: int, batch: str, uneven: str) -> None:
    n = max(n, ranks)
    batches = "batches" in kind
    if batch == "global" and (not batches or ranks > 3):
        batch = "per_rank"
    samplers = [on_rank(kind, n, rank, ranks, batch=batch, uneven=uneven) for rank in range(ranks)]
    previous: list[list[int]] = []
    for _ in range(2):
        items = [list(sampler) for sampler in samplers]
        given_out = [flat(one) for one in items]
        everything = [index for one in given_out for index in one]
        lengths = [len(one) for one in given_out]
        if uneven == "keep":
            assert sorted(everything) == list(range(n))
        elif uneven == "repeat":
            assert set(everything) == set(range(n))
        else:
            assert len(set(everything)) == len(everything)
        if uneven != "keep":
            assert len({len(one) for one in items}) == 1
            assert len(set(lengths)) == 1 or kind == "list of batches"  # batches of many sizes stay whole
            most = ranks * (len(items[0]) if batch == "global" else 1)
            assert abs(len(everything) - n) < most + (batch == "global")
        elif not batches:
            assert max(lengths) - min(lengths) <= 1
        if kind not in ("unsized", "list of batches"):
            assert [len(sampler) for sampler in samplers] == [len(one) for one in items]
        if kind in ("random", "drawing", "holding", "own generator") and n > 20:
            assert given_out != previous
        previous = given_out


def test_the_order_is_the_samplers_own() -> None:
    alone = RandomSampler(range(20), generator=torch.Generator().manual_seed(5))
    order = [list(alone), list(alone)]
    parts = [on_rank("own generator", 20, rank, 3) for rank in range(3)]
    for k in (0, 1):
        own = [list(part) for part in parts]
        assert own == [order[k][rank::3] for rank in range(3)]


def test_a_weighted_sampler_draws_as_often_as_alone() -> None:
    weights = torch.tensor([0.0, 1.0, 3.0, 0.0, 6.0])
    make = lambda: WeightedRandomSampler(weights, 1000, generator=torch.Generator().manual_seed(1))  # noqa: E731
    parts = [list(distribute(make(), rank=rank, ranks=4)) for rank in range(4)]
    assert [index for step in zip(*parts, strict=True) for index in step] == list(make())


def test_batches_are_dealt_out_whole_or_divided() -> None:
    batches = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14]]
    dealt = [list(distribute(batches, rank=rank, ranks=3)) for rank in range(3)]
    assert dealt == [[[0, 1, 2, 3], [12]], [[4, 5, 6, 7], [13]], [[8, 9, 10, 11], [14]]]
    short = BatchSampler(range(7), 3, False)
    assert [list(distribute(short, rank=rank, ranks=3)) for rank in range(3)] == [[[0, 1, 2]], [[3, 4]], [[5, 6]]]
    divided = [list(distribute(batches, rank=rank, ranks=2, batch="global")) for rank in range(2)]
    assert divided == [[[0, 1], [4, 5], [8, 9], [12, 13]], [[2, 3], [6, 7], [10, 11], [14]]]
    repeated = list(distribute(batches, rank=1, ranks=2, batch="global", uneven="repeat"))
    assert repeated[-1] == [14, 12]
    assert list(distribute(batches, rank=1, ranks=2, batch="global", uneven="drop"))[-1] == [13]
    tensors = [torch.arange(4), torch.arange(4, 6)]
    assert [part.tolist() for part in distribute(tensors, rank=1, ranks=2, batch="global")] == [[2, 3], [5]]


def test_global_generators_are_left_alone() -> None:
    for kind in ("random", "drawing", "subset", "batches of drawing"):
        sampler = on_rank(kind, 20, 1, 2)
        before = (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())  # type: ignore[index, union-attr]
        assert len(list(sampler)) > 0
        assert (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()) == before  # type: ignore[index, union-attr]


def test_seeds_give_other_orders() -> None:
    for kind in ("random", "drawing"):
        assert list(on_rank(kind, 50, 0, 2)) == list(on_rank(kind, 50, 0, 2))
        assert list(on_rank(kind, 50, 0, 2, seed=1)) != list(on_rank(kind, 50, 0, 2))


def test_an_endless_sampler_can_be_gone_through_as_far_as_one_likes() -> None:
    parts = [iter(distribute(Endless(10), rank=rank, ranks=3)) for rank in range(3)]
    steps = [[next(part) for part in parts] for _ in range(10)]
    for k in range(3):
        assert sorted(flat(steps)[10 * k : 10 * k + 10]) == list(range(10))
    with pytest.raises(TypeError):
        len(distribute(Endless(10), rank=0, ranks=3))


def test_set_epoch_is_not_needed_and_reaches_those_who_want_it() -> None:
    plain, told = on_rank("random", 20, 0, 2), on_rank("random", 20, 0, 2)
    told.set_epoch(0)
    first = list(told)
    told.set_epoch(0)
    assert [first, list(told)] == [list(plain), list(plain)]
    holding = on_rank("holding", 20, 0, 2)
    holding.set_epoch(3)
    assert holding.sampler.epoch == 3  # type: ignore[attr-defined]


def test_passes_are_counted() -> None:
    sampler = on_rank("random", 6, 0, 2)
    seen = [sampler.epoch]
    for _ in range(2):
        for _ in sampler:
            seen.append(sampler.epoch)
        seen.append(sampler.epoch)
    assert seen == [0, 0, 0, 0, 1, 1, 1, 1, 2]


# --- going on -------------------------------------------------------------------------------------


@given(
    kind=st.sampled_from(sorted(set(KINDS) - {"list of batches"})),
    n=st.integers(8, 60),
    first=st.integers(1, 8),
    then=st.integers(1, 8),
    steps=st.integers(0, 40),
    saved_by=st.integers(0, 7),
)
@settings(max_examples=200, deadline=None)
@pytest.mark.thorough
def test_a_pass_goes_on_with_another_number_of_ranks(
    kind: str, n: int, first: int, then: int, steps: int, saved_by: int
) -> None:
    seen: list[int] = []
    samplers = [on_rank(kind, n, rank, first) for rank in range(first)]
    if kind == "own generator":
        [list(sampler) for sampler in samplers]  # a pass before
    going = [iter(sampler) for sampler in samplers]
    for _ in range(steps):
        seen += flat(index for one in going for index in [next(one, [])])
    state = samplers[saved_by % first].state_dict()
    unbroken = [flat(list(one)) for one in going], [flat(list(sampler)) for sampler in samplers]
    whole = len(seen) + len(flat(unbroken[0]))
    assert whole == n
    samplers = [on_rank(kind, n, rank, then) for rank in range(then)]
    for sampler in samplers:
        sampler.load_state_dict(state)
    if state["position"] and len(seen) < n:
        seen += flat(flat(list(sampler)) for sampler in samplers)
        assert sorted(seen) == list(range(n))
    elif not state["position"] and len(seen) < n:
        assert sorted(flat(flat(list(sampler)) for sampler in samplers)) == list(range(n))
    following = [flat(list(sampler)) for sampler in samplers]
    assert sorted(flat(following)) == list(range(n))
    if first == then and len(seen) < n:
        assert following == unbroken[1]


def test_a_state_from_the_end_of_a_pass_is_one_from_the_beginning_of_the_next() -> None:
    sampler = on_rank("random", 12, 0, 2)
    seen = []
    for index in sampler:
        seen.append(index)
        state = sampler.state_dict()  # the last one before the pass knows that it is over
    after = on_rank("random", 12, 0, 2)
    after.load_state_dict(state)
    assert after.epoch == 1
    assert list(after) == list(sampler) != seen
    between = sampler.state_dict()
    assert (between["epoch"], between["position"]) == (2, 0)


LOADERS: dict[str, Callable[..., Any]] = {"plain": DataLoader, "stateful": StatefulDataLoader}


def step_by_step(sampler: Distributed, loader: Any, steps: int | None) -> tuple[list[int], Any]:
    """Go through so many batches, and return what they have and the state then."""
    seen = []
    for step, batch in enumerate(loader, start=1):
        seen += batch.tolist()
        if step == steps:
            if isinstance(loader, StatefulDataLoader):
                return seen, loader.state_dict()
            done = step * (loader.batch_size or 1)
            return seen, sampler.state_dict(done=done if loader.num_workers else None)
    return seen, None


@pytest.mark.parametrize("kind", ["random", "drawing", "holding", "batches"])
@pytest.mark.parametrize(("loaders", "workers"), [("plain", 0), ("plain", 2), ("stateful", 0), ("stateful", 2)])
def test_loaders_that_draw_ahead_lose_nothing(kind: str, loaders: str, workers: int) -> None:
    n, seen, state = 71, [], None
    for ranks, steps in ((3, 2), (2, 3), (4, None)):
        states = []
        for rank in range(ranks):
            sampler = on_rank(kind, n, rank, ranks)
            how = {"batch_sampler": sampler} if kind == "batches" else {"sampler": sampler, "batch_size": 3}
            loader = LOADERS[loaders](list(range(n)), num_workers=workers, **how)
            if state is not None:
                (sampler if loaders == "plain" else loader).load_state_dict(state)
            own, saved = step_by_step(sampler, loader, steps)
            seen += own
            states.append(saved)
        state = states[-1]
    assert sorted(seen) == list(range(n))


def test_a_loader_that_draws_ahead_has_to_say_what_is_done() -> None:
    sampler = on_rank("random", 40, 0, 2)
    loader = DataLoader(list(range(40)), sampler=sampler, batch_size=2, num_workers=1)
    for step, _ in enumerate(loader, start=1):
        if step == 3:
            with pytest.raises(StateError) as refused:
                sampler.state_dict()
            state = sampler.state_dict(done=6)
    assert str(refused.value) == (
        "The loader has worker processes, and has drawn from the sampler what it has not given out yet. Say how many "
        "indices the training is done with in this pass, state_dict(done=steps * batch_size) (or done=steps, if the "
        "sampler gives batches), and done=len(sampler) after its end. Or use the StatefulDataLoader of torchdata."
    )
    assert state["position"] == 12
    assert sampler.state_dict(done=len(sampler))["epoch"] == 1
    stateful = StatefulDataLoader(list(range(40)), sampler=on_rank("random", 40, 0, 2), batch_size=2, num_workers=1)
    for _ in stateful:
        stateful.state_dict()


def test_more_cannot_be_done_than_was_drawn() -> None:
    sampler = on_rank("random", 40, 0, 2)
    next(iter(sampler))
    with pytest.raises(StateError) as refused:
        sampler.state_dict(done=2)
    assert str(refused.value) == (
        "done=2 says that so many of the items of this pass are done with, and 1 were drawn. Count those that this "
        "rank was given since the pass began, or since it went on from a state: indices, or batches where the sampler "
        "gives batches."
    )


def test_a_generator_that_is_shared_with_the_loader_does_no_harm() -> None:
    def make() -> tuple[Distributed, DataLoader[int]]:
        generator = torch.Generator().manual_seed(1)
        sampler = distribute(RandomSampler(range(24), generator=generator), rank=0, ranks=2)
        return sampler, DataLoader(list(range(24)), sampler=sampler, batch_size=3, generator=generator)

    for steps in (0, 1, 2):
        sampler, loader = make()
        going = iter(loader)
        for _ in range(steps):
            next(going)
        state = sampler.state_dict()
        rest = [batch.tolist() for one in (going, loader) for batch in one]
        sampler, loader = make()
        sampler.load_state_dict(state)
        again = [batch.tolist() for batch in loader]
        assert again == rest[: 4 - steps]


def test_a_state_can_be_saved_by_torch(tmp_path: Any) -> None:
    sampler = on_rank("random", 40, 0, 2)
    going = iter(sampler)
    next(going)
    torch.save(sampler.state_dict(), tmp_path / "state.pt")
    again = on_rank("random", 40, 0, 2)
    again.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert list(again) == list(going)


def test_a_state_of_something_else_is_refused() -> None:
    sampler = on_rank("random", 40, 0, 2)
    with pytest.raises(StateError, match="is no state of a sampler of Étude"):
        sampler.load_state_dict({"yielded": 3})
    with pytest.raises(StateError) as refused:
        sampler.load_state_dict(on_rank("holding", 40, 0, 2).state_dict())
    assert str(refused.value) == (
        "The state is that of a sampler with 5 generators, and this one has 2. Load it into a sampler that was made in "
        "the same way."
    )


# --- where ranks come from, and errors ------------------------------------------------------------


def test_ranks_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (distribute([0, 1]).rank, distribute([0, 1]).ranks) == (0, 1)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert list(distribute([0, 1, 2, 3])) == [1, 3]
    assert list(distribute([0, 1, 2, 3], rank=0, ranks=4)) == [0]


def test_ranks_come_from_torch_where_it_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "4")
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        assert list(distribute([0, 1])) == [0, 1]
    finally:
        torch.distributed.destroy_process_group()


def test_it_stands_in_the_window() -> None:
    assert etude.distribute is distribute


ALREADY = (
    "The sampler DistributedSampler gives a rank's part already, and would be divided twice. Leave it out, and pass "
    "what one rank would use: RandomSampler(dataset) where that was shuffled."
)


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (
            lambda: RandomSampler(range(3)),
            {"rank": 0, "ranks": 4},
            "ranks=4 are more than there are examples: the sampler gives 3 examples. Use fewer ranks.",
        ),
        (
            lambda: BatchSampler(RandomSampler(range(9)), 2, False),
            {"rank": 0, "ranks": 4, "batch": "global"},
            'batch="global" divides each batch over ranks=4, and batches have 2. Make them larger, at least 4; or pass '
            'batch="per_rank".',
        ),
        (lambda: DistributedSampler(range(9), 2, 0), {}, ALREADY),  # type: ignore[arg-type]
        (lambda: BatchSampler(DistributedSampler(range(9), 2, 0), 2, False), {}, ALREADY),  # type: ignore[arg-type]
        (
            lambda: DataLoader(list(range(4))),
            {},
            "distribute() got a DataLoader, and divides what a loader draws. Pass its sampler (or batch sampler), and "
            "make the loader with what comes back.",
        ),
        (
            lambda: TensorDataset(torch.ones(4)),
            {},
            "distribute() got a data set, TensorDataset. Pass a sampler: distribute(RandomSampler(dataset)) to shuffle,"
            " distribute(SequentialSampler(dataset)) otherwise.",
        ),
        (lambda: 3, {}, "distribute() got 3 (int), which gives no indices. Pass a sampler."),
        (lambda: [1], {"rank": 1}, "rank=1 and ranks=None: one of them is missing. Pass both, or neither."),
        (
            lambda: [1, 2],
            {"rank": 2, "ranks": 2},
            "rank=2 cannot be one of ranks=2. They are counted from 0: rank is below ranks.",
        ),
        (lambda: [1], {"uneven": "pad"}, "uneven='pad' is unknown. Pass one of 'keep', 'repeat', 'drop'."),
        (lambda: [1], {"batch": "all"}, "batch='all' is unknown. Pass one of 'per_rank', 'global'."),
    ],
)
def test_what_cannot_be_divided_is_refused(make: Callable[[], Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        distribute(make(), **options)
    assert str(refused.value) == message


def test_what_can_be_gone_through_once_is_refused() -> None:
    with pytest.raises(ConfigError, match="which ends for good with its first pass"):
        distribute(iter([1, 2]))


def test_indices_where_batches_were_to_be_are_refused() -> None:
    with pytest.raises(ConfigError) as refused:
        list(distribute(RandomSampler(range(1)), rank=0, ranks=1, batch="global"))
    assert str(refused.value) == (
        'batch="global" divides batches, and the sampler gave 0 (int). Wrap it, BatchSampler(sampler, batch_size, '
        'drop_last=False), and pass batch_sampler= to the loader; or leave batch="global" out.'
    )
