"""The spool: whole outcomes come back, whatever was torn between them."""

import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from etude.core.events import How, Outcome
from etude.wire.messages import Ended, pack_outcome
from etude.wire.spool import append, find_in, open_spool, read, read_all


def ended(trial: int) -> Ended:
    return Ended(trial, 1, Outcome(How.FINISHED, value=float(trial), reason="because"))


def test_an_outcome_is_found_in_whichever_spool_it_lies(tmp_path: Path) -> None:
    for trial in (1, 2):
        spool, _ = open_spool(str(tmp_path))
        append(spool, pack_outcome(ended(trial)))
        os.close(spool)
    assert sorted(found.trial for found in read_all(tmp_path)) == [1, 2]
    assert find_in(tmp_path, 2, 1) == ended(2)
    assert find_in(tmp_path, 2, 2) is None


@given(cut=st.integers(0, 60), garbage=st.binary(max_size=60))
def test_what_was_written_after_a_torn_record_is_found(tmp_path_factory, cut: int, garbage: bytes) -> None:
    path = tmp_path_factory.mktemp("spool") / "a.spool"
    spool = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    append(spool, pack_outcome(ended(1)))
    whole = path.read_bytes()
    os.write(spool, whole[: min(cut, len(whole) - 1)] + garbage)
    append(spool, pack_outcome(ended(2)))
    os.close(spool)
    assert [found.trial for found in read(path)] == [1, 2]
