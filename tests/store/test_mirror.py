"""A mirror, without a study at work: what is shipped, what counts there, and how it comes back."""

from __future__ import annotations

import contextlib
import shutil
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etude.core.errors import ConfigError, NotAStudyError, StudyError, StudyInUseError
from etude.core.events import AnyFact, Assigned, Closed, How, Joined, Opened, Outcome, Queued, Reported, Settled
from etude.core.lifecycle import Turn
from etude.store import mirror as module
from etude.store import remote_lease as leases
from etude.store.fetch import bring, copy, split
from etude.store.journal import FILE, Journal
from etude.store.mirror import Mirror
from etude.store.remote import Remote
from etude.store.remote_lease import LEASE, Holder, RemoteLease
from etude.store.rows import Digest, Rows
from etude.store.same_study import digest_of
from etude.store.segments import HEAD, Chain, Segment, Torn, name_of, pack, read_chain, unpack


def story(trials: int) -> list[AnyFact]:
    facts: list[AnyFact] = [Opened(at=1.0, driver="d", epoch=1), Joined(at=1.0, worker="w")]
    for k in range(trials):
        facts += [
            Queued(at=2.0, trial=k, params={"x": k, "tuple": (1, "a")}, seed=7),
            Assigned(at=2.0, trial=k, attempt=1, worker="w"),
            Reported(at=2.5, trial=k, attempt=1, step=1, metrics={"score": 0.5, "loss": float("nan")}),
            Settled(at=3.0, trial=k, turn=Turn.FINISHED, attempt=1, outcome=Outcome(How.FINISHED, value=1.0 + k)),
        ]
    return facts


class Study:
    """A study's folder and its journal, written by hand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.journal = Journal.create(folder, {"name": "one", "metrics": {"score": "max"}})
        self.journal.take("driver")

    def keep(self, trial: int, name: str, content: str) -> Path:
        path = self.folder / "trials" / f"{trial:05d}" / "attempt-1" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return path

    def close(self) -> None:
        self.journal.lease.release()
        self.journal.close()


@pytest.fixture
def study(tmp_path: Path) -> Iterator[Study]:
    with contextlib.closing(Study(tmp_path / "here" / "one")) as made:
        yield made


@pytest.fixture(params=["memory", "file", "path"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    kinds = {"memory": f"memory://{uuid.uuid4().hex}/one", "file": f"file://{tmp_path}/there/one"}
    return kinds.get(request.param, f"{tmp_path}/there/one")


class Heard:
    """What a mirror says."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.errors: list[BaseException] = []
        self.upto: list[int] = []
        self.mirror: Mirror | None = None
        self.news = threading.Semaphore(0)

    def shipped(self) -> None:
        assert self.mirror is not None
        self.upto.append(self.mirror.upto)
        self.news.release()

    def fail(self, error: BaseException) -> None:
        self.errors.append(error)
        self.news.release()

    def note(self, text: str) -> None:
        self.notes.append(text)
        self.news.release()

    def wait(self) -> None:
        assert self.news.acquire(timeout=30)


@contextlib.contextmanager
def mirrored(study: Study, url: str, *, every_s: float = 600.0) -> Iterator[tuple[Mirror, Heard]]:
    """Keep a mirror up to date; with the given pace it ships only when it is woken, and at the end."""
    mirror, heard = Mirror(study.folder, Remote(url), every_s=every_s), Heard()
    heard.mirror = mirror
    mirror.attach(heard.note)
    mirror.start(fail=heard.fail, shipped=heard.shipped)
    try:
        yield mirror, heard
    finally:
        mirror.close(study.journal.seq)


def facts_in(folder: Path) -> list[AnyFact]:
    with contextlib.closing(Journal.read(folder)) as journal:
        return list(journal.facts())


def same(one: list[AnyFact], other: list[AnyFact]) -> bool:
    return [msgspec.msgpack.encode(fact) for fact in one] == [msgspec.msgpack.encode(fact) for fact in other]


# --- there and back -------------------------------------------------------------------------------


def test_what_was_shipped_comes_back_as_it_was(study: Study, url: str, tmp_path: Path) -> None:
    study.journal.append(story(3))
    study.journal.record("run 1", {"host": "here"})
    study.keep(1, "weights.bin", "many numbers")
    (study.folder / "workers.log").write_text("imported")
    with mirrored(study, url):
        pass
    bring(url, tmp_path / "else")
    assert same(facts_in(tmp_path / "else"), facts_in(study.folder))
    with contextlib.closing(Journal.read(tmp_path / "else")) as there:
        assert there.meta() == study.journal.meta()
        assert digest_of(there, 99).told == digest_of(study.journal, 99).told
    assert (tmp_path / "else" / "trials/00001/attempt-1/weights.bin").read_text() == "many numbers"
    assert (tmp_path / "else" / "workers.log").read_text() == "imported"
    assert study.keep(1, "weights.bin", "many numbers").exists()


def test_it_is_shipped_when_asked_and_only_what_is_new(study: Study, url: str) -> None:
    study.keep(0, "a.txt", "one")  # before it can be looked at: half a file is another file
    with mirrored(study, url) as (mirror, heard):
        study.journal.append(story(1))
        mirror.wake()
        heard.wait()
        while heard.upto[-1] < study.journal.seq:  # the first shipment may have been on its way
            heard.wait()
        study.journal.append([Queued(at=4.0, trial=1, params={}, seed=0)])
        mirror.wake()
        heard.wait()
        assert heard.upto[-1] == study.journal.seq
    chain = Remote(url).chain()
    assert sum(len(segment.rows.facts) for segment in chain.segments) == len(story(1)) - 1 + 1
    assert sum("trials/00000/attempt-1/a.txt" in segment.files for segment in chain.segments) == 1
    assert heard.errors == heard.notes == []


def test_a_second_run_goes_on_where_the_first_ended(study: Study, url: str, tmp_path: Path) -> None:
    study.journal.append(story(1))
    with mirrored(study, url):
        pass
    study.journal.append([Closed(at=9.0, reason="enough", complete=False)])
    with mirrored(study, url):
        pass
    chain = Remote(url).chain()
    assert {segment.number[0] for segment in chain.segments} == {1, 2}
    assert chain.upto == study.journal.seq
    bring(url, tmp_path / "else")
    assert same(facts_in(tmp_path / "else"), facts_in(study.folder))


def test_a_file_that_changed_is_shipped_again_and_its_old_content_is_removed(study: Study, url: str) -> None:
    study.journal.append(story(1))
    path = study.keep(0, "log.txt", "first")
    with mirrored(study, url):
        pass
    path.write_text("first, second")
    with mirrored(study, url):
        pass
    remote = Remote(url)
    stored = remote.chain().files["trials/00000/attempt-1/log.txt"]
    assert stored.size == len("first, second")
    assert remote.names("files") == [stored.sha256]


def test_the_newest_output_of_what_runs_waits_for_its_end(study: Study, url: str) -> None:
    study.journal.append(story(1))
    study.keep(0, "log.tail.txt", "only here for now")
    with mirrored(study, url):
        pass
    assert Remote(url).chain().files == {}


def test_a_folder_with_the_beginning_is_added_to(study: Study, url: str, tmp_path: Path) -> None:
    study.journal.append(story(1))
    with mirrored(study, url):
        pass
    bring(url, tmp_path / "else")
    study.journal.append([Closed(at=9.0, reason="enough", complete=False)])
    with mirrored(study, url):
        pass
    bring(url, tmp_path / "else")
    bring(url, tmp_path / "else")  # nothing to do
    assert same(facts_in(tmp_path / "else"), facts_in(study.folder))


def test_to_look_at_a_mirror_changes_nothing_there(study: Study, url: str, tmp_path: Path) -> None:
    study.journal.append(story(1))
    study.keep(0, "weights.bin", "numbers")
    study.keep(0, "log.txt", "printed")
    with mirrored(study, url):
        before = Remote(url).get(LEASE)
        while before is None or b'"counter":0' in before or not Remote(url).names("segments"):
            before = Remote(url).get(LEASE)
        copy(url, tmp_path / "else")
        assert Remote(url).get(LEASE) == before
    assert same(facts_in(tmp_path / "else"), facts_in(study.folder))
    assert [p.name for p in (tmp_path / "else" / "trials/00000/attempt-1").iterdir()] == ["log.txt"]


def test_to_look_at_an_address_that_another_study_had_before_shows_the_new_one(
    study: Study, url: str, tmp_path: Path
) -> None:
    study.journal.append(story(2))
    with mirrored(study, url):
        pass
    with contextlib.closing(Study(tmp_path / "seen")) as other:
        other.journal.append([Opened(at=5.0, driver="x", epoch=1)])
    copy(url, tmp_path / "seen")
    assert same(facts_in(tmp_path / "seen"), facts_in(study.folder))


def test_a_copy_of_which_nothing_is_new_is_not_made_again_and_news_are(
    study: Study, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study.keep(0, "log.txt", "printed")
    study.journal.append(story(1))
    with mirrored(study, url):
        pass
    read: list[Remote] = []
    whole = Remote.chain

    def chain(remote: Remote) -> Chain:
        read.append(remote)
        return whole(remote)

    monkeypatch.setattr(Remote, "chain", chain)
    copy(url, tmp_path / "else", logs=False)
    assert not (tmp_path / "else" / "trials").exists()
    copy(url, tmp_path / "else")  # its logs were not asked for before
    assert (tmp_path / "else" / "trials/00000/attempt-1/log.txt").read_text() == "printed"
    assert len(read) == 2
    copy(url, tmp_path / "else")
    copy(url, tmp_path / "else", logs=False)
    assert len(read) == 2
    study.journal.append([Queued(at=4.0, trial=1, params={}, seed=0)])
    with mirrored(study, url):
        pass
    copy(url, tmp_path / "else")
    assert len(read) == 3
    assert same(facts_in(tmp_path / "else"), facts_in(study.folder))


def test_a_copy_is_made_again_if_another_study_with_equally_many_segments_has_its_address(
    tmp_path: Path,
) -> None:
    url = f"{tmp_path}/there/one"
    for name, trials in (("first", 1), ("second", 2)):
        with contextlib.closing(Study(tmp_path / name)) as study:
            study.journal.append(story(trials))
            with mirrored(study, url):
                pass
            assert Remote(url).names("segments") == ["000001-00000001.seg"]
            copy(url, tmp_path / "seen")
            assert same(facts_in(tmp_path / "seen"), facts_in(study.folder))
        shutil.rmtree(url)


# --- what cannot be -------------------------------------------------------------------------------


def test_a_place_that_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        Remote("gopher://host/studies")
    assert str(refused.value) == (
        "mirror='gopher://host/studies' is no place that can be used: Protocol not known: gopher. Pass a URL that "
        "fsspec understands, such as s3://bucket/studies or a folder, and install what it needs."
    )
    with pytest.raises(ConfigError) as refused:
        Remote("sftp://ada:secret@host/studies")
    assert str(refused.value) == (
        "mirror=<URL> holds a password, and the journal would keep it. Leave it out of the URL and give it through the "
        "environment or fsspec's own configuration."
    )


def test_a_url_without_a_study_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(NotAStudyError) as refused:
        bring(url, tmp_path / "else")
    assert str(refused.value) == (
        f"{url} is no mirror of a study: it has no segments. Give the mirror and the study's name, as in "
        "s3://bucket/studies/NAME."
    )
    assert not (tmp_path / "else").exists()


def test_another_studys_mirror_is_refused_and_not_touched(study: Study, url: str, tmp_path: Path) -> None:
    study.journal.append(story(2))
    with mirrored(study, url):
        pass
    before = Remote(url).chain().digest.told
    with contextlib.closing(Study(tmp_path / "other" / "one")) as other:
        other.journal.append([Opened(at=5.0, driver="x", epoch=1)])
        with pytest.raises(StudyError) as refused:
            Mirror(other.folder, Remote(url)).attach(lambda text: None)
        assert str(refused.value) == (
            f"The mirror {url} is that of another study than {other.folder}, or both went on for themselves. Nothing "
            "was changed. Give another mirror, or another name; or move one of the two away."
        )
    with pytest.raises(StudyError) as refused:
        bring(url, tmp_path / "other" / "one")
    assert str(refused.value) == (
        f"{tmp_path / 'other' / 'one'} holds another study than the mirror {url}, or both went on for themselves. "
        "Nothing was changed. Move the folder away, or name another place with ETUDE_STUDIES=<folder>."
    )
    assert Remote(url).chain().digest.told == before


def test_a_mirror_that_went_on_elsewhere_says_how_to_bring_it_here(study: Study, url: str, tmp_path: Path) -> None:
    study.journal.append(story(1))
    with mirrored(study, url):
        pass
    bring(url, tmp_path / "else")
    study.journal.append(story(0))
    with mirrored(study, url):
        pass
    with pytest.raises(StudyError) as refused:
        Mirror(tmp_path / "else", Remote(url)).attach(lambda text: None)
    assert str(refused.value) == (
        f"The mirror {url} has 2 facts more than {tmp_path / 'else'}: the study went on elsewhere. "
        f"`etude resume {url}` brings them here and goes on."
    )


def test_a_file_outside_of_the_study_is_not_written(study: Study, url: str, tmp_path: Path) -> None:
    study.journal.append(story(1))
    kept = study.keep(0, "a.txt", "one")
    with mirrored(study, url):
        pass
    remote = Remote(url)
    chain = remote.chain()
    evil = {"trials/../../evil": next(iter(chain.files.values()))}
    assert chain.last is not None
    rows = Rows(chain.upto, chain.upto)
    number = (chain.last[0], chain.last[1] + 1)
    remote.put(f"segments/{name_of(number)}", pack(Segment(number, chain.last, rows, chain.digest.told, {}, evil)))
    with pytest.raises(StudyError, match="names a file outside of the study"):
        bring(url, tmp_path / "x" / "else")
    assert not list(tmp_path.rglob("evil"))
    assert kept.exists()


@pytest.mark.parametrize("harm", ["changed", "missing"])
def test_a_file_that_is_not_what_it_was_is_named(study: Study, url: str, tmp_path: Path, harm: str) -> None:
    study.journal.append(story(1))
    study.keep(0, "a.txt", "one")
    with mirrored(study, url):
        pass
    remote = Remote(url)
    (name,) = remote.names("files")
    remote.put(f"files/{name}", b"two") if harm == "changed" else remote.remove(f"files/{name}")
    with pytest.raises(StudyError) as refused:
        bring(url, tmp_path / "else")
    why = "its hash is another" if harm == "changed" else "it is missing"
    assert str(refused.value) == (
        f"The mirror {url} is damaged: of the file trials/00000/attempt-1/a.txt, {why}. The journal was brought; "
        "restore the mirror from a copy to get the rest."
    )


# --- segments -------------------------------------------------------------------------------------


def chain_of(*facts: int, epoch: int = 1, after: Chain | None = None) -> dict[str, bytes]:
    """Return segments with so many facts each."""
    digest = after.digest.copy() if after is not None else Digest()
    last = after.last if after is not None else None
    written = {}
    for n, size in enumerate(facts, start=1):
        rows = Rows(digest.upto, digest.upto + size, [(digest.upto + k, b"fact") for k in range(1, size + 1)])
        segment = Segment((epoch, n), last, rows, digest.feed(rows))
        written[name_of(segment.number)] = pack(segment)
        last = segment.number
    return written


def read(written: dict[str, bytes]) -> Chain:
    return read_chain(written, where="mirror")


def test_what_a_driver_wrote_after_it_was_overtaken_does_not_count() -> None:
    first = chain_of(2, 3)
    second = chain_of(1, epoch=2, after=read(first))
    late = {**chain_of(2, 3, 4), **second}  # its third segment came after the other had looked
    assert read(late).upto == 6
    assert [segment.number for segment in read(late).segments] == [(1, 1), (1, 2), (2, 1)]


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.data())
@settings(max_examples=60, deadline=None)
def test_a_torn_end_is_left_out_and_a_torn_middle_is_damage(sizes: list[int], data: st.DataObject) -> None:
    written = chain_of(*sizes)
    torn = data.draw(st.integers(1, len(sizes)))
    name = name_of((1, torn))
    cut = data.draw(st.integers(0, len(written[name]) - 1))
    written[name] = written[name][:cut]
    if torn == len(sizes):
        assert read(written).upto == sum(sizes[:-1])
    else:
        with pytest.raises(StudyError, match="is damaged"):
            read(written)


@given(st.binary(max_size=200))
def test_bytes_that_are_no_segment_are_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        unpack(content)


def test_a_segment_that_is_missing_or_changed_is_damage() -> None:
    written = chain_of(1, 1, 1)
    with pytest.raises(StudyError) as refused:
        read({name: content for name, content in written.items() if name != name_of((1, 2))})
    assert str(refused.value) == (
        "The mirror mirror is damaged: 000001-00000002.seg: it is missing. It was not touched. Restore it from a copy, "
        "or go on where the study's own folder is."
    )
    written[name_of((1, 3))] = written[name_of((1, 3))][:-1] + b"?"
    with pytest.raises(StudyError, match=r"000001-00000003\.seg: its hash is another"):
        read(written)
    with pytest.raises(Torn):
        unpack(pack(Segment((1, 1), None, Rows(0, 0), ""))[: HEAD - 1])


@given(st.lists(st.integers(1, 30), max_size=5))
def test_a_digest_is_the_same_however_the_rows_are_cut(cuts: list[int]) -> None:
    reports: list[Any] = [(k, name, 1.0, 0, 1, k, None) for k in range(1, 31, 2) for name in ("loss", "score")]
    whole = Rows(0, 30, [(k, b"fact %d" % k) for k in range(2, 31, 2)], reports)
    expected, digest, rest = Digest().feed(whole), Digest(), whole
    for cut in sorted(cuts):
        digest.feed(rest.until(cut))
        rest = rest.beyond(cut)
    assert digest.feed(rest) == expected


# --- one writer -----------------------------------------------------------------------------------


class Elsewhere:
    """A driver on another machine: what it writes to the lease, and how time goes by while we watch."""

    def __init__(self, url: str, *, lives: bool) -> None:
        self.remote, self.lives, self.now = Remote(url), lives, 0.0
        self.remote.make("")
        self.beat()

    def beat(self) -> None:
        holder = Holder(4, "theirs", "far/boot/space", 77, "1", counter=int(self.now))
        self.remote.put(LEASE, msgspec.json.encode(holder))

    def wait(self, seconds: float) -> None:
        self.now += seconds
        if self.lives and self.now % 3.0 == 0.0:
            self.beat()


def test_a_mirror_that_a_driver_elsewhere_writes_to_is_refused_unless_forced(url: str) -> None:
    other = Elsewhere(url, lives=True)
    with pytest.raises(StudyInUseError) as refused:
        RemoteLease(Remote(url)).take(wait=other.wait, now_s=lambda: other.now)
    assert str(refused.value) == (
        f"Another driver (process 77 on far) writes to the mirror {url}. Wait for it or stop it; if it may be cut off, "
        f"`etude resume {url} --force` goes on here, and that one stops when it notices."
    )
    assert RemoteLease(Remote(url)).take(force=True) == 5


def test_a_driver_elsewhere_that_is_still_for_ten_seconds_is_gone(url: str) -> None:
    other = Elsewhere(url, lives=False)
    assert RemoteLease(Remote(url)).take(wait=other.wait, now_s=lambda: other.now) == 5
    assert other.now == leases.WATCH_S


def test_who_was_overtaken_stops_and_acknowledges_nothing_more(study: Study, url: str, tmp_path: Path) -> None:
    study.journal.append(story(1))
    with mirrored(study, url) as (mirror, heard):
        heard.wait()
        known = heard.upto[-1]
        bring(url, tmp_path / "else", force=True)
        study.journal.append([Closed(at=9.0, reason="late", complete=False)])
        mirror.wake()
        heard.wait()
        (error,) = heard.errors
        assert isinstance(error, StudyInUseError)
        assert str(error).startswith("Another driver (process ")
        assert str(error).endswith(
            f" has taken over the mirror {url}. This one stops: what it did since is in its own folder alone."
        )
        assert heard.upto[-1] == known
    with contextlib.closing(Journal.write(tmp_path / "else")) as journal:
        journal.take("there")
        journal.append([Opened(at=10.0, driver="there", epoch=2)])
        went_on = Mirror(tmp_path / "else", Remote(url))
        with contextlib.suppress(StudyError):  # the late segment stands in the last epoch until the next writes
            went_on.attach(lambda text: None)
        went_on.close(0)
        journal.lease.release()


# --- gone, and come back --------------------------------------------------------------------------


GONE = (
    "The mirror {url} cannot be reached (FileNotFoundError: {what}). The study goes on without it, and it is tried "
    "again."
)
BACK = "The mirror {url} is reached again, and has everything up to now."


def wipe(url: str, *, but: str = "") -> None:
    """Remove what is in a mirror, as somebody with a shell does."""
    remote = Remote(url)
    for name in [LEASE, *(f"{folder}/{name}" for folder in ("segments", "files") for name in remote.names(folder))]:
        if name != but:
            remote.remove(name)
    if not but and remote.local is not None:
        shutil.rmtree(remote.local)


@contextlib.contextmanager
def stepped(study: Study, url: str) -> Iterator[tuple[Mirror, Heard]]:
    """Give a mirror without its thread: what that does in each of its turns, a test does with ``ship``."""
    mirror, heard = Mirror(study.folder, Remote(url)), Heard()
    heard.mirror = mirror
    mirror.attach(heard.note)
    mirror._shipped = heard.shipped
    yield mirror, heard
    ship(mirror, last=True)
    assert mirror._journal is not None
    mirror._journal.close()


def ship(mirror: Mirror, *, last: bool = False) -> None:
    mirror._try_to_ship(beat=last, last=last)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for what may come back."""
    monkeypatch.setattr(module, "GONE_S", 0.0)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("harm", ["all", "lease", "first", "last", "but the last", "half of the lease"])
def test_whatever_is_gone_from_a_mirror_is_out_of_reach_and_shipped_again(
    study: Study, url: str, tmp_path: Path, harm: str
) -> None:
    kept = study.keep(0, "weights.bin", "many numbers")
    with stepped(study, url) as (mirror, heard):
        for facts in story(3), [Queued(at=4.0, trial=3, params={}, seed=0)]:
            study.journal.append(facts)
            ship(mirror)
        remote = Remote(url)
        names = sorted(remote.names("segments"))
        what = f"{LEASE}, which was there, is gone"
        match harm:
            case "all":
                wipe(url)
            case "lease":
                remote.remove(LEASE)
            case "half of the lease":
                remote.put(LEASE, (remote.get(LEASE) or b"")[:9])
            case "first":  # the chain is broken, and the next shipment has no reason to see it
                remote.remove(f"segments/{names[0]}")
                remote.remove(LEASE)
            case "last":
                remote.remove(f"segments/{names[-1]}")
                what = f"segments/{names[-1]}, which was there, is gone"
            case "but the last":
                wipe(url, but=f"segments/{names[-1]}")
        study.journal.append([Queued(at=5.0, trial=4, params={}, seed=0)])
        ship(mirror)
        assert mirror.upto == 0
        ship(mirror)
        told = [GONE.format(url=url, what=what)]
        if harm in ("first", "but the last"):
            told.append(
                f"The mirror {url} was damaged ({names[0 if harm == 'first' else -2]}: it is missing). All of it is "
                f"shipped again from {study.folder}."
            )
        assert heard.notes == [*told, BACK.format(url=url)]
        assert mirror.upto == study.journal.seq
    bring(url, tmp_path / "else")
    assert same(facts_in(tmp_path / "else"), facts_in(study.folder))
    assert (tmp_path / "else" / kept.relative_to(study.folder)).read_text() == "many numbers"


def test_a_folder_that_is_renamed_and_comes_back_goes_on(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GONE_S", 1e9)
    url, away = tmp_path / "there" / "one", tmp_path / "away"
    with stepped(study, str(url)) as (mirror, heard):
        study.journal.append(story(1))
        ship(mirror)
        known = study.journal.seq
        url.rename(away)
        study.journal.append([Queued(at=4.0, trial=1, params={}, seed=0)])
        for _ in range(5):
            ship(mirror)
        assert not url.exists(), "nothing is written where a disk may be mounted again"
        assert mirror.upto == 0
        away.rename(url)
        ship(mirror)
        assert heard.notes == [
            GONE.format(url=url, what=f"{LEASE}, which was there, is gone"),
            BACK.format(url=url),
        ]
    segments = Remote(str(url)).chain().segments
    assert [segment.number[0] for segment in segments if segment.rows.upto > known] == [2]
    assert sum(len(segment.rows.facts) for segment in segments) == 6  # and one report: nothing was shipped twice


def test_an_old_copy_of_the_mirror_in_its_place_is_added_to(study: Study, tmp_path: Path, at_once: None) -> None:
    url, old = tmp_path / "there" / "one", tmp_path / "old"
    study.journal.append(story(1))
    with mirrored(study, str(url)):
        pass
    shutil.copytree(url, old)
    study.journal.append([Queued(at=4.0, trial=1, params={}, seed=0)])
    with stepped(study, str(url)) as (mirror, heard):
        ship(mirror)
        shutil.rmtree(url)
        old.rename(url)
        ship(mirror)
        assert mirror.upto == 0
        ship(mirror)
        assert heard.notes[-1] == BACK.format(url=url)
    assert Remote(str(url)).chain().upto == study.journal.seq


def test_at_its_end_a_study_ships_anew_without_waiting_for_what_may_come_back(
    study: Study, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GONE_S", 1e9)
    study.journal.append(story(1))
    with stepped(study, url) as (mirror, heard):
        ship(mirror)
        wipe(url)
    assert Remote(url).chain().upto == study.journal.seq
    assert heard.notes == []


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("theirs", ["newer", "older, and alive"])
def test_a_driver_that_took_a_mirror_that_was_emptied_is_noticed_at_once(
    study: Study, url: str, tmp_path: Path, theirs: str
) -> None:
    study.journal.append(story(1))
    for _ in range(2):
        with mirrored(study, url):
            pass
    with stepped(study, url) as (mirror, heard):
        ship(mirror)
        holder = Holder(7 if theirs == "newer" else 1, "theirs", "far/boot/space", 77, "1", over=theirs == "newer")
        Remote(url).put(LEASE, msgspec.json.encode(holder))
        study.journal.append([Queued(at=4.0, trial=1, params={}, seed=0)])
        before = Remote(url).names("segments")
        with pytest.raises(StudyInUseError) as noticed:
            ship(mirror)
        assert str(noticed.value) == (
            f"Another driver (process 77 on far) has taken over the mirror {url}. This one stops: what it did since is "
            "in its own folder alone."
        )
        assert Remote(url).names("segments") == before, "it looks before it writes"
        assert heard.notes == []
        Remote(url).remove(LEASE)  # to leave in peace


@pytest.mark.parametrize("harm", ["missing", "changed", "all changed"])
def test_at_the_start_a_damaged_mirror_of_what_the_folder_has_is_shipped_anew(
    study: Study, url: str, tmp_path: Path, harm: str
) -> None:
    for trial in range(3):
        study.journal.append(story(trial))
        with mirrored(study, url):
            pass
    remote = Remote(url)
    names = sorted(remote.names("segments"))
    broken = {"missing": names[0], "changed": names[-1], "all changed": names[-1]}[harm]
    for name in names if harm == "all changed" else [broken]:
        content = remote.get(f"segments/{name}") or b""
        remote.remove(f"segments/{name}")
        if harm != "missing":
            remote.put(f"segments/{name}", content[:-1] + b"?")
    with pytest.raises(StudyError, match="is damaged"):
        bring(url, tmp_path / "else")
    bring(url, study.folder)  # it has all of it
    with mirrored(study, url) as (_, heard):
        pass
    why = f"{broken}: it is missing" if harm == "missing" else f"{broken}: its hash is another"
    assert heard.notes == [
        f"The mirror {url} was damaged ({why}). All of it is shipped again from {study.folder}.",
    ]
    bring(url, tmp_path / "else")
    assert same(facts_in(tmp_path / "else"), facts_in(study.folder))


def test_a_damaged_mirror_that_has_more_than_the_folder_is_refused(study: Study, url: str, tmp_path: Path) -> None:
    study.journal.append(story(1))
    with mirrored(study, url):
        pass
    bring(url, tmp_path / "else")
    study.journal.append([Queued(at=4.0, trial=1, params={}, seed=0)])
    with mirrored(study, url):
        pass
    remote = Remote(url)
    name = min(remote.names("segments"))
    remote.remove(f"segments/{name}")
    with pytest.raises(StudyError) as refused:
        Mirror(tmp_path / "else", remote).attach(lambda text: None)
    assert str(refused.value) == (
        f"The mirror {url} is damaged: {name}: it is missing. It was not touched. Restore it from a copy, or go on "
        "where the study's own folder is."
    )


def test_what_came_too_late_from_an_earlier_driver_refuses_nobody_who_took_over(study: Study, at_once: None) -> None:
    url = f"memory://{uuid.uuid4().hex}/one"
    study.journal.append(story(1))
    with mirrored(study, url):
        pass
    remote = Remote(url)
    first = remote.chain()
    assert first.last is not None
    with stepped(study, url) as (mirror, heard):
        study.journal.append([Queued(at=4.0, trial=1, params={}, seed=0)])
        ship(mirror)
        late = Rows(first.upto, first.upto + 1, [(first.upto + 1, b"\xc0")])
        number = (1, first.last[1] + 1)
        remote.put(f"segments/{name_of(number)}", pack(Segment(number, first.last, late, first.digest.feed(late))))
        for name in remote.names("segments"):
            if name.startswith("000002-"):
                remote.remove(f"segments/{name}")
        ship(mirror)
        assert mirror.upto == 0
        ship(mirror)
        assert f"The mirror {url} was damaged (all segments since epoch 2 are missing)." in heard.notes[1]
    assert remote.chain().upto == study.journal.seq


def test_contents_of_files_that_are_gone_are_shipped_again(study: Study, url: str, tmp_path: Path) -> None:
    study.journal.append(story(1))
    kept = study.keep(0, "weights.bin", "many numbers")
    with mirrored(study, url):
        pass
    (name,) = Remote(url).names("files")
    Remote(url).remove(f"files/{name}")
    with mirrored(study, url):
        pass
    bring(url, tmp_path / "else")
    assert (tmp_path / "else" / kept.relative_to(study.folder)).read_text() == "many numbers"


# --- out of reach ---------------------------------------------------------------------------------


class Broken(Remote):
    """A mirror behind a network that can be cut."""

    cut = False

    def put(self, name: str, content: bytes) -> None:
        self._look()
        super().put(name, content)

    def get(self, name: str) -> bytes | None:
        self._look()
        return super().get(name)

    def _look(self) -> None:
        if self.cut:
            raise ConnectionError("no route to host")


def test_a_mirror_out_of_reach_is_said_once_and_caught_up_with_later(
    study: Study, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BACKOFF_S", 0.0)
    remote, heard = Broken(url), Heard()
    remote.cut = True
    mirror = heard.mirror = Mirror(study.folder, remote, every_s=0.0)
    mirror.attach(heard.note)
    said = (
        f"The mirror {url} cannot be reached (ConnectionError: no route to host). The study goes on without it, and it "
        "is tried again."
    )
    assert heard.notes == [said]
    mirror.start(fail=heard.fail, shipped=heard.shipped)
    study.journal.append(story(1))
    while mirror._unreachable < 1100:  # hours, as backoff goes: doubled so often, no float holds it
        assert mirror._thread.is_alive()
        mirror.wake()
    assert heard.notes == [said]
    remote.cut = False
    heard.wait()
    while not heard.upto or heard.upto[-1] < study.journal.seq:
        heard.wait()
    mirror.close(study.journal.seq)
    assert heard.notes == [said, f"The mirror {url} is reached again, and has everything up to now."]
    assert Remote(url).chain().upto == study.journal.seq


class Deaf(Remote):
    """A mirror on a host that takes its time to answer."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.answers = threading.Event()

    def get(self, name: str) -> bytes | None:
        self.answers.wait(30)
        return super().get(name)


def test_nobody_waits_for_a_host_that_does_not_answer(study: Study, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ATTACH_S", 0.05)
    remote, heard = Deaf(url), Heard()
    mirror = heard.mirror = Mirror(study.folder, remote)
    mirror.attach(heard.note)
    (said,) = heard.notes
    assert said.startswith(f"The mirror {url} cannot be reached (TimeoutError: no answer within 0.05 s).")
    mirror.start(fail=heard.fail, shipped=heard.shipped)
    study.journal.append(story(1))
    remote.answers.set()
    mirror.close(study.journal.seq)
    assert Remote(url).chain().upto == study.journal.seq
    assert heard.errors == []


def test_what_could_not_be_shipped_is_said_at_the_end(study: Study, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BACKOFF_S", 0.0)
    remote, heard = Broken(url), Heard()
    mirror = heard.mirror = Mirror(study.folder, remote)
    mirror.attach(heard.note)
    remote.cut = True
    mirror.start(fail=heard.fail, shipped=heard.shipped)
    study.journal.append(story(1))
    mirror.close(study.journal.seq)
    assert heard.notes[-1] == (
        f"The mirror {url} has not got everything: the last 6 facts of 6 are in {study.folder} alone. The same call "
        "ships them."
    )


def test_a_url_is_split_into_place_and_name() -> None:
    assert split("s3://bucket/studies/one/") == ("s3://bucket/studies", "one")
    assert split("memory://one") == ("memory://", "one")
    assert split("file:///tmp/one") == ("file:///tmp", "one")


def test_files_that_are_written_aside_leave_nothing_there(study: Study, tmp_path: Path) -> None:
    study.journal.append(story(2))
    study.keep(0, "a.txt", "one")
    with mirrored(study, str(tmp_path / "there")):
        pass
    assert not list((tmp_path / "there").rglob("*.part"))
    assert not (tmp_path / "there" / FILE).exists()
