"""Measures against plain loops, and what NaN and gaps do."""

from __future__ import annotations

import itertools
import math
import statistics
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import etude
from etude.core.errors import ConfigError, ResultError
from etude.fit.importance.measures import BY_NAME, Scored, measure_of, score
from etude.fit.importance.records import Book, Records, merged
from etude.frameworks.aspects import CORRECT, EL2N, LOSS, PROBABILITY

GAP = math.nan


def table(rows: list[list[float]]) -> npt.NDArray[np.float32]:
    return np.array(rows, dtype=np.float32).reshape(len(rows), -1)


def records(rows: list[list[float]], *, nan: list[int] | None = None) -> Records:
    """The same numbers for every aspect."""
    marked = np.zeros(len(rows), dtype=bool)
    marked[nan or []] = True
    found = table(rows)
    return Records(nan=marked, losses=found, correct=found, probabilities=found, el2n=found)


def scored(measure: Any, rows: list[list[float]], **more: Any) -> Scored:
    return score(measure_of(measure), records(rows, **more))


def forgotten(seen: list[float]) -> float:
    right = [value > 0.5 for value in seen]
    return sum(a and not b for a, b in itertools.pairwise(right)) if any(right) else math.inf


def ema(seen: list[float], decay: float = 0.9) -> float:
    found = seen[0]
    for value in seen[1:]:
        found = decay * found + (1 - decay) * value
    return found


PLAIN = {
    "mean": np.mean,
    "variance": np.var,
    "last": lambda seen: seen[-1],
    "ema": ema,
    "forgetting": forgotten,
    "el2n": np.mean,
    "confidence": lambda seen: 1 - np.mean(seen),
    "variability": np.std,
}

rows = st.lists(st.lists(st.one_of(st.just(GAP), st.floats(0, 1, width=32)), min_size=4, max_size=4), min_size=1)


@pytest.mark.parametrize("name", BY_NAME)
@given(rows=rows)
@settings(max_examples=60, deadline=None)
def test_a_measure_is_what_a_loop_over_the_epochs_gives(name: str, rows: list[list[float]]) -> None:
    seen = [[value for value in row if not math.isnan(value)] for row in rows]
    if max(map(len, seen)) < 2:
        return
    found = scored(name, rows).importance
    expected = [PLAIN[name](values) if values else math.nan for values in seen]
    known = [value for value in expected if math.isfinite(value)]
    ordinary = np.median(known) if known else 0.0
    expected = [ordinary if math.isnan(value) else value for value in expected]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


def test_the_matrix_of_the_papers_figure_3() -> None:
    rows = [[2.4630, 1.6089, 0.8972], [0.9879, 3.1874, 1.7276]]
    assert scored("mean", rows).importance == pytest.approx([1.65637, 1.96763], abs=1e-4)
    assert scored("variance", rows).importance == pytest.approx([statistics.pvariance(row) for row in rows])


def test_every_measure_is_there_by_name_and_as_a_value() -> None:
    assert measure_of("el2n") == etude.measures.EL2N()
    assert measure_of(etude.measures.EMA(decay=0.5)) == etude.measures.EMA(decay=0.5)
    assert {name: make().needs for name, make in BY_NAME.items()} == {
        **{key: {LOSS} for key in ("mean", "variance", "last", "ema")},
        "forgetting": {CORRECT},
        "el2n": {EL2N},
        **{key: {PROBABILITY} for key in ("confidence", "variability")},
    }
    with pytest.raises(ConfigError) as refused:
        etude.measures.EMA(decay=1.0)
    assert str(refused.value) == "EMA(decay=1.0 (float)) is no part. Pass a number from 0 to below 1."


@pytest.mark.parametrize(("name", "instead"), [("variance", [0.2, 0.7]), ("variability", [0.8, 0.3])])
def test_with_one_epoch_the_mean_stands_in_for_the_variance_and_a_note_says_so(name: str, instead: Any) -> None:
    found = scored(name, [[0.2], [0.7]])
    assert found.importance == pytest.approx(instead)
    of = "loss" if name == "variance" else "probability"
    assert found.notes == (
        f"No example was seen in two epochs, so that there is no {name}: the mean of the {of} is taken instead.",
    )


@pytest.mark.parametrize("name", BY_NAME)
def test_an_example_that_gave_nan_is_the_hardest_and_is_named(name: str) -> None:
    found = scored(name, [[0.1, 0.2], [0.9, 0.1], [0.3, 0.3], [0.4, 0.8]], nan=[2, 3])
    assert np.isnan(found.importance).tolist() == [False, False, True, True]
    assert found.notes == ("2 examples (2, 3) were seen with NaN: taken to be the hardest.",)
    (first, _) = etude.partitions.Blocks().assign(found.importance, 2)
    assert first.tolist() == [2, 3]


def test_an_example_that_was_not_seen_has_the_median_of_the_others() -> None:
    found = scored("mean", [[1.0, 3.0], [GAP, GAP], [5.0, GAP], [9.0, 9.0]])
    assert found.importance.tolist() == [2.0, 5.0, 5.0, 9.0]
    assert found.notes == ("1 example (1) was not seen: the median of the others stands for what is not known.",)
    nothing = scored("mean", [[GAP]] * 7)
    assert nothing.importance.tolist() == [0.0] * 7
    assert nothing.notes[0].startswith("7 examples (0, 1, 2, 3, 4, ...) were not seen")


def test_an_infinite_loss_is_very_hard_and_breaks_nothing() -> None:
    assert scored("mean", [[1.0, math.inf], [2.0, 2.0]]).importance.tolist() == [math.inf, 2.0]
    assert math.isnan(scored("variance", [[1.0, math.inf], [2.0, 2.0]]).importance[0])


def test_a_function_sees_losses_correctness_and_probabilities() -> None:
    def least_probable(seen: Records) -> Any:
        assert seen.losses is not None
        assert seen.correct is not None
        assert seen.probabilities is not None
        return -np.nanmin(seen.probabilities, axis=1)

    measure = measure_of(least_probable)
    assert (measure.needs, measure.wants) == ({LOSS}, {CORRECT, PROBABILITY})
    assert scored(least_probable, [[0.5, 0.25], [GAP, 0.75]]).importance.tolist() == [-0.25, -0.75]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            lambda seen: seen.losses,
            "gave an array of the shape (2, 2) for 2 examples. Return one number for each, in the order of their ids: "
            "the shape is (2,).",
        ),
        (lambda seen: "no", "gave 'no' (str), which is no array of numbers."),
    ],
)
def test_a_function_that_gives_no_number_for_each_example_is_refused(given: Any, told: str) -> None:
    with pytest.raises(ResultError) as refused:
        scored(given, [[0.5, 0.25], [0.1, 0.75]])
    assert str(refused.value).endswith(told)


# --- what ranks saw -------------------------------------------------------------------------------


def test_what_ranks_saw_is_put_together() -> None:
    books = [Book(6), Book(6)]
    books[0].write(3, [4, 0], {LOSS: [0.4, 0.0], CORRECT: [0, 1]})
    books[1].write(3, np.array([1, 5]), {LOSS: np.array([0.1, math.nan]), CORRECT: [1, math.nan]})
    books[0].write(4, [0], {LOSS: [0.5], CORRECT: [1]})
    books[0].write(4, [2, 2], {LOSS: [0.6, 0.7], CORRECT: [0, 1]})  # twice in an epoch: the last counts
    books[1].write(4, [0], {LOSS: [0.9], CORRECT: [0]})  # on two ranks: the later
    books[1].write(9, [3], {LOSS: [9.0], CORRECT: [0]})  # an epoch that does not count
    found = merged([book.packed([3, 4]) for book in books], n=6, epochs=[3, 4])
    np.testing.assert_array_equal(
        found.losses,  # type: ignore[arg-type]
        table([[0.0, 0.9], [0.1, GAP], [GAP, 0.7], [GAP, GAP], [0.4, GAP], [math.inf, GAP]]),
    )
    np.testing.assert_array_equal(
        found.correct,  # type: ignore[arg-type]
        table([[1, 0], [1, GAP], [GAP, 1], [GAP, GAP], [0, GAP], [0, GAP]]),
    )
    assert found.nan.tolist() == [False] * 5 + [True]
    assert found.probabilities is None


def test_a_book_goes_on_from_its_bytes_and_forgets() -> None:
    book, again = Book(10), Book(10)
    for epoch in range(3):
        book.write(epoch, [epoch, 9], {LOSS: [1.0, 2.0]})
    again.unpack(book.packed())
    assert again.packed() == book.packed()
    again.forget(before=2)
    found = merged([again.packed()], n=10, epochs=[0, 1, 2])
    assert found.losses is not None
    assert np.argwhere(~np.isnan(found.losses)).tolist() == [[2, 2], [9, 2]]


def test_a_book_is_given_copies() -> None:
    values = np.array([1.0], dtype=np.float32)
    book = Book(2)
    book.write(0, [1], {LOSS: values})
    values[:] = 7
    found = merged([book.packed()], n=2, epochs=[0])
    assert found.losses is not None
    assert found.losses[1, 0] == 1.0


@pytest.mark.parametrize(
    ("ids", "values", "message"),
    [
        (
            [0, 3],
            [1.0, 2.0],
            "Ids of examples are whole numbers from 0 to 2; given were 0 to 3. The id of an example is its index in "
            "the data set.",
        ),
        ([0, 1], [1.0], "'loss' has the shape (1,), and there are 2 ids. Give a number for each."),
    ],
)
def test_a_book_takes_no_ids_but_those_of_the_data_set(ids: Any, values: Any, message: str) -> None:
    with pytest.raises(ResultError) as refused:
        Book(3).write(0, ids, {LOSS: values})
    assert str(refused.value) == message
