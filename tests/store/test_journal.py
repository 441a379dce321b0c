"""The journal: what is appended comes back as it was, all of it or nothing, and foreign files stay as they are."""

import hashlib
import json
import math
import os
import random
import resource
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from etude.core.errors import JournalError, NotAStudyError, StudyInUseError
from etude.core.events import (
    AnyFact,
    Assigned,
    Closed,
    How,
    Joined,
    Judged,
    Left,
    Opened,
    Outcome,
    Quarantined,
    Queued,
    Reported,
    Settled,
    Usage,
)
from etude.core.history import identity
from etude.core.lifecycle import Turn
from etude.store import journal as module
from etude.store import journal_file
from etude.store.journal import APPLICATION_ID, FILE, SCHEMA_VERSION, Journal, transaction

# --- strategies -----------------------------------------------------------------------------------

times = st.floats(0, 2e9)
text = st.text(max_size=8)
numbers = st.integers(0, 9)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | text,
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
)
params = st.dictionaries(text, values, max_size=4)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | text,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(text, inner, max_size=2),
    max_leaves=4,
)
extras = st.dictionaries(text, plain, max_size=3)
usages = st.builds(Usage, times, times, times, st.none() | times)
outcomes = st.builds(
    Outcome,
    st.sampled_from(How),
    value=st.none() | st.floats(),
    extra=extras,
    reason=text,
    traceback=text,
    derived=extras,
    data=extras,
    usage=usages,
)
metrics = st.dictionaries(st.sampled_from(["accuracy", "loss", "", "é"]), st.floats(), max_size=3)


def built(kind: Any, **fields: Any) -> Any:
    return st.builds(kind, at=times, **fields)


facts: st.SearchStrategy[AnyFact] = st.one_of(
    built(Opened, driver=text, epoch=numbers),
    built(Joined, worker=text),
    built(Left, worker=text, reason=text),
    built(Quarantined, worker=text, reason=text),
    built(Queued, trial=numbers, params=params, seed=st.integers(-(2**63), 2**64 - 1), upto=st.none() | numbers),
    built(Assigned, trial=numbers, attempt=numbers, worker=text),
    built(Reported, trial=numbers, attempt=numbers, step=numbers, metrics=metrics),
    built(Judged, trial=numbers, attempt=numbers, turn=st.sampled_from(Turn), reason=text),
    built(
        Settled, trial=numbers, turn=st.sampled_from(Turn), attempt=st.none() | numbers, outcome=st.none() | outcomes
    ),
    built(Closed, reason=text, complete=st.booleans()),
)


def shown(fact: AnyFact) -> str:
    """Return a fact as text in which NaN is like NaN, 1 is not 1.0, and a tuple is no list."""
    if isinstance(fact, Reported):  # SQLite keeps no sign of zero, and metrics have no order
        fact = Reported(
            at=fact.at,
            trial=fact.trial,
            attempt=fact.attempt,
            step=fact.step,
            metrics={name: value + 0.0 for name, value in sorted(fact.metrics.items())},
        )
    return repr(fact)


def started(folder: Path) -> Journal:
    """Return a new journal whose lease we hold."""
    journal = Journal.create(folder, {})
    journal.lease.take("us")
    return journal


def joined(*names: str) -> list[AnyFact]:
    return [Joined(at=1.0, worker=name) for name in names]


def report(trial: int = 0, step: int = 1, **metrics: float) -> Reported:
    return Reported(at=2.5, trial=trial, attempt=1, step=step, metrics=metrics)


def read(folder: Path) -> list[AnyFact]:
    with closing(Journal.read(folder)) as journal:
        return list(journal.facts())


def snapshot(folder: Path) -> dict[str, str]:
    """Return what lies in a folder, byte for byte."""
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.iterdir())}


@contextmanager
def untouched(folder: Path) -> Iterator[None]:
    before = snapshot(folder)
    yield
    assert snapshot(folder) == before


def refusal(call: Any, folder: Path, error: type[Exception] = JournalError) -> str:
    with untouched(folder), pytest.raises(error) as refused:
        call(folder)
    return str(refused.value)


# --- what is appended comes back ------------------------------------------------------------------


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=30)
@given(batches=st.lists(st.lists(facts, max_size=5), max_size=4))
def test_every_fact_comes_back_as_it_was_in_order_and_without_a_gap(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[AnyFact]]
) -> None:
    folder = tmp_path_factory.mktemp("study", numbered=True)
    with closing(started(folder)) as journal:
        for batch in batches:
            journal.append(batch)
        written = [fact for batch in batches for fact in batch]
        assert journal.seq == len(written)
    assert [shown(fact) for fact in read(folder)] == [shown(fact) for fact in written]


@given(params=params)
def test_parameters_keep_their_types_also_deep_in_tuples(params: dict[str, Any]) -> None:
    fact = Queued(at=1.0, trial=0, params=params, seed=0)
    back = module._decode(module._encode(fact))
    assert isinstance(back, Queued)
    assert identity(back.params) == identity(params)


def test_an_attempt_that_reports_nothing_at_all_leaves_no_gap(tmp_path: Path) -> None:
    with closing(started(tmp_path)) as journal:
        journal.append([report(), *joined("a")])
    assert read(tmp_path) == [report(), *joined("a")]


def test_a_reopened_journal_goes_on_where_it_was(tmp_path: Path) -> None:
    with closing(started(tmp_path)) as journal:
        journal.append([report(accuracy=0.5, loss=math.inf), *joined("a")])
        journal.lease.release()
    with closing(Journal.write(tmp_path)) as journal:
        assert journal.seq == 2
        journal.lease.take("again")
        journal.append([report(step=2, loss=0.25), report(trial=7, accuracy=0.1)])
        assert len(list(journal.facts())) == journal.seq == 4
        assert journal.reports_of(0) == [(1, 1, 2.5, {"accuracy": 0.5, "loss": math.inf}), (1, 2, 2.5, {"loss": 0.25})]
        assert journal.reports_of(7) == [(1, 1, 2.5, {"accuracy": 0.1})]
        assert journal.reports_of(8) == []


def test_what_is_recorded_about_a_study_comes_back_and_can_be_renewed(tmp_path: Path) -> None:
    with closing(Journal.create(tmp_path, {"name": "s", "space": {"lr": [0.1, None]}})) as journal:
        journal.lease.take("us")
        journal.record("run 1", {"host": "a"})
        journal.record("run 1", {"host": "b"})
    with closing(Journal.read(tmp_path)) as journal:
        assert journal.meta() == {"name": "s", "space": {"lr": [0.1, None]}, "run 1": {"host": "b"}}


def test_any_sqlite_reads_it(tmp_path: Path) -> None:
    with closing(started(tmp_path)) as journal:
        journal.append([*joined("a"), report(trial=3, accuracy=math.nan)])
    with closing(sqlite3.connect(tmp_path / FILE)) as other:
        assert other.execute("SELECT seq, kind, trial FROM facts").fetchall() == [(1, "joined", None)]
        row = other.execute("SELECT seq, name, trial, step, value FROM reports JOIN metrics ON metric = id").fetchone()
        assert row == (2, "accuracy", 3, 1, None)
        assert other.execute("PRAGMA application_id").fetchone() == (int.from_bytes(b"Etud"),)


# --- all of it or nothing -------------------------------------------------------------------------


def test_after_a_takeover_nothing_more_is_written(tmp_path: Path) -> None:
    with closing(started(tmp_path)) as journal, ExitStack() as later:
        journal.append(joined("a"))
        newer = later.enter_context(closing(Journal.write(tmp_path)))
        journal.lease.release()
        newer.lease.take("other")
        for _ in range(2):
            with pytest.raises(StudyInUseError) as refused:
                journal.append([report(accuracy=0.5), *joined("b")])
        with pytest.raises(StudyInUseError):
            journal.record("key", 1)
        assert journal.seq == 1
        newer.append([*joined("c"), report(accuracy=0.75)])
    assert str(refused.value) == (
        f"Another driver (process {os.getpid()} on {os.uname().nodename}) has taken this study over while this one "
        "stood still. This one stops and has written nothing since."
    )
    assert read(tmp_path) == [*joined("a", "c"), report(accuracy=0.75)]


def test_a_full_disk_leaves_nothing_half_written_and_the_append_can_be_repeated(tmp_path: Path) -> None:
    batch = [report(step=n, accuracy=0.5, loss=float(n)) for n in range(1, 2000)] + joined("a", "b")
    with closing(started(tmp_path)) as journal:
        connection = journal._connection
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages + 1}")
        for _ in range(2):
            with pytest.raises(sqlite3.OperationalError, match="full"):
                journal.append(batch)
            assert journal.seq == 0
            assert list(journal.facts()) == read(tmp_path) == []
        connection.execute("PRAGMA max_page_count = 100000")
        journal.append(batch)
    assert read(tmp_path) == batch


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is set for this process alone")
def test_a_disk_that_is_full_only_at_the_commit_leaves_nothing_either(tmp_path: Path) -> None:
    with closing(started(tmp_path)) as journal:
        journal.append([report(accuracy=0.5)])
        size = (tmp_path / f"{FILE}-wal").stat().st_size
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            with pytest.raises(sqlite3.OperationalError):
                journal.append([report(step=2, accuracy=0.6, loss=0.1)])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert read(tmp_path) == [report(accuracy=0.5)]
        journal.append([report(step=2, accuracy=0.6, loss=0.1)])
    assert read(tmp_path) == [report(accuracy=0.5), report(step=2, accuracy=0.6, loss=0.1)]


def test_facts_that_cannot_be_encoded_cost_no_later_ones(tmp_path: Path) -> None:
    too_large = Queued(at=1.0, trial=0, params={"n": 2**70}, seed=0)
    with closing(started(tmp_path)) as journal:
        with pytest.raises(OverflowError):
            journal.append([report(accuracy=0.5), too_large])
        journal.append([report(accuracy=0.5)])
    assert read(tmp_path) == [report(accuracy=0.5)]


def test_readers_see_whole_transactions_while_a_writer_writes(tmp_path: Path) -> None:
    seen: list[int] = []
    done = threading.Event()

    def look() -> None:
        while not done.is_set() or not seen:
            facts = read(tmp_path)
            assert len(facts) % 3 == 0
            seen.append(len(facts))

    with closing(started(tmp_path)) as journal:
        reader = threading.Thread(target=look)
        reader.start()
        for n in range(100):
            journal.append([report(step=n, **{f"metric {n}": 0.5}), *joined("a", "b")])
        done.set()
        reader.join()
    assert seen == sorted(seen)
    assert len(read(tmp_path)) == 300


# --- the disk -------------------------------------------------------------------------------------


def test_a_local_journal_has_a_write_ahead_log_and_syncs_on_demand(tmp_path: Path) -> None:
    with closing(started(tmp_path)) as journal:
        assert journal._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert journal._connection.execute("PRAGMA synchronous").fetchone() == (1,)
        journal.append(joined("a"))
        journal.sync()
        journal._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        journal.sync()
        with closing(Journal.write(tmp_path)):
            pass
        journal.append(joined("b"))
        journal.sync()
        assert (tmp_path / f"{FILE}-wal").stat().st_size > 0
    assert sorted(p.name for p in tmp_path.iterdir()) == [FILE]


def test_sync_reaches_the_log_that_is_written_to_and_leaves_no_file_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    with closing(started(tmp_path)) as journal:
        journal.append(joined("a"))
        monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
        journal.sync()
        journal.sync()
    assert synced == [str(tmp_path / f"{FILE}-wal")] * 2


def test_looking_at_a_study_from_within_its_driver_costs_the_driver_no_lock(tmp_path: Path) -> None:
    """Closing a file drops a process's locks on it: then another process would remove the log under the driver."""
    code = (
        "import sys, pathlib; from etude.store.journal import Journal; "
        "Journal.write(pathlib.Path(sys.argv[1])).close(); Journal.read(pathlib.Path(sys.argv[1])).close()"
    )
    with closing(started(tmp_path)) as journal:
        journal.append(joined("a"))
        read(tmp_path)
        subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
        assert (tmp_path / f"{FILE}-wal").exists()
        journal.append(joined("b"))
        copy = tmp_path / "copy"
        copy.mkdir()
        for end in ("", "-wal"):
            (copy / f"{FILE}{end}").write_bytes((tmp_path / f"{FILE}{end}").read_bytes())
    assert read(copy) == read(tmp_path) == joined("a", "b")


def test_on_a_network_file_system_it_keeps_a_rollback_journal_and_waits_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(started(tmp_path)) as journal:  # made on a local disk, and then moved
        journal.append(joined("a"))
        journal.lease.release()
    monkeypatch.setattr(journal_file, "network_kind", lambda folder: "nfs")
    with closing(Journal.write(tmp_path)) as journal:
        assert journal._connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        assert journal._connection.execute("PRAGMA synchronous").fetchone() == (2,)
        journal.lease.take("us")
        journal.append(joined("b"))
        journal.sync()
        assert sorted(p.name for p in tmp_path.iterdir()) == [FILE]
        assert read(tmp_path) == joined("a", "b")


# --- making one -----------------------------------------------------------------------------------


def test_two_creators_at_once_get_one_whole_journal(tmp_path: Path) -> None:
    start = threading.Barrier(6)
    names: list[str] = []

    def create(n: int) -> None:
        start.wait()
        with closing(Journal.create(tmp_path / "new", {"name": str(n)})) as journal:
            names.append(journal.meta()["name"])

    threads = [threading.Thread(target=create, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(names) == 6
    assert len(set(names)) == 1
    assert [p.name for p in (tmp_path / "new").iterdir()] == [FILE]


def test_a_journal_can_be_made_where_there_are_no_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*paths: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    for name in ("first", "second"):
        with closing(Journal.create(tmp_path, {"name": name})) as journal:
            assert journal.meta() == {"name": "first"}
    assert [p.name for p in tmp_path.iterdir()] == [FILE]


def test_a_folder_that_cannot_be_made_is_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with untouched(tmp_path), pytest.raises(JournalError) as refused:
        Journal.create(tmp_path / "file", {})
    assert str(refused.value) == (
        f"The study folder {tmp_path}/file cannot be written: [Errno 17] File exists: '{tmp_path}/file'. "
        "Free some space or permissions, or name another place with ETUDE_STUDIES=<folder>."
    )


def test_a_disk_that_is_full_when_a_journal_is_made_is_left_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*paths: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "link", refuse)
    assert refusal(lambda folder: Journal.create(folder, {}), tmp_path) == (
        f"The study folder {tmp_path} cannot be written: [Errno 28] No space left on device. "
        "Free some space or permissions, or name another place with ETUDE_STUDIES=<folder>."
    )


# --- what is no journal stays as it is ------------------------------------------------------------

both = pytest.mark.parametrize("call", [Journal.write, Journal.read], ids=["write", "read"])


def spoilt(tmp_path: Path, *, facts: int = 3000) -> Path:
    """Return the file of a journal that is closed, large, and about to be spoilt."""
    with closing(started(tmp_path)) as journal:
        journal.append(joined(*(f"worker {n}" for n in range(facts))))
    return tmp_path / FILE


@both
def test_a_folder_that_is_not_there_or_has_no_journal_is_no_study(tmp_path: Path, call: Any) -> None:
    empty, missing = tmp_path, tmp_path / "missing"
    told = {empty: f"{empty} is not a study: it has no {FILE}.", missing: f"There is no study {missing}."}
    for folder, what in told.items():
        with untouched(tmp_path), pytest.raises(NotAStudyError) as refused:
            call(folder)
        assert str(refused.value) == f"{what} `etude ls` lists the studies that there are."


@both
@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is empty"),
        (b"hello, world\n" * 100, "it is no SQLite file"),
        (b"SQLite format 3\0", "it is no SQLite file"),
        (b"\0" * 4096, "it is no SQLite file"),
    ],
    ids=["empty", "text", "cut in its header", "zeros"],
)
def test_a_file_that_is_no_sqlite_is_damaged(tmp_path: Path, call: Any, content: bytes, why: str) -> None:
    (tmp_path / FILE).write_bytes(content)
    assert refusal(call, tmp_path) == (
        f"The journal {tmp_path / FILE} is damaged: {why}. It was not touched. Restore it from a copy; or, if the "
        "study may start over, move the folder away."
    )


@both
@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_the_file_of_another_program_is_left_alone(tmp_path: Path, call: Any, mode: str) -> None:
    with closing(sqlite3.connect(tmp_path / FILE)) as other:
        other.execute(f"PRAGMA journal_mode = {mode}")
        other.execute("CREATE TABLE theirs (x)")
        other.commit()
    assert refusal(call, tmp_path, NotAStudyError) == (
        f"{tmp_path / FILE} is an SQLite file, but not one of Étude's: another program wrote it. It was not touched. "
        "Give another folder."
    )


@both
def test_a_journal_of_a_later_version_is_left_alone(tmp_path: Path, call: Any) -> None:
    spoilt(tmp_path)
    with closing(sqlite3.connect(tmp_path / FILE)) as later:
        later.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    assert refusal(call, tmp_path) == (
        f"{tmp_path / FILE} has schema version 2, and this Étude knows versions up to 1: a later Étude wrote it. "
        "It was not touched. Upgrade: pip install --upgrade etude."
    )


@both
def test_a_later_version_that_still_stands_in_the_log_is_seen(tmp_path: Path, call: Any) -> None:
    spoilt(tmp_path)
    with closing(sqlite3.connect(tmp_path / FILE)) as later:
        later.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
        with pytest.raises(JournalError, match="a later Étude wrote it"):
            call(tmp_path)


@both
def test_a_truncated_file_is_damaged(tmp_path: Path, call: Any) -> None:
    path = spoilt(tmp_path)
    os.truncate(path, path.stat().st_size // 2)
    assert refusal(call, tmp_path) == (
        f"The journal {path} is damaged: database disk image is malformed. It was not touched. Restore it from a "
        "copy; or, if the study may start over, move the folder away."
    )


@both
def test_a_file_with_our_mark_and_nothing_else_is_damaged(tmp_path: Path, call: Any) -> None:
    with closing(sqlite3.connect(tmp_path / FILE)) as other:
        other.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        other.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    assert "is damaged: no such table: metrics. It was not touched." in refusal(call, tmp_path)


@both
def test_garbage_in_the_middle_is_found_when_it_is_read(tmp_path: Path, call: Any) -> None:
    path = spoilt(tmp_path)
    content = bytearray(path.read_bytes())
    middle = len(content) // 2 // 4096 * 4096
    content[middle : middle + 4096] = random.Random(0).randbytes(4096)
    path.write_bytes(content)

    def read_all(folder: Path) -> None:
        with closing(call(folder)) as journal:
            list(journal.facts())

    before = hashlib.sha256(path.read_bytes()).digest()
    with pytest.raises(JournalError) as refused:
        read_all(tmp_path)
    assert str(refused.value) == (
        f"The journal {path} is damaged: database disk image is malformed. It was not touched. Restore it from a "
        "copy; or, if the study may start over, move the folder away."
    )
    assert hashlib.sha256(path.read_bytes()).digest() == before


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("DELETE FROM facts WHERE seq = 2", "fact 2 of 4 is missing"),
        ("DELETE FROM reports WHERE seq = 3", "fact 3 of 4 is missing"),
        ("UPDATE reports SET seq = 4", "fact 3 of 4 is missing"),
        (
            "INSERT INTO facts SELECT 3, at, kind, trial, body FROM facts WHERE seq = 1",
            "two facts have the same number",
        ),
        ("DELETE FROM metrics", "0"),
        (
            "UPDATE facts SET body = x'81a474797065a66a6f696e6564' WHERE seq = 1",
            "Object missing required field `worker`",
        ),
        ("UPDATE facts SET body = x'00' WHERE seq = 1", "Expected `object`, got `int`"),
        ("UPDATE facts SET body = x'a1ff' WHERE seq = 1", "Expected `object`, got `str`"),
    ],
)
def test_facts_that_are_missing_or_make_no_sense_are_an_error(tmp_path: Path, change: str, why: str) -> None:
    with closing(started(tmp_path)) as journal:
        journal.append([*joined("a", "b"), report(accuracy=0.5), *joined("c")])
    with closing(sqlite3.connect(tmp_path / FILE)) as other:
        other.execute(change)
        other.commit()
    with pytest.raises(JournalError) as refused:
        read(tmp_path)
    assert str(refused.value).startswith(f"The journal {tmp_path / FILE} is damaged: {why}")
    assert str(refused.value).endswith(
        ". It was not touched. Restore it from a copy; or, if the study may start over, move the folder away."
    )


def test_a_spoilt_record_about_the_study_is_an_error(tmp_path: Path) -> None:
    with closing(Journal.create(tmp_path, {"name": "s"})) as journal:
        journal._connection.execute("UPDATE meta SET value = '{'")
        with pytest.raises(JournalError, match="is damaged: Input data was truncated"):
            journal.meta()


# --- places where nothing can be written ----------------------------------------------------------


def as_somebody_without_rights(work: Any) -> str:
    """Call ``work`` in a process that may write nowhere but to its temporary folder; return what it prints."""
    ours, its = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            if os.getuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            os.write(its, json.dumps(work()).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(its)
    with open(ours) as answer:
        text = answer.read()
    assert os.waitpid(pid, 0)[1] == 0
    return str(json.loads(text))


@pytest.fixture
def study_of_another(tmp_path: Path) -> Iterator[Path]:
    """A place whose journal a killed driver left behind, open to everybody's eyes and to nobody's hands."""
    import tempfile

    place = Path(tempfile.mkdtemp())
    try:
        with closing(started(tmp_path / "live")) as journal:
            journal.append(joined("a"))
            journal._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            journal.append(joined("b"))
            for end in ("", "-wal"):
                (place / f"{FILE}{end}").write_bytes((tmp_path / "live" / f"{FILE}{end}").read_bytes())
        for path in place.iterdir():
            path.chmod(0o444)
        place.chmod(0o555)
        yield place
    finally:
        place.chmod(0o755)
        shutil.rmtree(place)


def told(call: Any, folder: Path) -> str:
    try:
        return str(call(folder))
    except JournalError as error:
        return str(error)


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_a_read_only_folder_is_read_with_what_its_killed_driver_left_in_the_log(study_of_another: Path) -> None:
    with untouched(study_of_another):
        answer = as_somebody_without_rights(lambda: told(read, study_of_another))
    assert answer == str(joined("a", "b"))


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_a_read_only_folder_without_a_log_is_read_as_it_is(study_of_another: Path) -> None:
    study_of_another.chmod(0o755)
    (study_of_another / f"{FILE}-wal").unlink()
    study_of_another.chmod(0o555)
    with untouched(study_of_another):
        answer = as_somebody_without_rights(lambda: told(read, study_of_another))
    assert answer == str(joined("a"))


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_a_read_only_folder_cannot_be_written_and_is_not_called_damaged(study_of_another: Path) -> None:
    with untouched(study_of_another):
        answer = as_somebody_without_rights(lambda: told(Journal.write, study_of_another))
    assert answer == (
        f"The journal {study_of_another / FILE} cannot be written: unable to open database file. Nothing in it was "
        "changed. See to its permissions, to the space on its disk, and to who else has it open; then try again."
    )


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
@pytest.mark.parametrize("kind", ["", "nfs"])
def test_a_journal_that_may_not_be_written_is_refused_when_it_is_opened(
    study_of_another: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite opens such a file, and lets a transaction on it begin and end that writes nothing."""
    monkeypatch.setattr("etude.store.journal_file.network_kind", lambda folder: kind)
    study_of_another.chmod(0o777)
    (study_of_another / f"{FILE}-wal").unlink()
    if kind:
        with closing(sqlite3.connect(study_of_another / FILE)) as other:
            assert other.execute("PRAGMA journal_mode = DELETE").fetchone() == ("delete",)
    before = (study_of_another / FILE).read_bytes()
    answer = as_somebody_without_rights(lambda: told(Journal.write, study_of_another))
    assert answer == (
        f"The journal {study_of_another / FILE} cannot be written: attempt to write a readonly database. Nothing in it "
        "was changed. See to its permissions, to the space on its disk, and to who else has it open; then try again."
    )
    assert (study_of_another / FILE).read_bytes() == before


def test_opening_a_journal_writes_nothing_to_it(tmp_path: Path) -> None:
    with closing(started(tmp_path)) as journal:
        journal.append(joined("a"))
    with untouched(tmp_path), closing(Journal.write(tmp_path)):
        pass


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_a_folder_that_cannot_be_entered_is_said_to_be_so(study_of_another: Path) -> None:
    study_of_another.chmod(0o000)
    answer = as_somebody_without_rights(lambda: told(read, study_of_another))
    study_of_another.chmod(0o755)
    assert answer == (
        f"The journal {study_of_another / FILE} cannot be read: [Errno 13] Permission denied: "
        f"'{study_of_another / FILE}'. Nothing in it was changed. See to its permissions, to the space on its disk, "
        "and to who else has it open; then try again."
    )


def test_a_journal_that_another_program_has_locked_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoilt(tmp_path)
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **more: connect(*args, **{**more, "timeout": 0.0}))
    with closing(connect(tmp_path / FILE, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(JournalError, match="cannot be written: database is locked"):
            Journal.write(tmp_path)


def test_a_half_done_transaction_beside_a_rollback_journal_is_undone_before_it_is_read(tmp_path: Path) -> None:
    """A driver on a network file system was killed in the middle of a commit."""
    spoilt(tmp_path)
    before = read(tmp_path)
    killed = tmp_path / "killed"
    killed.mkdir()
    with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode = DELETE")
        other.execute("PRAGMA cache_size = 2")  # so that pages go to the file before the commit
        other.execute("BEGIN")
        other.execute("DELETE FROM facts WHERE seq > 10")
        for end in ("", "-journal"):
            (killed / f"{FILE}{end}").write_bytes((tmp_path / f"{FILE}{end}").read_bytes())
        other.execute("ROLLBACK")
    with untouched(killed):
        assert read(killed) == before


# --- earlier versions -----------------------------------------------------------------------------


@pytest.fixture
def later_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A journal of version 1, and an Étude of version 3."""
    with closing(started(tmp_path)) as journal:
        journal.append(joined("a"))
    migrations = {
        1: lambda connection: connection.execute("CREATE TABLE second (x)"),
        2: lambda connection: connection.execute("CREATE TABLE third (x)"),
    }
    monkeypatch.setattr(journal_file, "MIGRATIONS", migrations)
    monkeypatch.setattr(journal_file, "SCHEMA_VERSION", 3)
    return tmp_path


def test_an_earlier_journal_is_brought_up_to_date_step_by_step(later_schema: Path) -> None:
    for _ in range(2):
        with closing(Journal.write(later_schema)) as journal:
            assert journal._connection.execute("PRAGMA user_version").fetchone() == (3,)
            journal._connection.execute("SELECT * FROM second, third")
            assert list(journal.facts()) == joined("a")


def test_an_earlier_journal_is_read_without_being_changed(later_schema: Path) -> None:
    before = hashlib.sha256((later_schema / FILE).read_bytes()).digest()
    with closing(Journal.read(later_schema)) as journal:
        journal._connection.execute("SELECT * FROM second, third")
        assert list(journal.facts()) == joined("a")
    assert hashlib.sha256((later_schema / FILE).read_bytes()).digest() == before


def test_a_step_that_fails_changes_nothing(later_schema: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE half (x)")
        connection.execute("SELECT * FROM nowhere")

    monkeypatch.setattr(journal_file, "MIGRATIONS", {1: fail})
    with pytest.raises(JournalError, match="no such table: nowhere"):
        Journal.write(later_schema)
    with closing(sqlite3.connect(later_schema / FILE)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
        assert connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'half'").fetchone() == (0,)


def test_a_migration_that_is_still_in_the_log_of_a_killed_driver_is_not_done_twice(later_schema: Path) -> None:
    copy = later_schema / "copy"
    copy.mkdir()
    with closing(Journal.write(later_schema)):
        for end in ("", "-wal"):
            (copy / f"{FILE}{end}").write_bytes((later_schema / f"{FILE}{end}").read_bytes())
    with closing(Journal.write(copy)) as journal:
        assert list(journal.facts()) == joined("a")


def test_a_transaction_that_cannot_be_committed_is_over(tmp_path: Path) -> None:
    with closing(started(tmp_path)) as journal:
        connection = journal._connection
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("CREATE TABLE parent (id INTEGER PRIMARY KEY)")
        connection.execute("CREATE TABLE child (id REFERENCES parent DEFERRABLE INITIALLY DEFERRED)")
        with pytest.raises(sqlite3.IntegrityError), transaction(connection):
            connection.execute("INSERT INTO child VALUES (1)")
        assert not connection.in_transaction
        journal.append(joined("a"))


def test_a_checkpoint_that_is_half_way_through_is_no_damage(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path / "whole", {})
    journal._connection.execute("PRAGMA wal_autocheckpoint = 0")
    journal.take("d")
    facts = [Joined(at=float(n), worker=f"worker {n}") for n in range(2000)]
    journal.append(facts)
    (pages,) = journal._connection.execute("PRAGMA page_count").fetchone()
    copy = tmp_path / "copy"
    copy.mkdir()
    for end in ("", "-wal"):
        (copy / f"journal.sqlite{end}").write_bytes((tmp_path / "whole" / f"journal.sqlite{end}").read_bytes())
    journal.close()
    with open(copy / "journal.sqlite", "r+b") as file:  # page 1 is there already, the pages it speaks of are not
        assert file.seek(0, 2) < pages * 4096
        file.seek(28)
        file.write(pages.to_bytes(4))
    again = Journal.read(copy)
    assert list(again.facts()) == facts
    again.close()


def test_a_lease_that_cannot_be_written_is_no_bare_error_of_sqlite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_file, "BUSY_S", 0.0)
    with closing(Journal.create(tmp_path / "s", {})) as journal:
        other = sqlite3.connect(tmp_path / "s" / FILE, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(JournalError) as refused:
            journal.take("d")
        other.close()
        assert str(refused.value) == (
            f"The journal {tmp_path / 's' / FILE} cannot be written: database is locked. Nothing in it was changed. "
            "See to its permissions, to the space on its disk, and to who else has it open; then try again."
        )
        assert journal.take("d") == 1
