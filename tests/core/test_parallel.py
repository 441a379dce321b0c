"""How a call asks for several ranks, and what of it counts."""

from __future__ import annotations

import msgspec
import pytest

from etude.core.errors import ConfigError
from etude.core.ranks import DDP, FSDP, Parallel, read_parallel


def test_one_rank_is_nothing_to_speak_of() -> None:
    assert read_parallel(1, "ddp", "global") is None


@pytest.mark.parametrize("how", ["ddp", "fsdp", DDP(evaluation="divided"), FSDP(block="Layer")])
def test_what_a_call_says_travels_and_lies_in_a_journal(how: object) -> None:
    read = read_parallel(3, how, "per_rank")
    assert read is not None
    assert (read.ranks, read.batch) == (3, "per_rank")
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(read), type=Parallel) == read
    assert read_parallel(3, msgspec.to_builtins(read.how), "per_rank") == read


def test_all_that_changes_numbers_counts() -> None:
    calls = (
        (2, "ddp", "global"),
        (3, "ddp", "global"),
        (2, "ddp", "per_rank"),
        (2, DDP(evaluation="divided"), "global"),
        (2, DDP(reduce={"tokens": "sum"}), "global"),
        (2, DDP(attach=False), "global"),
        (2, FSDP(block="Layer"), "global"),
        (2, FSDP(block=("Layer", "Head")), "global"),
    )
    read = [read_parallel(*call) for call in calls]
    assert len({one.identity for one in read if one is not None}) == len(calls)
    patient = read_parallel(2, DDP(timeout_s=5), "global")
    assert patient is not None
    assert read[0] is not None
    assert patient.identity == read[0].identity


@pytest.mark.parametrize(
    ("call", "why"),
    [
        ((0, "ddp", "global"), "ranks=0 cannot be"),
        ((1 << 20, "ddp", "global"), "is more than can work together"),
        ((2, "mpi", "global"), "parallel='mpi'"),
        ((2, "ddp", "mine"), "batch='mine'"),
    ],
)
def test_a_call_that_cannot_be_is_refused(call: tuple[int, str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        read_parallel(*call)


def test_options_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"evaluation='half' \(str\) is not known"):
        DDP(evaluation="half")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"Pass one of 'mean', 'sum', 'rank 0'"):
        DDP(reduce={"loss": "max"})  # type: ignore[dict-item]
    with pytest.raises(ConfigError, match="leaves no time"):
        DDP(timeout_s=0)
    with pytest.raises(ConfigError, match="is no answer"):
        DDP(attach="no")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="something in it that is no name"):
        FSDP(block=("Layer", ""))
    with pytest.raises(ConfigError, match="shards the model itself"):
        FSDP(attach=False)
    with pytest.raises(ConfigError, match="all need equally many"):
        FSDP(evaluation="divided")
