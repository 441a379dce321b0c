"""What a trial needs, how many fit on a machine, what is said if they do not, and who gets which GPUs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from etude.core.errors import ConfigError
from etude.core.gpu_shares import Shares
from etude.core.resources import Machine, Resources, said, sharers
from etude.core.room import how_many_fit, mend, why_not

TWO = Machine(cores=2, gpus=("0", "1"), memory_gb=23.46)

PARTS = st.sampled_from([0.05, 0.1, 0.2, 0.25, 0.3, 1 / 3, 0.333, 0.4, 0.5, 0.6, 1.0, 2.0, 3.0, 4.0])
NEEDS = st.builds(
    Resources,
    cpus=st.none() | st.sampled_from([0.1, 0.5, 1, 1.5, 2, 3]),
    gpus=st.none() | st.just(0.0) | PARTS,
    memory_gb=st.none() | st.sampled_from([0.5, 2, 7.5]),
)
MACHINES = st.builds(
    Machine,
    cores=st.integers(1, 64),
    gpus=st.integers(0, 8).map(lambda n: tuple(map(str, range(n)))),
    memory_gb=st.none() | st.floats(0.25, 512),
)


# --- what is said -----------------------------------------------------------------------------------


@given(NEEDS)
def test_the_text_of_resources_reads_as_the_same_resources(needs: Resources) -> None:
    assert Resources.read(str(needs)) == needs


def test_resources_are_read_from_an_object_a_text_or_nothing() -> None:
    assert Resources.read(None) is None
    assert Resources.read(Resources(gpus=1)) == Resources(gpus=1.0)
    assert Resources.read(" gpus = 0.5 , memory_gb=4,") == Resources(gpus=0.5, memory_gb=4)
    assert str(Resources(cpus=2, gpus=1 / 3)) == "cpus=2,gpus=0.3333333333333333"
    assert [Resources(cpus=cpus).threads for cpus in (None, 0.5, 1, 2.5)] == [None, 1, 1, 2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cpus": 0}, "cpus=0 (int) cannot be. Pass a number above 0 to 1e+06."),
        ({"gpus": -1}, "gpus=-1 (int) cannot be. Pass a number from 0 to 1e+06."),
        ({"gpus": True}, "gpus=True (bool) cannot be. Pass a number from 0 to 1e+06."),
        (
            {"gpus": 1.5},
            "gpus=1.5 cannot be: above 1, a trial gets whole ones. Pass a whole number, or a part of one as in 0.5.",
        ),
        ({"gpus": 1e-300}, "gpus=1e-300 is less than is counted. Pass 0.001 or more."),
        ({"memory_gb": float("nan")}, "memory_gb=nan (float) cannot be. Pass a number above 0 to 1e+06."),
        ({"memory_gb": "4"}, "memory_gb='4' (str) cannot be. Pass a number above 0 to 1e+06."),
    ],
)
def test_an_amount_that_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Resources(**options)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            4,
            "resources=4 (int) says nothing of resources. Pass etude.Resources(gpus=1), or text as in "
            "'gpus=1,memory_gb=4'.",
        ),
        (
            "gpu=1",
            "resources='gpu=1' asks for 'gpu', which is not known. Did you mean 'gpus'? Write some of cpus, gpus and "
            "memory_gb, as in 'gpus=0.5,memory_gb=4'.",
        ),
        (
            "2 cores",
            "resources='2 cores' asks for '2 cores', which is not known. Write some of cpus, gpus and memory_gb, as in "
            "'gpus=0.5,memory_gb=4'.",
        ),
        (
            "gpus=one",
            "resources='gpus=one': gpus=one is no number. Write some of cpus, gpus and memory_gb, as in "
            "'gpus=0.5,memory_gb=4'.",
        ),
        ("gpus=1,gpus=2", "resources='gpus=1,gpus=2' says gpus twice. Leave one."),
    ],
)
def test_what_says_nothing_of_resources_is_refused(given: object, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Resources.read(given)
    assert str(refused.value) == message


# --- how many fit -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("needs", "fit"),
    [
        (Resources(), None),
        (Resources(gpus=0), None),
        (Resources(cpus=2), 1),
        (Resources(cpus=0.1), 20),
        (Resources(gpus=2), 1),
        (Resources(gpus=0.1), 20),
        (Resources(gpus=0.6), 2),
        (Resources(gpus=4), 0),
        (Resources(memory_gb=4), 5),
        (Resources(cpus=0.5, gpus=1, memory_gb=1), 2),
    ],
)
def test_as_many_fit_as_there_is_room_for_whatever_is_scarcest(needs: Resources, fit: int | None) -> None:
    assert how_many_fit(needs, TWO) == fit


def test_what_cannot_be_told_or_is_counted_by_somebody_else_limits_nothing() -> None:
    assert how_many_fit(Resources(memory_gb=4), Machine(cores=2)) is None
    assert how_many_fit(Resources(cpus=4, gpus=1), Machine(cores=None, gpus=None, memory_gb=8)) is None
    assert how_many_fit(Resources(cpus=4, gpus=1, memory_gb=4), Machine(cores=None, gpus=None, memory_gb=8)) == 2


@pytest.mark.parametrize(
    ("n", "needs", "message"),
    [
        (4, "gpus=1", "workers=4 with gpus=1 need 4 GPUs, and this machine has 2 (0, 1). Pass workers=2, or gpus=0.5."),
        (3, "gpus=2", "workers=3 with gpus=2 need 6 GPUs, and this machine has 2 (0, 1). Pass workers=1, or gpus=0.5."),
        (
            5,
            "gpus=0.5",
            "workers=5 with gpus=0.5 need 3 GPUs, and this machine has 2 (0, 1). Pass workers=4, or gpus=0.333.",
        ),
        (
            3,
            "cpus=1.5",
            "workers=3 with cpus=1.5 need 4.5 cores, and this machine has 2. Pass workers=1, or cpus=0.66.",
        ),
        (
            4,
            "memory_gb=8",
            "workers=4 with memory_gb=8 need 32 GB of memory, and this machine has 23.4 GB. Pass workers=2, or "
            "memory_gb=5.8.",
        ),
        (
            4,
            "cpus=1,gpus=1",
            "workers=4 with gpus=1 need 4 GPUs, and this machine has 2 (0, 1). Pass workers=2.",
        ),
        (4, "gpus=4", "One trial with gpus=4 needs 4 GPUs, and this machine has 2 (0, 1). Pass gpus=2."),
        (1, "cpus=3", "One trial with cpus=3 needs 3 cores, and this machine has 2. Pass cpus=2."),
        (
            1,
            "cpus=3,memory_gb=50",
            "One trial with cpus=3 needs 3 cores, and this machine has 2. Ask for less, or run it on a larger machine.",
        ),
    ],
)
def test_what_does_not_fit_is_said_with_the_numbers_and_the_way_out(n: int, needs: str, message: str) -> None:
    each = Resources.read(needs)
    assert each is not None
    fewer = f"workers={how_many_fit(each, TWO)}"
    assert f"{why_not(n, each, TWO)} {mend(n, each, TWO, fewer=fewer)}" == message


def test_where_there_are_no_gpus_or_very_many_the_message_says_so() -> None:
    one, none = Resources(gpus=1), Machine(cores=8)
    assert f"{why_not(1, one, none)} {mend(1, one, none)}" == (
        "One trial with gpus=1 needs 1 GPU, and this machine has none. Leave gpus= out, or run it on a machine that "
        "has some."
    )
    many = Machine(cores=8, gpus=tuple(map(str, range(10))))
    assert why_not(11, one, many) == (
        "workers=11 with gpus=1 need 11 GPUs, and this machine has 10 (0, 1, 2, 3, 4, 5, 6, 7, ...)."
    )


@given(st.integers(1, 40), NEEDS, MACHINES)
def test_what_is_refused_does_not_fit_and_what_is_advised_does(n: int, needs: Resources, machine: Machine) -> None:
    fit = how_many_fit(needs, machine)
    assert bool(why_not(n, needs, machine)) == (fit is not None and fit < n)
    if fit is None or fit >= n:
        return
    advice = mend(n, needs, machine, fewer=f"workers={fit}")
    ways = advice.removeprefix("Pass ").removesuffix(".").split(", or ") if advice.startswith("Pass") else []
    assert bool(fit) == (f"workers={fit}" in ways)
    for way in ways:
        name, _, amount = way.partition("=")
        if name != "workers":
            less = how_many_fit(Resources(**{**vars(needs), name: float(amount)}), machine)
            assert less is not None
            assert less >= (n if fit else 1)


# --- who gets which GPUs ----------------------------------------------------------------------------


def taken(gpus: str, each: float | None, workers: int) -> list[str | None]:
    shares = Shares(tuple(gpus.split(",")), each)
    return [None if got is None else ",".join(got) for got in (shares.take(f"w{n}") for n in range(workers))]


def test_gpus_are_handed_out_in_order_and_shared_ones_evenly() -> None:
    assert taken("0,1,2,3", 1, 4) == ["0", "1", "2", "3"]
    assert taken("0,1,2,3", 2, 2) == ["0,1", "2,3"]
    assert taken("0,1", 0.5, 4) == ["0", "1", "0", "1"]
    assert taken("GPU-a,MIG-b", 1, 2) == ["GPU-a", "MIG-b"]
    assert taken("0,1", 0, 3) == ["", "", ""]
    assert taken("0,1", None, 3) == [None, None, None]


def test_a_successor_gets_what_was_given_back() -> None:
    shares = Shares(("0", "1", "2", "3"), 2)
    assert (shares.take("first"), shares.take("second")) == (("0", "1"), ("2", "3"))
    shares.give_back("first")
    shares.give_back("first")
    shares.give_back("nobody")
    assert shares.take("third") == ("0", "1")


class SharingGPUs(RuleBasedStateMachine):
    """Workers that come and go, no more at a time than fit."""

    @initialize(n=st.integers(1, 8), each=PARTS)
    def begin(self, n: int, each: float) -> None:
        self.machine = Machine(cores=1, gpus=tuple(map(str, range(n))))
        self.each = each
        self.most = how_many_fit(Resources(gpus=each), self.machine)
        self.shares = Shares(self.machine.gpus, each)
        self.held: dict[str, tuple[str, ...]] = {}
        self.born = 0

    @rule()
    def come(self) -> None:
        assert self.most is not None
        if len(self.held) < self.most:
            self.born += 1
            gpus = self.shares.take(f"w{self.born}")
            assert gpus is not None
            self.held[f"w{self.born}"] = gpus

    @rule(data=st.data())
    def go(self, data: st.DataObject) -> None:
        if self.held:
            worker = data.draw(st.sampled_from(sorted(self.held)))
            del self.held[worker]
            self.shares.give_back(worker)

    @invariant()
    def nobody_has_too_little_and_no_gpu_is_held_by_too_many(self) -> None:
        holders = Counter(gpu for gpus in getattr(self, "held", {}).values() for gpu in gpus)
        for gpus in getattr(self, "held", {}).values():
            assert len(set(gpus)) == len(gpus) == max(1, self.each)
            assert set(gpus) <= set(self.machine.gpus)
        for n in holders.values():
            assert n <= sharers(self.each)
            assert n * min(self.each, 1.0) < 1 + 1e-6

    @invariant()
    def shared_gpus_are_shared_evenly_by_those_that_came_last(self) -> None:
        if getattr(self, "held", {}) and self.each < 1 and self.born == len(self.held):  # nobody has gone yet
            holders = Counter(gpu for gpus in self.held.values() for gpu in gpus)
            counts = [holders[gpu] for gpu in self.machine.gpus]
            assert max(counts) - min(counts) <= 1


TestSharingGPUs = SharingGPUs.TestCase


def test_an_amount_is_said_as_a_call_does() -> None:
    assert (said("gpus", 1.0), said("gpus", 0.5)) == ("gpus=1", "gpus=0.5")
