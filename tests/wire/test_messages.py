"""Messages: every one comes back as it was, and what is none is refused."""

import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from etude.core.events import How, Outcome, Usage
from etude.core.history import identity
from etude.wire import messages
from etude.wire.messages import (
    Beat,
    Broken,
    Bye,
    Ended,
    Forget,
    Halt,
    Hello,
    Hold,
    Logging,
    Ready,
    Reports,
    Rest,
    Run,
    Serve,
    decode_from_worker,
    decode_to_worker,
    encode,
    pack_outcome,
    unpack_outcome,
)

text = st.text(max_size=8)
numbers = st.integers(0, 9)
names = {"trial": numbers, "attempt": numbers}
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | text,
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
)
params = st.dictionaries(text, values, max_size=4)
outcomes = st.builds(
    Outcome,
    st.sampled_from(How),
    value=st.none() | st.floats(),
    extra=st.dictionaries(text, st.lists(st.floats(), max_size=2), max_size=2),
    reason=text,
    usage=st.builds(Usage, st.floats(0, 9), gpu_memory_mb=st.none() | st.floats(0, 9)),
)
texts = st.lists(text, max_size=2).map(tuple)
to_worker: st.SearchStrategy[messages.ToWorker] = st.one_of(
    st.builds(
        Serve,
        study=text,
        functions=st.binary(max_size=20),
        preload=texts,
        path=texts,
        cwd=text,
        metrics=st.tuples(text),
        watched=text,
        spool=text,
        trials=text,
        threads=numbers,
        timeout_s=st.none() | st.floats(0, 9),
        grace_s=st.floats(0, 9),
        reuse_child=st.booleans(),
        log_limit=numbers,
        files=st.dictionaries(text, text, max_size=2),
        logging=st.none() | st.builds(Logging, level=numbers, format=text, style=st.sampled_from("%{$")),
    ),
    st.builds(Run, **names, params=params, seed=st.integers(-(2**63), 2**64 - 1)),
    st.builds(Halt, **names),
    st.builds(Hold, **names),
    st.builds(Forget, **names),
    st.builds(Rest),
    st.builds(Bye),
)
from_worker: st.SearchStrategy[messages.FromWorker] = st.one_of(
    st.builds(Hello, pid=numbers),
    st.builds(Ready, study=text, note=text),
    st.builds(Broken, study=text, reason=text, edited=st.booleans()),
    st.builds(
        Reports,
        **names,
        rows=st.lists(st.tuples(numbers, st.dictionaries(text, st.floats(), max_size=2)), max_size=3),
    ),
    st.builds(Ended, **names, outcome=outcomes),
    st.builds(Beat),
)


@given(to_worker)
def test_every_message_to_a_worker_comes_back_as_it_was(message: messages.ToWorker) -> None:
    assert repr(decode_to_worker(encode(message))) == repr(message)


@given(from_worker)
def test_every_message_from_a_worker_comes_back_as_it_was(message: messages.FromWorker) -> None:
    assert repr(decode_from_worker(encode(message))) == repr(message)


@given(params)
def test_the_parameters_of_an_attempt_keep_their_types_also_deep_in_tuples(params: dict[str, Any]) -> None:
    back = decode_to_worker(encode(Run(0, 1, params, 0)))
    assert isinstance(back, Run)
    assert identity(back.params) == identity(params)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ({"type": "reports", "trial": 0, "attempt": 1}, "Object missing required field `rows`"),
        ({"type": "reports", "trial": "0", "attempt": 1, "rows": []}, "Expected `int`, got `str` - at `$.trial`"),
        (
            {"type": "reports", "trial": 0, "attempt": 1, "rows": [[1, {"loss": "low"}]]},
            "Expected `float`, got `str` - at",
        ),
        (
            {"type": "reports", "trial": 0, "attempt": 1, "rows": [[1, {0: 1.0}]]},
            "Expected `str`, got `int` - at",
        ),
        ({"type": "ended", "trial": 0, "attempt": 1, "outcome": {"how": "?"}}, "Invalid enum value '?'"),
        ({"type": "run", "trial": 0, "attempt": 1, "params": {}, "seed": 0}, "Invalid value 'run' - at `$.type`"),
        ([1, 2], "Expected `object`, got `array`"),
        (None, "Expected `object`, got `None`"),
    ],
)
def test_a_message_of_the_wrong_shape_is_refused(content: object, why: str) -> None:
    with pytest.raises(msgspec.ValidationError) as refused:
        decode_from_worker(encode(content))
    assert str(refused.value).startswith(why)


@given(st.binary(max_size=60))
def test_garbage_is_never_anything_but_a_decode_error(content: bytes) -> None:
    for decode in (decode_to_worker, decode_from_worker, unpack_outcome):
        with contextlib.suppress(msgspec.DecodeError):
            decode(content)


@pytest.mark.parametrize(
    "content",
    [
        encode({"type": "hello"})[:-3],
        b"\x81\xa4type\xa2\xff\xfe",
        b"\x81\xa4type" + b"\x91" * 100_000,
        encode({"type": "broken", "study": "s"}) + b"x",
    ],
    ids=["cut", "no text", "too deep", "too long"],
)
def test_bytes_that_are_no_message_are_refused_with_one_kind_of_error(content: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_from_worker(content)


def test_an_outcome_lies_in_the_spool_as_it_was() -> None:
    ended = Ended(3, 1, Outcome(How.FINISHED, value=0.5, extra={"path": "/x"}, usage=Usage(1.5, 0.5, 100.0)))
    assert unpack_outcome(pack_outcome(ended)) == ended
    with pytest.raises(msgspec.ValidationError, match="an outcome was expected, and this is Beat"):
        unpack_outcome(encode(Beat()))


def test_text_that_is_no_unicode_costs_no_outcome() -> None:
    """File names need not be Unicode, and get into messages of errors."""
    ended = Ended(3, 1, Outcome(How.RAISED, reason="no file \udcff.csv", traceback="\udcff", extra={"\udcff": [1.5]}))
    assert unpack_outcome(pack_outcome(ended)) == Ended(
        3, 1, Outcome(How.RAISED, reason="no file \\udcff.csv", traceback="\\udcff", extra={"\\udcff": [1.5]})
    )
