"""Gangs: to the driver several workers are one, whatever becomes of each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from etude.core.events import Checkpoint, Checkpointed, Ended, How, Joined, Left, Outcome, Unsaved, Usage
from etude.studies.gangs import Gangs, Told, whole_outcome
from etude.wire.messages import Abandon, Forget, Halt, Hold, Meet, Meeting, Message, Noted, Run, Saved


class Scene:
    """Gangs, what they told the driver, and what they sent to workers."""

    def __init__(
        self,
        ranks: int,
        addresses: dict[str, str] | None = None,
        more: Callable[[], bool] = lambda: False,
        in_shards: bool = False,
    ) -> None:
        self.told: list[Told] = []
        self.sent: list[tuple[str, Message]] = []
        self.notes: list[str] = []
        self.gangs = Gangs(
            ranks,
            in_shards=in_shards,
            tell=self.told.append,
            send=lambda worker, message: self.sent.append((worker, message)),
            address=lambda worker: (addresses or {}).get(worker, "10.0.0.1"),
            more=more,
            note=self.notes.append,
        )

    def come(self, *workers: str, machine: str = "m") -> None:
        self.gangs.come([Joined(at=1.0, worker=worker, machine=machine) for worker in workers])

    def leave(self, worker: str, *, began: bool = True) -> None:
        self.gangs.leave(Left(at=2.0, worker=worker, reason="its process ended", began=began))

    def end(self, worker: str, how: How = How.FINISHED, trial: int = 0, attempt: int = 1, **rest: Any) -> None:
        self.gangs.end(Ended(at=3.0, worker=worker, trial=trial, attempt=attempt, outcome=Outcome(how, **rest)))

    def joined(self) -> list[str]:
        return [fact.worker for fact in self.told if isinstance(fact, Joined)]

    def ended(self) -> list[Ended]:
        return [event for event in self.told if isinstance(event, Ended)]

    def left(self) -> list[Left]:
        return [fact for fact in self.told if isinstance(fact, Left)]

    def sent_to(self, worker: str, kind: type[Message]) -> list[Any]:
        return [message for name, message in self.sent if name == worker and isinstance(message, kind)]


def run(trial: int = 0, attempt: int = 1, **rest: Any) -> Run:
    return Run(trial, attempt, {"lr": 0.1}, 0, **rest)


def test_the_driver_hears_of_a_gang_when_all_of_its_workers_are_there() -> None:
    scene = Scene(3)
    scene.come("a", "b")
    assert scene.told == []
    scene.come("c")
    assert scene.joined() == ["g1-a"]


def test_an_attempt_goes_to_all_ranks_and_its_states_to_the_first_alone() -> None:
    scene = Scene(2)
    scene.come("a", "b")
    point = Checkpoint(1, 0, 3, 3, ("x", "y"), (1, 1))
    scene.gangs.send("g1-a", run(points=(point,)))
    [first], [second] = scene.sent_to("a", Run), scene.sent_to("b", Run)
    assert (first.rank.number, first.rank.ranks, first.rank.local, first.rank.locals) == (0, 2, 0, 2)
    assert (second.rank.number, second.rank.local, second.rank.host) == (1, 1, "127.0.0.1")
    assert (first.points, second.points) == ((point,), ())
    assert (first.leads, second.leads) == (True, False)


def test_ranks_of_several_machines_meet_at_the_address_of_the_first() -> None:
    scene = Scene(2, {"a": "10.0.0.7"})
    scene.come("a", machine="one")
    scene.come("b", machine="two")
    scene.gangs.send("g1-a", run())
    ranks = [message.rank for _, message in scene.sent if isinstance(message, Run)]
    assert [(rank.host, rank.local, rank.locals) for rank in ranks] == [("10.0.0.7", 0, 1)] * 2


def test_workers_of_one_machine_are_one_gang_where_that_can_be() -> None:
    scene = Scene(2)
    scene.gangs.come([Joined(at=1.0, worker=w, machine=m) for w, m in (("a", "1"), ("b", "2"), ("c", "2"), ("d", "1"))])
    for name in scene.joined():
        scene.gangs.send(name, run())
    assert [rank.locals for rank in (m.rank for _, m in scene.sent if isinstance(m, Run))] == [2, 2, 2, 2]


def test_the_port_of_rank_0_reaches_the_other_ranks() -> None:
    scene = Scene(3)
    scene.come("a", "b", "c")
    scene.gangs.send("g1-a", run())
    scene.gangs.meet("a", Meeting(0, 1, 4711))
    assert [(name, message.port) for name, message in scene.sent if isinstance(message, Meet)] == [
        ("b", 4711),
        ("c", 4711),
    ]
    scene.gangs.meet("a", Meeting(0, 0, 4712))  # of an attempt before
    scene.gangs.meet("z", Meeting(0, 1, 4713))
    assert len([m for _, m in scene.sent if isinstance(m, Meet)]) == 2


def test_word_about_an_attempt_goes_to_rank_0_and_its_end_to_all() -> None:
    scene = Scene(2)
    scene.come("a", "b")
    scene.gangs.send("g1-a", run())
    scene.gangs.send("g1-a", Hold(0, 1))
    scene.gangs.send("g1-a", Halt(0, 1))
    scene.gangs.send("g1-a", Forget(0, 1))
    assert (len(scene.sent_to("a", Hold)), len(scene.sent_to("b", Hold))) == (1, 0)
    assert (len(scene.sent_to("a", Halt)), len(scene.sent_to("b", Halt))) == (1, 1)
    assert (len(scene.sent_to("a", Forget)), len(scene.sent_to("b", Forget))) == (1, 1)
    scene.gangs.send("g7-x", Halt(0, 1))  # a gang that is gone


def test_an_attempt_is_over_when_all_ranks_are_and_has_the_value_of_the_first() -> None:
    scene = Scene(2)
    scene.come("a", "b")
    scene.gangs.send("g1-a", run())
    scene.end("b", value=0.25)
    assert scene.ended() == []
    scene.end("a", value=0.5)
    [ended] = scene.ended()
    assert (ended.worker, ended.outcome.value) == ("g1-a", 0.5)
    assert not scene.sent_to("a", Abandon)
    scene.end("a", value=0.75)  # said twice
    assert len(scene.ended()) == 1


def test_the_first_that_ends_badly_has_the_others_ended_and_says_why() -> None:
    scene = Scene(3)
    scene.come("a", "b", "c")
    scene.gangs.send("g1-a", run())
    scene.end("b", How.RAISED, reason="ValueError: no", traceback="Traceback ...\nValueError: no\n")
    assert [name for name, message in scene.sent if isinstance(message, Abandon)] == ["a", "c"]
    scene.end("a", How.LOST, reason="Connection closed by peer")
    scene.end("c", How.LOST, reason="ended, since another rank came to a bad end")
    [ended] = scene.ended()
    assert (ended.outcome.how, ended.outcome.reason) == (How.RAISED, "rank 1: ValueError: no")
    assert ended.outcome.traceback.startswith("Rank 1:\nTraceback")


def test_a_cause_counts_though_its_consequence_was_heard_of_first() -> None:
    lost, killed = Outcome(How.LOST, reason="closed"), Outcome(How.KILLED, reason="killed by SIGKILL")
    assert whole_outcome([(0, lost), (1, killed)]).reason == "rank 1: killed by SIGKILL"
    assert whole_outcome([(1, lost), (0, lost)]).how is How.LOST


def test_what_an_attempt_cost_is_what_all_ranks_cost() -> None:
    ends = [(n, Outcome(How.FINISHED, value=float(n), usage=Usage(2.0 + n, 1.0, 100.0 * (n + 1)))) for n in (1, 0)]
    assert whole_outcome(ends) == Outcome(How.FINISHED, value=0.0, usage=Usage(3.0, 2.0, 200.0))


def test_a_worker_that_goes_takes_the_attempt_along_and_the_others_find_a_new_one() -> None:
    scene = Scene(2)
    scene.come("a", "b")
    scene.gangs.send("g1-a", run())
    scene.leave("b")
    assert scene.left() == []  # rank 0 still works
    assert scene.sent_to("a", Abandon) == [Abandon(0, 1)]
    scene.come("c")
    assert scene.joined() == ["g1-a"]
    scene.end("a", How.LOST)
    assert (scene.left()[0].worker, scene.left()[0].began) == ("g1-a", True)
    assert scene.ended() == []  # the driver ends it with the worker
    assert len(scene.joined()) == 2


def test_an_attempt_that_all_ranks_had_ended_is_not_lost_with_a_worker() -> None:
    scene = Scene(2)
    scene.come("a", "b")
    scene.gangs.send("g1-a", run())
    scene.end("b")
    scene.leave("b")
    scene.end("a", value=0.5)
    assert [type(event) for event in scene.told] == [Joined, Ended, Left]
    assert scene.ended()[0].outcome.value == 0.5


def test_nobody_is_to_blame_for_an_attempt_that_did_not_reach_all_ranks() -> None:
    scene = Scene(2)
    scene.come("a", "b")
    scene.gangs.send("g1-a", run())
    scene.leave("b", began=False)
    scene.end("a", How.LOST)
    assert not scene.left()[0].began


def test_an_idle_gang_that_loses_a_worker_is_gone_at_once() -> None:
    scene = Scene(2)
    scene.come("a", "b")
    scene.leave("a")
    assert [left.worker for left in scene.left()] == ["g1-a"]
    scene.come("c")
    assert scene.joined()[-1].endswith(("-b", "-c"))


def test_a_gang_that_gets_no_more_work_is_not_taken_apart_for_others() -> None:
    scene = Scene(2)
    scene.come("a", "b")
    assert scene.gangs.retire("g1-a") == ("a", "b")
    scene.leave("a")
    scene.come("c")
    assert len(scene.joined()) == 1
    scene.leave("b")
    scene.come("d")
    assert len(scene.joined()) == 2
    assert scene.gangs.retire("g1-a") == ()


def saved(epoch: int, worker: str, *, trial: int = 0, attempt: int = 1, lost: bool = False) -> Saved:
    """Return what a rank says of a state, or of its shard of one."""
    digests = ("", "") if lost else (f"{worker} weights", f"{worker} rest")
    return Saved(trial, Checkpoint(attempt, 0, epoch, epoch, digests, (10, 20)))


def test_a_state_in_shards_is_one_when_all_ranks_have_written_theirs() -> None:
    scene = Scene(2, in_shards=True)
    scene.come("a", "b")
    scene.gangs.send("g1-a", run())
    scene.told.clear()
    scene.gangs.save(5.0, "b", saved(1, "b"))
    assert scene.told == []
    scene.gangs.save(6.0, "a", saved(1, "a"))
    [told] = scene.told
    assert isinstance(told, Checkpointed)
    assert (told.at, told.trial, told.checkpoint.ranks) == (6.0, 0, 2)
    assert told.checkpoint.digests == ("a weights", "a rest", "b weights", "b rest"), "by rank, whoever came first"
    assert told.checkpoint.sizes == (10, 20, 10, 20)
    scene.gangs.save(7.0, "a", saved(2, "a"))
    assert len(scene.told) == 1, "the other has not written the next"


def test_a_state_of_which_one_shard_could_not_be_written_is_none() -> None:
    scene = Scene(2, in_shards=True)
    scene.come("a", "b")
    scene.gangs.send("g1-a", run())
    scene.told.clear()
    scene.gangs.save(5.0, "a", saved(1, "a"))
    scene.gangs.save(5.0, "b", saved(1, "b", lost=True))
    [told] = scene.told
    assert isinstance(told, Unsaved)
    assert told.checkpoint.names() == tuple(
        f"attempt-1/checkpoints/0-00001{rank}.{part}.safetensors"
        for rank in ("", ".rank-1")
        for part in ("weights", "rest")
    )
    for worker in ("a", "b"):
        scene.gangs.save(6.0, worker, saved(2, worker))
    assert isinstance(scene.told[-1], Checkpointed)


def test_shards_of_an_attempt_that_is_over_are_no_state_of_the_next() -> None:
    scene = Scene(2, in_shards=True)
    scene.come("a", "b")
    scene.gangs.send("g1-a", run())
    scene.gangs.save(5.0, "a", saved(1, "a"))
    scene.leave("b")
    scene.end("a", How.LOST)
    scene.come("c")
    assert scene.joined()[-1].startswith("g2")
    scene.gangs.send(scene.joined()[-1], run(attempt=2))
    scene.told.clear()
    for worker in ("a", "c"):
        scene.gangs.save(6.0, worker, saved(1, worker))
    assert scene.told == [], "they are late words of the first attempt"
    for worker in ("a", "c"):
        scene.gangs.save(7.0, worker, saved(1, worker, attempt=2))
    assert [type(event) for event in scene.told] == [Checkpointed]


def test_shards_of_a_trial_that_has_ended_are_no_state_of_the_next() -> None:
    scene = Scene(2, in_shards=True)
    scene.come("a", "b")
    scene.gangs.send("g1-a", run())
    scene.gangs.save(5.0, "a", saved(1, "a"))
    for worker in ("a", "b"):
        scene.end(worker, How.STOPPED)
    scene.gangs.send("g1-a", run(trial=1))
    scene.told.clear()
    scene.gangs.save(6.0, "b", saved(1, "b", trial=1))
    assert scene.told == [], "rank 0 has written nothing of this one"


def test_a_shard_that_is_told_of_twice_is_not_taken_for_one_of_the_next_state() -> None:
    scene = Scene(2, in_shards=True)
    scene.come("a", "b")
    scene.gangs.send("g1-a", run())
    scene.told.clear()
    for worker in ("a", "b", "a"):
        scene.gangs.save(5.0, worker, saved(1, worker))
    scene.gangs.save(6.0, "b", saved(2, "b"))
    assert len(scene.told) == 1
    scene.gangs.save(7.0, "a", saved(2, "a"))
    assert [event.checkpoint.epoch for event in scene.told if isinstance(event, Checkpointed)] == [1, 2]


def test_each_rank_gets_the_states_that_are_in_shards_and_hears_when_they_are_noted() -> None:
    scene = Scene(2, in_shards=True)
    scene.come("a", "b")
    point = Checkpoint(1, 0, 3, 3, ("x", "y", "z", "w"), (1, 1, 1, 1))
    scene.gangs.send("g1-a", run(points=(point,)))
    scene.gangs.send("g1-a", Noted(0, 1, (1, 0, 4)))
    for worker in ("a", "b"):
        [job] = scene.sent_to(worker, Run)
        assert job.points == (point,)
        assert scene.sent_to(worker, Noted) == [Noted(0, 1, (1, 0, 4))]


def test_a_state_that_is_in_no_shards_is_told_as_it_is() -> None:
    scene = Scene(2)
    scene.come("a", "b")
    scene.gangs.send("g1-a", run())
    scene.gangs.save(5.0, "a", saved(1, "a"))
    assert scene.told[-1] == Checkpointed(at=5.0, trial=0, checkpoint=saved(1, "a").checkpoint)
    scene.gangs.send("g1-a", Noted(0, 1, (1, 0, 1)))
    assert (len(scene.sent_to("a", Noted)), len(scene.sent_to("b", Noted))) == (1, 0)


class GangMachine(RuleBasedStateMachine):
    """Workers come, go and end in any order; the driver gives work to whoever it believes is idle."""

    def __init__(self) -> None:
        super().__init__()
        self.scene = Scene(3)
        self.heard = 0
        self.idle: list[str] = []
        self.holds: dict[str, Run] = {}
        self.living: set[str] = set()
        self.born = 0
        self.attempts = 0
        self.at_work: dict[str, tuple[int, int]] = {}  # worker -> the attempt that it has not ended

    @rule(n=st.integers(1, 4), machine=st.sampled_from("xy"))
    def come(self, n: int, machine: str) -> None:
        names = [f"w{self.born + i}" for i in range(n)]
        self.born += n
        self.living.update(names)
        self.scene.come(*names, machine=machine)
        self.hear()

    @precondition(lambda self: self.living)
    @rule(data=st.data(), began=st.booleans())
    def leave(self, data: st.DataObject, began: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.living)))
        self.living.discard(name)
        self.at_work.pop(name, None)
        self.scene.leave(name, began=began)
        self.hear()

    @precondition(lambda self: self.idle)
    @rule()
    def give(self) -> None:
        name = self.idle.pop(0)
        self.attempts += 1
        job = run(self.attempts, 1)
        self.holds[name] = job
        before = len(self.scene.sent)
        self.scene.gangs.send(name, job)
        ranks = [(worker, message.rank.number) for worker, message in self.scene.sent[before:] if type(message) is Run]
        assert [number for _, number in ranks] == [0, 1, 2]
        for worker, _ in ranks:
            assert worker in self.living
            assert worker not in self.at_work, "it has one attempt at a time"
            self.at_work[worker] = (job.trial, job.attempt)
        self.hear()

    @precondition(lambda self: self.at_work)
    @rule(data=st.data(), how=st.sampled_from([How.FINISHED, How.RAISED, How.LOST, How.STOPPED]))
    def end(self, data: st.DataObject, how: How) -> None:
        worker = data.draw(st.sampled_from(sorted(self.at_work)))
        trial, attempt = self.at_work.pop(worker)
        self.scene.end(worker, how, trial, attempt)
        self.hear()

    def hear(self) -> None:
        for event in self.scene.told[self.heard :]:
            match event:
                case Joined(worker=name):
                    assert name not in self.idle
                    assert name not in self.holds
                    self.idle.append(name)
                case Left(worker=name):
                    if name in self.holds:
                        job = self.holds.pop(name)
                        assert (job.trial, job.attempt) not in self.at_work.values(), "all of it has ended"
                    else:
                        self.idle.remove(name)
                case Ended(worker=name, trial=trial):
                    assert self.holds.pop(name).trial == trial
                    assert (trial, 1) not in self.at_work.values(), "all of it has ended"
                    self.idle.append(name)
        self.heard = len(self.scene.told)

    @invariant()
    def no_gang_waits_that_could_work(self) -> None:
        if not self.at_work:
            assert len(self.idle) == len(self.living) // 3


TestGangMachine = GangMachine.TestCase


@pytest.mark.parametrize("how", [How.FINISHED, How.STOPPED, How.PAUSED])
def test_an_end_that_went_well_ends_no_other(how: How) -> None:
    scene = Scene(2)
    scene.come("a", "b")
    scene.gangs.send("g1-a", run())
    scene.end("a", how)
    assert not scene.sent_to("b", Abandon)


def test_workers_wait_for_others_of_their_machine_that_are_about_to_come() -> None:
    about_to_come = [True]
    scene = Scene(2, more=lambda: bool(about_to_come))
    scene.come("a1", machine="a")
    scene.come("b1", machine="b")
    assert scene.told == []
    scene.come("b2", machine="b")
    assert scene.joined() == ["g1-b1"]
    scene.come("c1", machine="c")
    assert scene.joined() == ["g1-b1"]
    about_to_come.clear()
    scene.gangs.tick(0.0)
    assert scene.joined() == ["g1-b1", "g2-a1"]


def test_too_few_workers_for_a_trial_are_told_once_after_a_while() -> None:
    scene = Scene(4)
    for second in (0.0, 100.0):
        scene.gangs.tick(second)
    scene.come("a", "b", "c", "d")
    for second in (101.0, 200.0):
        scene.gangs.tick(second)
    scene.leave("d")
    for second in (201.0, 230.5):
        scene.gangs.tick(second)
    assert scene.notes == []
    for second in (231.0, 232.0, 500.0):
        scene.gangs.tick(second)
    assert scene.notes == [
        "A trial is trained by 4 ranks, and of the workers for them 3 are there. The study waits for 1 more. Nodes "
        "bring some: see `etude worker --help`."
    ]


def test_workers_that_are_left_over_beside_a_gang_are_no_shortage() -> None:
    scene = Scene(2)
    scene.come("a", "b", "c")
    for second in (0.0, 100.0, 200.0):
        scene.gangs.tick(second)
    assert scene.notes == []


def test_machines_of_one_name_that_are_reached_at_several_addresses_do_not_meet_at_home() -> None:
    scene = Scene(2, {"a": "10.1.0.2", "b": "10.2.0.2"})
    scene.come("a", "b")
    scene.gangs.send("g1-a", run())
    [first], [second] = scene.sent_to("a", Run), scene.sent_to("b", Run)
    assert {first.rank.host, second.rank.host} == {"10.1.0.2"}


def test_ranks_of_several_machines_that_came_through_a_tunnel_are_told_of_once() -> None:
    scene = Scene(2, {"a": "127.0.0.1", "b": "127.0.0.1"})
    scene.come("a", machine="m1/boot:/job")
    scene.come("b", machine="m2")
    for attempt in (1, 2):
        scene.gangs.send("g1-a", run(attempt=attempt))
    [note] = scene.notes
    assert note == (
        "The ranks of a trial are on several machines (m1 and m2), and rank 0's came to the driver at 127.0.0.1, as "
        "through a tunnel. If the others cannot reach it there, they wait in vain: have nodes come to an address of "
        "the driver that is in their network, or have each bring as many workers as a trial has ranks."
    )
