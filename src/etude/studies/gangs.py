"""Workers that train one trial together, a rank each. To the driver a gang of them is one worker.

So the driver hands out a trial to all of its ranks or to none, and knows nothing of ranks. A gang is made of workers
that are free, of one machine where that can be. An attempt of it is over when all of its ranks are: the first that
ends badly has the others ended, and says what came of it. Who is left of a gang that lost a worker finds a new one.
Where each rank saves a shard of each state, that is there when all of its shards are.

Nothing here waits or speaks: what is to be told, and to whom, goes through two functions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from etude.core.events import Checkpoint, Checkpointed, Ended, How, Joined, Left, Outcome, Unsaved
from etude.core.ranks import Rank
from etude.wire.messages import Abandon, Forget, Halt, Meet, Meeting, Message, Noted, Retune, Run, Saved

WELL: Final = frozenset({How.FINISHED, How.STOPPED, How.PAUSED})
"""Ways for a rank to end after which the others come to their end by themselves."""

Told = Joined | Left | Checkpointed | Unsaved | Ended
"""What the driver hears of workers and their attempts here."""

HERE: Final = "127.0.0.1"

SHORT_S: Final = 30.0
"""Seconds without any gang, since too few workers are there for one, after which users are told."""

TOO_FEW: Final = (
    "A trial is trained by {ranks} ranks, and of the workers for them {there} there. The study waits for {missing} "
    "more. Nodes bring some: see `etude worker --help`."
)

NOT_AT_HOME: Final = (
    "The ranks of a trial are on several machines ({machines}), and rank 0's came to the driver at 127.0.0.1, as "
    "through a tunnel. If the others cannot reach it there, they wait in vain: have nodes come to an address of the "
    "driver that is in their network, or have each bring as many workers as a trial has ranks."
)


@dataclass(eq=False)
class Gang:
    """Workers that execute attempts together.

    Attributes:
        name: What the driver calls it.
        members: Its workers, by rank.
        job: The attempt that it was given last, until all ranks of it have ended.
        ends: How ranks of that attempt have ended so far, the first one first.
        saved: What ranks of that attempt have written of a state, as long as others have not.
        gone: Members that are gone.
        lost: Whether one of these had not ended the attempt: then it is over with the gang.
        began: Whether the attempt has reached all of them.
        reason: Why the first of them left.
        abandoned: Whether those at work were told to end it.
        retired: Whether nobody of it is to get more work.
    """

    name: str
    members: tuple[str, ...]
    job: Run | None = None
    ends: dict[str, Outcome] = field(default_factory=dict)
    saved: dict[str, Checkpoint] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    began: bool = True
    reason: str = ""
    lost: bool = False
    abandoned: bool = False
    retired: bool = False


class Gangs:
    """The gangs of a study.

    Args:
        ranks: How many workers are in each.
        in_shards: Whether each rank saves a shard of each state.
        tell: Takes what happens to gangs, as the driver would hear it of workers.
        send: Sends a message to a worker.
        address: Returns where a worker can be reached by those of other machines.
        more: Whether others are about to come: until then none is in a gang with those of another machine.
        note: Takes what users should be told.
    """

    def __init__(
        self,
        ranks: int,
        *,
        in_shards: bool = False,
        tell: Callable[[Told], None],
        send: Callable[[str, Message], None],
        address: Callable[[str], str],
        more: Callable[[], bool] = lambda: False,
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._ranks = ranks
        self._in_shards = in_shards
        self._tell = tell
        self._send = send
        self._address = address
        self._more = more
        self._note = note
        self._told_of_home = False
        self._short_since: float | None = None  # since when there has been no gang, with too few workers for one
        self._told_of_few = False
        self._free: dict[str, Joined] = {}
        self._joined: dict[str, Joined] = {}
        self._of: dict[str, Gang] = {}  # worker -> its gang
        self._gangs: dict[str, Gang] = {}
        self._made = 0

    # --- what happens to workers ------------------------------------------------------------------

    def come(self, joined: Iterable[Joined]) -> None:
        """Take in workers that are ready."""
        for one in joined:
            self._joined[one.worker] = self._free[one.worker] = one
        self.form()

    def leave(self, left: Left) -> None:
        """Take in that a worker is gone, with all that it started."""
        self._free.pop(left.worker, None)
        self._joined.pop(left.worker, None)
        gang = self._of.pop(left.worker, None)
        if gang is None:
            return
        gang.gone.add(left.worker)
        gang.reason = gang.reason or left.reason
        if gang.job is not None and left.worker not in gang.ends:
            gang.lost, gang.began = True, gang.began and left.began
            self._end(gang, left.worker, Outcome(How.LOST, reason=f"its worker left: {left.reason}"))
        self._dissolve_if_over(left.at, gang)

    def end(self, ended: Ended) -> None:
        """Take in how a rank of an attempt ended."""
        gang = self._of.get(ended.worker)
        if gang is None or not _is_of(gang, ended.trial, ended.attempt) or ended.worker in gang.ends:
            return
        self._end(gang, ended.worker, ended.outcome)
        if len(gang.ends) < self._ranks:
            return
        if not gang.lost:
            job, gang.job = gang.job, None
            assert job is not None
            outcome = whole_outcome([(gang.members.index(name), one) for name, one in gang.ends.items()])
            self._tell(Ended(at=ended.at, worker=gang.name, trial=job.trial, attempt=job.attempt, outcome=outcome))
        self._dissolve_if_over(ended.at, gang)

    def meet(self, worker: str, meeting: Meeting) -> None:
        """Let all ranks of an attempt know where its first one awaits them."""
        gang = self._of.get(worker)
        if gang is None or not _is_of(gang, meeting.trial, meeting.attempt):
            return
        for member in gang.members[1:]:
            self._send(member, Meet(meeting.trial, meeting.attempt, meeting.port))

    def save(self, at: float, worker: str, saved: Saved) -> None:
        """Take in that a rank has written a state, or its shard of one; the driver hears of it when all have.

        Ranks write one state after the other, and each is told of before the next.
        """
        if not self._in_shards:  # rank 0 alone writes states
            self._tell(Checkpointed(at=at, trial=saved.trial, checkpoint=saved.checkpoint))
            return
        gang = self._of.get(worker)
        if gang is None or not _is_of(gang, saved.trial, saved.checkpoint.attempt):
            return
        gang.saved[worker] = saved.checkpoint
        newest = max(shard.key for shard in gang.saved.values())
        gang.saved = {member: shard for member, shard in gang.saved.items() if shard.key == newest}
        if len(gang.saved) == self._ranks:
            whole = whole_checkpoint([gang.saved[member] for member in gang.members])
            gang.saved = {}
            kind = Checkpointed if all(whole.digests) else Unsaved
            self._tell(kind(at=at, trial=saved.trial, checkpoint=whole))

    # --- what the driver wants of gangs -----------------------------------------------------------

    def send(self, name: str, message: Message) -> None:
        """Send a message to a gang: an attempt and its end to all of its workers, other word to that of rank 0."""
        gang = self._gangs.get(name)
        if gang is None:
            return
        if isinstance(message, Run):
            gang.job, gang.ends, gang.abandoned, gang.began, gang.reason = message, {}, False, True, ""
            gang.saved = {}
            for rank, member in zip(self._ranked(gang), gang.members, strict=True):
                # Where states are not in shards, rank 0 lets the others know what it went on from.
                points = message.points if self._in_shards or rank.number == 0 else ()
                self._send(member, msgspec.structs.replace(message, rank=rank, points=points))
        elif isinstance(message, Forget | Halt | Retune) or (self._in_shards and isinstance(message, Noted)):
            # Each worker sees to it that its rank stops in time, is set as the others, and writes its shard.
            for member in gang.members:
                self._send(member, message)
        else:
            self._send(gang.members[0], message)

    def retire(self, name: str) -> tuple[str, ...]:
        """Give a gang no more work; return its workers, who may go."""
        gang = self._gangs.get(name)
        if gang is None:
            return ()
        gang.retired = True
        return tuple(member for member in gang.members if member not in gang.gone)

    # --- how gangs come and go --------------------------------------------------------------------

    def tick(self, now_s: float) -> None:
        """Make gangs where that can be by now; tell once if there has been none for long, for lack of workers."""
        self.form()
        there = len(self._free)
        if self._told_of_few or self._gangs or not 0 < there < self._ranks:
            self._short_since = None
        elif self._short_since is None:
            self._short_since = now_s
        elif now_s - self._short_since >= SHORT_S:
            self._told_of_few = True
            said = f"{there} {'is' if there == 1 else 'are'}"
            self._note(TOO_FEW.format(ranks=self._ranks, there=said, missing=self._ranks - there))

    def form(self) -> None:
        """Make gangs of those that are free: of one machine each, or of several if nobody else is about to come."""
        while len(self._free) >= self._ranks:
            machines = Counter(one.machine for one in self._free.values())
            if max(machines.values()) < self._ranks and self._more():
                return
            order = {machine: nth for nth, (machine, _) in enumerate(machines.most_common())}
            self._make(sorted(self._free.values(), key=lambda one: order[one.machine])[: self._ranks])

    def _make(self, chosen: list[Joined]) -> None:
        self._made += 1
        members = tuple(one.worker for one in chosen)
        gang = Gang(f"g{self._made}-{members[0]}", members)
        self._gangs[gang.name] = gang
        for member in members:
            del self._free[member]
            self._of[member] = gang
        at = max(one.at for one in chosen)
        self._tell(Joined(at=at, worker=gang.name, machine=" ".join(dict.fromkeys(one.machine for one in chosen))))

    def _ranked(self, gang: Gang) -> list[Rank]:
        machines = [self._joined[member].machine for member in gang.members]
        places = [self._address(member) for member in gang.members]
        alone = len(set(machines)) == 1 and len(set(places)) == 1  # containers may bear the name of their host
        host = HERE if alone else places[0]
        if not alone and host == HERE and not self._told_of_home:
            self._told_of_home = True
            self._note(NOT_AT_HOME.format(machines=" and ".join(sorted({name.partition("/")[0] for name in machines}))))
        return [
            Rank(number, self._ranks, machines[:number].count(machine), machines.count(machine), host)
            for number, machine in enumerate(machines)
        ]

    def _end(self, gang: Gang, worker: str, outcome: Outcome) -> None:
        gang.ends[worker] = outcome
        if outcome.how not in WELL and not gang.abandoned:
            gang.abandoned = True
            assert gang.job is not None
            for member in gang.members:
                if member not in gang.ends and member not in gang.gone:
                    self._send(member, Abandon(gang.job.trial, gang.job.attempt))

    def _dissolve_if_over(self, at: float, gang: Gang) -> None:
        """Part a gang that has lost a worker, once nobody works on its attempt."""
        if not gang.gone or (gang.job is not None and len(gang.ends) < self._ranks):
            return
        if self._gangs.pop(gang.name, None) is None:
            return
        self._tell(Left(at=at, worker=gang.name, reason=gang.reason, began=gang.began))
        for member in gang.members:
            if member not in gang.gone:
                del self._of[member]
                if not gang.retired:
                    self._free[member] = msgspec.structs.replace(self._joined[member], at=at)
        self.form()


class Singles:
    """Workers that train trials by themselves: what happens to each, and what it is told, goes through as it is.

    Args:
        tell: Takes what happens to workers.
        send: Sends a message to a worker.
    """

    def __init__(self, *, tell: Callable[[Told], None], send: Callable[[str, Message], None]) -> None:
        self._tell = tell
        self.send = send

    def come(self, joined: Iterable[Joined]) -> None:
        """Take in workers that are ready."""
        for one in joined:
            self._tell(one)

    def leave(self, left: Left) -> None:
        """Take in that a worker is gone."""
        self._tell(left)

    def end(self, ended: Ended) -> None:
        """Take in how an attempt ended."""
        self._tell(ended)

    def save(self, at: float, worker: str, saved: Saved) -> None:
        """Take in a state."""
        self._tell(Checkpointed(at=at, trial=saved.trial, checkpoint=saved.checkpoint))

    def meet(self, worker: str, meeting: Meeting) -> None:
        """Nobody is to be met."""

    def tick(self, now_s: float) -> None:
        """There is nothing to make of them."""

    def retire(self, name: str) -> tuple[str, ...]:
        """Return the one that may go."""
        return (name,)


def _is_of(gang: Gang, trial: int, attempt: int) -> bool:
    return gang.job is not None and (gang.job.trial, gang.job.attempt) == (trial, attempt)


def whole_checkpoint(shards: list[Checkpoint]) -> Checkpoint:
    """Return a state, given what each rank has written of it, by rank."""
    return msgspec.structs.replace(
        shards[0],
        digests=tuple(digest for shard in shards for digest in shard.digests),
        sizes=tuple(size for shard in shards for size in shard.sizes),
    )


def whole_outcome(ends: list[tuple[int, Outcome]]) -> Outcome:
    """Return what came of an attempt, given how its ranks ended, in the order in which they did.

    The first bad end counts that is no consequence of another one; if all went well, that of rank 0.
    """
    outcomes = dict(ends)
    bad = [(rank, one) for rank, one in ends if one.how not in WELL]
    first = next(((rank, one) for rank, one in bad if one.how is not How.LOST), bad[0] if bad else None)
    rank, told = first or (0, outcomes[0])
    usage = msgspec.structs.replace(
        told.usage,
        wall_s=max(one.usage.wall_s for one in outcomes.values()),
        cpu_s=sum(one.usage.cpu_s for one in outcomes.values()),
        memory_mb=max(one.usage.memory_mb for one in outcomes.values()),
    )
    if first is None:
        return msgspec.structs.replace(told, usage=usage)
    trace = f"Rank {rank}:\n{told.traceback}" if told.traceback else ""
    return msgspec.structs.replace(told, reason=f"rank {rank}: {told.reason}", traceback=trace, usage=usage)
