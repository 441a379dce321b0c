"""Ranks meet, agree on reports, and notice when one is lost or goes its own way."""

from __future__ import annotations

import math
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st
from ranks_at_work import first, outcome, run
from torch import nn

from etude.core.errors import ConfigError, DriftError, RankLostError, RanksError
from etude.frameworks import torch_drift, torch_ranks, torch_together
from etude.frameworks.standstill import Waiting
from etude.frameworks.torch_average import Averager
from etude.frameworks.torch_drift import checksums
from etude.frameworks.torch_ranks import Groups
from etude.frameworks.torch_reports import PLACE, Agreed, one_of

# --- what ranks do --------------------------------------------------------------------------------


def plain_values_travel(groups: Groups) -> None:
    assert groups.gather({"rank": groups.rank, "also": [1, None]}) == [
        {"rank": rank, "also": [1, None]} for rank in range(groups.ranks)
    ]
    assert groups.broadcast(f"from {groups.rank}") == "from 0"


def reports_become_one(groups: Groups) -> None:
    """Several are under way at once, more numbers than one message holds, in whatever order they are named."""
    last = groups.rank == groups.ranks - 1
    pairs = [("loss", float(groups.rank)), ("hits", 10.0 + groups.rank), ("lr", 0.5 + groups.rank)]
    first = groups.mean(
        dict(pairs if last else reversed(pairs)), weight=1 + groups.rank, how={"hits": "sum", "lr": "rank 0"}
    )
    second = groups.mean({str(n): 0.1 * n for n in range(200)}, stop=last)
    third = groups.mean({"loss": math.nan if last else 0.1 + 0.2}, weight=0 if last else 1)
    fourth = groups.mean({})
    agreed = first.wait()
    weights = [1 + rank for rank in range(groups.ranks)]
    assert agreed.values["loss"] == sum(rank * w for rank, w in enumerate(weights)) / sum(weights)
    assert agreed.values["hits"] == sum(10 + rank for rank in range(groups.ranks))
    assert agreed.values["lr"] == 0.5
    assert list(agreed.values) == [name for name, _ in (pairs if last else reversed(pairs))]
    assert not agreed.stop
    assert second.wait().stop
    assert second.wait().values == {str(n): 0.1 * n for n in range(200)}  # equal values stay, to the bit
    assert third.wait().values == {"loss": 0.1 + 0.2}
    assert fourth.wait() == Agreed({}, False)
    assert all(pending.done() for pending in (first, second, third, fourth))


def reports_with_other_names(groups: Groups) -> str:
    with pytest.raises(RanksError) as refused:
        groups.mean({"loss": 1.0, "accuracy" if groups.rank else "f1": 1.0}).wait()
    return str(refused.value)


def a_second_join(groups: Groups) -> str:
    with pytest.raises(ConfigError) as refused:
        torch_ranks.join(rank=groups.rank, ranks=groups.ranks, prefix="again", timeout_s=5)
    return str(refused.value)


def drift_is_named(groups: Groups) -> str:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    torch_drift.align(groups, {"net": model})
    assert torch_drift.check(groups, {"net": model}) == []
    with torch.no_grad():
        model[2].weight[0, 1] += 0.25 * groups.rank
        model[0].bias[0] += 0.01 * groups.rank
    with pytest.raises(DriftError) as refused:
        torch_drift.check(groups, {"net": model})
    return str(refused.value)


def nan_on_one_rank_is_drift(groups: Groups) -> None:
    model = nn.Linear(2, 2)
    torch_drift.align(groups, {"": model})
    with torch.no_grad():
        model.weight[0, 0] = torch.nan
    assert torch_drift.check(groups, {"": model}) == []  # on all of them it is the same model
    with torch.no_grad():
        model.weight[1, 1] = torch.inf if groups.rank else 1.0
    with pytest.raises(DriftError):
        torch_drift.check(groups, {"": model})


def rounding_is_taken_over(groups: Groups) -> list[str]:
    """Buffers become rank 0's, without a word."""
    model = nn.Sequential(nn.Linear(64, 64, dtype=torch.bfloat16), nn.BatchNorm1d(64))
    torch_drift.align(groups, {"": model})
    with torch.no_grad():
        model[0].weight[3, 5] *= 1 + 0.0079 * groups.rank
        model[1].running_mean += groups.rank
        model[1].num_batches_tracked += groups.rank
    notes = torch_drift.check(groups, {"": model})
    assert torch_drift.check(groups, {"": model}) == []
    assert int(model[1].num_batches_tracked) == 0
    return notes


def all_begin_alike(groups: Groups) -> list[str]:
    torch.manual_seed(groups.rank)
    model = nn.Sequential(nn.Linear(4, 4), nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last))
    model[0].register_buffer("phase", torch.polar(torch.ones(2), torch.rand(2)))
    model[0].turned = nn.Parameter(torch.randn(3, 5).t())
    notes = torch_drift.align(groups, {"": model})
    assert torch_drift.differing(groups, model.state_dict()) == {}
    torch.manual_seed(0)
    assert torch.equal(model[0].weight, nn.Linear(4, 4).weight)
    assert torch_drift.align(groups, {"": model}) == []
    return notes


def other_forms(groups: Groups) -> str:
    model = nn.Linear(4, 1 + groups.rank)
    with pytest.raises(RanksError) as refused:
        torch_drift.align(groups, {"": model})
    return str(refused.value)


def a_rank_that_leaves_out_a_backward(groups: Groups) -> str:
    """The others find it by the timeout."""
    model = nn.Linear(2, 2)
    averager = Averager({"": model}, groups)
    averager.check()
    if groups.rank == 0:
        began = time.monotonic()
        with pytest.raises(RankLostError) as lost:
            model(torch.ones(1, 2)).sum().backward()
        assert time.monotonic() - began >= groups.timeout_s / 2
        return str(lost.value)
    signal.pause()  # it hangs, until the test ends it
    return ""


def a_rank_that_is_killed(groups: Groups) -> str:
    """The others notice at once: their timeout is minutes away."""
    model = nn.Linear(2, 2)
    Averager({"": model}, groups)
    if groups.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)

    def until_it_is_noticed() -> None:
        for _ in range(1000):
            model(torch.ones(1, 2)).sum().backward()

    with pytest.raises(RankLostError) as lost:
        until_it_is_noticed()
    return str(lost.value)


def a_rank_0_that_stands_still(groups: Groups) -> str:
    """It serves the store, which answers nobody then; the others find it by the timeout all the same."""
    groups.gather(None)
    if groups.rank == 0:
        os.kill(os.getpid(), signal.SIGSTOP)
    with pytest.raises(RankLostError) as lost:
        groups.gather(None)
    return str(lost.value)


def a_slow_rank_is_waited_for(groups: Groups) -> None:
    """Two wait at different places, many times as long as a standstill takes to be seen, and the third comes then."""
    slow, apart = groups.ranks - 1, groups.rank == 1
    if groups.rank == slow:
        while any(times_said(groups, rank) < 12 for rank in range(slow)):
            pass
    pending = groups.mean({"loss": 1.0})
    if apart:
        groups.gather(None)
    assert pending.wait().values == {"loss": 1.0}
    if not apart:
        groups.gather(None)


def times_said(groups: Groups, rank: int) -> int:
    """How often a rank has said where it waits."""
    key = f"wait of rank {rank}"
    text = groups._store.get(key).decode() if groups._store.check([key]) else ""
    return Waiting.unpacked(text).said if text else 0


def ranks_at_two_places(groups: Groups) -> str:
    """Rank 0 calls backward alone: the others are at the end of an epoch by then."""
    model = nn.Linear(2, 2)
    averager = Averager({"net": model}, groups)
    model(torch.ones(1, 2)).sum().backward()
    averager.check()
    if groups.rank == 0:
        with pytest.raises(RanksError) as told:
            model(torch.ones(1, 2)).sum().backward()
        assert not isinstance(told.value, RankLostError)
        return str(told.value)
    groups.mean({f"{PLACE}the end of an epoch": 0.0}).wait()
    return ""


def another_attempt(groups: Groups) -> None:
    """The same store and the same processes, under a prefix of its own."""
    groups.leave()
    again = torch_ranks.join(
        rank=groups.rank, ranks=groups.ranks, prefix="attempt-2", timeout_s=10, store=groups._store
    )
    assert again.gather(groups.rank) == list(range(groups.ranks))
    again.leave()
    if groups.rank == 1:  # the others do not come to this one
        with pytest.raises(RankLostError) as lost:
            torch_ranks.join(rank=1, ranks=groups.ranks, prefix="attempt-3", timeout_s=0.5, store=groups._store)
        assert "rank 1 waited for all 3 ranks, and nothing came within 0.5 s: " in str(lost.value)
        assert not dist.is_initialized()
        groups.post("tried", "yes")
    groups.read("tried")  # rank 0 serves the store


# --- the tests ------------------------------------------------------------------------------------

TOGETHER = (
    "plain_values_travel", "reports_become_one", "reports_with_other_names", "a_second_join", "drift_is_named",
    "nan_on_one_rank_is_drift", "rounding_is_taken_over", "all_begin_alike", "other_forms", "a_slow_rank_is_waited_for",
    "another_attempt",
)  # fmt: skip


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return run(__file__, TOGETHER, 3, tmp_path_factory.mktemp("ranks") / "ranks")


@pytest.mark.parametrize("name", TOGETHER)
def test_on_three_ranks(ranks: list[dict[str, Any]], name: str) -> None:
    outcome(ranks, name)


def test_ranks_that_report_other_metrics_hear_both_lists(ranks: list[dict[str, Any]]) -> None:
    told = outcome(ranks, "reports_with_other_names")
    assert set(told) == {
        "Report 5 of rank 1 has the metrics [accuracy, loss], and that of rank 0 has [f1, loss]. A report is one of "
        "all ranks, so each has to name the same metrics. Report on all ranks alike; only rank 0's prints and files "
        "show anyway."
    }


def test_a_process_that_is_in_a_group_is_refused(ranks: list[dict[str, Any]]) -> None:
    assert outcome(ranks, "a_second_join")[1] == (
        "This process has a default group of torch.distributed already, so it cannot become a rank of ours. Leave out "
        "dist.init_process_group(...), or let the library that called it distribute by itself (attach=False)."
    )


def test_a_rank_beyond_the_others_is_refused() -> None:
    with pytest.raises(ConfigError, match="rank=2 of ranks=2 cannot be: ranks count from 0"):
        torch_ranks.join(rank=2, ranks=2, prefix="a", timeout_s=1)


def test_drift_names_the_parameter_and_the_usual_causes(ranks: list[dict[str, Any]]) -> None:
    told = outcome(ranks, "drift_is_named")
    assert set(told) == {
        "net.2.weight is not the same on all ranks: on ranks 1, 2 it differs from rank 0's by up to 0.5. It is one of "
        "2 that differ: net.0.bias, net.2.weight. The ranks train models of their own, and no average of them is meant "
        "by your code. Usual causes: a parameter is changed elsewhere than by an optimizer (change it alike on all "
        "ranks); a learning rate or a stop depends on a loss or metric of one rank alone (use run.mean(value), "
        "or evaluate on whole loaders); gradients come from torch.autograd.grad, which gives those of one rank "
        "(use backward); a parameter is drawn anew from a generator that differs by rank (draw it in the model "
        "function); backward or step is not called on every rank (call it on all, with a loss of 0 where need be)."
    }


def test_notes_say_what_was_taken_over(ranks: list[dict[str, Any]]) -> None:
    assert outcome(ranks, "rounding_is_taken_over")[2] == [
        "0.weight differed between ranks by rounding; all of them have rank 0's values now. Ranks on different "
        "processors compute a little differently."
    ]
    assert outcome(ranks, "all_begin_alike")[0] == [
        "The ranks began with different values of 0.weight, 0.bias, 0.turned, 1.weight, 1.bias and 1 more; all of them "
        "have rank 0's now."
    ]


def test_models_of_other_forms_are_refused(ranks: list[dict[str, Any]]) -> None:
    assert outcome(ranks, "other_forms")[0] == (
        "Rank 1 has another model than rank 0: it has weight of shape (2, 4) and type torch.float32, and rank 0 has "
        "weight of shape (1, 4) and type torch.float32. All ranks train one model, so the model function has to give "
        "the same on all of them. Let its form depend on parameters alone."
    )


def test_a_rank_that_hangs_is_found_by_the_timeout(tmp_path: Path) -> None:
    name = "a_rank_that_leaves_out_a_backward"
    went_well, told = first(__file__, name, 2, tmp_path / "ranks", rank=0, timeout_s=1.0)
    assert went_well, told
    assert told.startswith(
        "rank 0 waited for gradients of weight, and nothing came within 1 s: another rank hangs, or does not do the "
        "same as this one (a backward or a report that only some ranks reach). Last heard: rank 0 waits at backward 1 "
        "of Linear (test_torch_ranks.py:"
    )
    assert "); rank 1 waits for nobody: a rank computes then, hangs, or waits for something of its own. torch" in told


def test_a_rank_that_stands_still_with_the_store_is_found_by_the_timeout_too(tmp_path: Path) -> None:
    name = "a_rank_0_that_stands_still"
    went_well, told = first(__file__, name, 2, tmp_path / "ranks", rank=1, timeout_s=1.0)
    assert went_well, told
    assert told.startswith("rank 1 waited for what the other ranks gave, and nothing came within 1 s: another rank")


def test_ranks_at_two_places_hear_of_both(tmp_path: Path) -> None:
    name = "ranks_at_two_places"
    went_well, told = first(__file__, name, 3, tmp_path / "ranks", rank=0, timeout_s=600.0)
    assert went_well, told
    assert "rank 0 waits at backward 2 of net (test_torch_ranks.py:" in told
    assert "ranks 1, 2 wait at the end of an epoch (test_torch_ranks.py:" in told


def test_a_rank_that_is_killed_is_noticed_at_once(tmp_path: Path) -> None:
    name = "a_rank_that_is_killed"
    found = run(__file__, [name], 2, tmp_path / "ranks", killed=[1], timeout_s=600.0)
    went_well, told = found[0][name]
    assert went_well, told
    assert "and the connection broke: another rank ended. Its own error is the one to read." in told


# --- alone ----------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(0, 100)), min_size=1, max_size=8),
    st.floats(allow_nan=False, allow_infinity=False),
)
def test_a_mean_is_weighted_and_equal_values_stay(pairs: list[tuple[float, float]], value: float) -> None:
    values, weights = [v for v, _ in pairs], [w for _, w in pairs]
    found = one_of(values, weights, "mean")
    if sum(weights) > 1e-3:
        kept = [v for v, w in pairs if w > 0]
        assert min(kept) - 1e-6 <= found <= max(kept) + 1e-6
        assert one_of([value] * len(pairs), weights, "mean") == value
    assert one_of(values, weights, "rank 0") == values[0]


def test_a_mean_of_nothing_is_nan_and_infinite_values_are_said() -> None:
    assert math.isnan(one_of([1.0, 2.0], [0, 0], "mean"))
    assert one_of([math.inf, 2.0], [1, 1], "mean") == math.inf
    assert math.isnan(one_of([math.nan, 2.0], [1, 1], "mean"))
    assert math.isnan(one_of([math.inf, -math.inf], [1, 1], "sum"))


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool, torch.complex64]
)
@pytest.mark.parametrize("shape", [(), (1,), (7,), (33, 65), (4, 3, 5, 5), (0, 3)])
def test_one_bit_changes_a_checksum(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    tensor = torch.zeros(shape, dtype=dtype)
    bits = tensor.clone()
    same = [tensor, tensor.clone()]
    if len(shape) == 4:
        same = [tensor.to(memory_format=torch.channels_last), tensor.clone().to(memory_format=torch.channels_last)]
    assert len(set(checksums(same).tolist())) == 1
    seen = {int(checksums([bits])[0])}
    for nth in range(min(bits.numel(), 40)):
        changed = bits.clone()
        changed.view(-1)[nth] = 1
        seen.add(int(checksums([changed])[0]))
    assert len(seen) == 1 + min(bits.numel(), 40)


def test_a_part_of_a_tensor_is_summed_like_its_copy() -> None:
    whole = torch.randn(50, 41)
    parts = [whole[:, 3:20], whole[1:7], whole.t()[5:9, 1:], whole[2, 1]]
    assert (
        checksums(parts).tolist()
        == checksums([part.clone(memory_format=torch.contiguous_format) for part in parts]).tolist()
    )


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (RankLostError("rank 1 is gone"), True),
        (TimeoutError("the store"), True),
        (RuntimeError("[/x/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [::1]:5"), True),
        (dist.DistNetworkError("the socket was closed"), True),
        (dist.DistBackendError("NCCL error: remote process exited or there was a network error"), True),
        (dist.DistBackendError("NCCL error: invalid usage"), False),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (RanksError("ranks are apart"), False),
    ],
)
def test_what_only_says_that_others_are_gone_is_no_error_of_this_rank(error: Exception, lost: bool) -> None:
    assert torch_together.is_lost(error) is lost
