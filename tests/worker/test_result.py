"""Results: what counts as the metric, what else is kept, and what is refused with the mend."""

import math
from collections import OrderedDict
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from etude.core.errors import ResultError
from etude.core.events import How, Outcome
from etude.wire.messages import Ended, pack_outcome, unpack_outcome
from etude.worker.result import MAX_ELEMENTS, as_number, read_result

ONE_NUMBER = [
    0.5,
    np.float64(0.5),
    np.float32(0.5),
    np.array(0.5),
    np.array([0.5]),
    np.array([[0.5]]),
    torch.tensor(0.5),
    torch.tensor([0.5]),
    torch.tensor([[0.5]], requires_grad=True),
    torch.tensor(0.5, dtype=torch.bfloat16),
    Fraction(1, 2),
]


def read(returned: Any, **reported: float) -> tuple[float, dict[str, Any]]:
    return read_result(returned, metrics=["accuracy"], reported=reported)


def refusal(returned: Any, **reported: float) -> str:
    with pytest.raises(ResultError) as refused:
        read(returned, **reported)
    return str(refused.value)


@pytest.mark.parametrize("value", ONE_NUMBER, ids=repr)
def test_one_number_is_a_result_in_whatever_it_is_wrapped(value: Any) -> None:
    for returned in (value, {"accuracy": value}):
        number, extra = read(returned)
        assert (type(number), number, extra) == (float, 0.5, {})


@pytest.mark.parametrize("value", [True, 1, np.int64(1), np.bool_(True), torch.tensor(1), torch.tensor(True)], ids=repr)
def test_whole_numbers_and_truth_values_count_as_numbers(value: Any) -> None:
    assert read(value) == (1.0, {})


def test_nan_and_infinities_are_numbers() -> None:
    assert math.isnan(read(math.nan)[0])
    assert read({"accuracy": torch.tensor(-math.inf)}) == (-math.inf, {})


def test_nothing_returned_means_that_the_last_report_counts() -> None:
    assert read(None, accuracy=0.75, loss=0.1) == (0.75, {})


def test_nothing_returned_and_nothing_reported_is_refused() -> None:
    assert refusal(None) == (
        "The metric 'accuracy' never came: the training function returned nothing, and reported none. "
        "Return a number or {'accuracy': ...}, or call run.report(accuracy=...) at least once."
    )
    assert refusal(None, acuracy=0.5, loss=0.1) == (
        "The metric 'accuracy' never came: the training function returned nothing, and reported 'acuracy', 'loss'. "
        "Return a number or {'accuracy': ...}, or call run.report(accuracy=...) at least once."
    )


def test_a_dict_without_the_metric_is_refused() -> None:
    assert refusal({"loss": 0.1, "time": 3}, loss=0.1) == (
        "The metric 'accuracy' never came: the training function returned a dict with 'loss', 'time', and reported "
        "'loss'. Return a number or {'accuracy': ...}, or call run.report(accuracy=...) at least once."
    )
    assert refusal({}) == (
        "The metric 'accuracy' never came: the training function returned a dict with nothing, and reported none. "
        "Return a number or {'accuracy': ...}, or call run.report(accuracy=...) at least once."
    )


def test_of_several_metrics_none_comes_as_a_number() -> None:
    with pytest.raises(ResultError) as refused:
        read_result({"a": 0.5}, metrics=("a", "b"), reported={})
    assert str(refused.value) == (
        "The metric 'b' never came: the training function returned a dict with 'a', and reported none. "
        "Put 'b' into the dict: with several metrics, all of them belong there."
    )
    with pytest.raises(ResultError) as refused:
        read_result(None, metrics=("a", "b"), reported={"a": 0.5})
    assert str(refused.value) == (
        "The metric 'b' never came: the training function returned nothing, and reported 'a'. "
        "Return {'a': ..., 'b': ...}, or call run.report(b=...) at least once."
    )


def test_a_dict_without_the_metric_is_refused_also_if_it_was_reported() -> None:
    assert refusal({"acuracy": 0.9}, accuracy=0.5) == (
        "The training function returned a dict with 'acuracy', and not the metric 'accuracy', which it reported. "
        "Put 'accuracy' into the dict, or return nothing: then the last report counts."
    )


@pytest.mark.parametrize(
    ("value", "shown", "why"),
    [
        ("0.5", "'0.5' (str)", "text is no number"),
        (b"1", "b'1' (bytes)", "text is no number"),
        (np.ones(2), "array([1., 1.]) (ndarray)", "can only convert an array of size 1 to a Python scalar"),
        (torch.ones(2), "tensor([1., 1.]) (Tensor)", "a Tensor with 2 elements cannot be converted to Scalar"),
        ([0.5], "[0.5] (list)", "float() argument must be a string or a real number, not 'list'"),
        (1j, "1j (complex)", "float() argument must be a string or a real number, not 'complex'"),
        (10**400, "1000", "int too large to convert to float"),
    ],
    ids=["text", "bytes", "array", "tensor", "list", "complex", "too large"],
)
def test_what_is_no_single_number_is_refused(value: Any, shown: str, why: str) -> None:
    for returned in (value, {"accuracy": value}):
        message = refusal(returned)
        assert message.startswith(f"The training function returned {shown}")
        assert message.endswith(
            f" for the metric 'accuracy', which is no single number ({why}). Return a number, a dict with 'accuracy' "
            "in it, or nothing: then the last report counts."
        )


def test_none_for_the_metric_is_refused() -> None:
    assert refusal({"accuracy": None}, accuracy=0.5) == (
        "The training function returned None (NoneType) for the metric 'accuracy', which is no single number "
        "(float() argument must be a string or a real number, not 'NoneType'). Return a number, a dict with "
        "'accuracy' in it, or nothing: then the last report counts."
    )


def test_a_number_that_cannot_be_had_is_a_value_error_whatever_the_library_raises() -> None:
    with pytest.raises(ValueError, match="meta"):
        as_number(torch.ones(1, device="meta"))


def test_what_else_is_returned_is_kept_in_plain_values_that_survive_the_wire() -> None:
    returned = OrderedDict(
        accuracy=0.5,
        epochs=np.int32(3),
        rate=np.float64(0.1),
        half=np.float16(0.5),
        precise=np.longdouble(0.5),
        name=np.str_("a"),
        done=np.bool_(True),
        nothing=None,
        path=Path("/x/y"),
        matrix=np.arange(4).reshape(2, 2),
        weights=torch.ones(2, requires_grad=True),
        scalar=torch.tensor(7),
        history=[(1, 0.5), (2, {"loss": np.float32(0.25)})],
    )
    returned["no unicode \udcff"] = "\udcff"
    returned[3] = 2**64 - 1
    _, extra = read(returned)
    expected = {
        "epochs": 3,
        "rate": 0.1,
        "half": 0.5,
        "precise": 0.5,
        "name": "a",
        "done": True,
        "nothing": None,
        "path": "/x/y",
        "matrix": [[0, 1], [2, 3]],
        "weights": [1.0, 1.0],
        "scalar": 7,
        "history": [[1, 0.5], [2, {"loss": 0.25}]],
        "no unicode \\udcff": "\\udcff",
        "3": 2**64 - 1,
    }
    assert repr(extra) == repr(expected)  # so types count
    sent = Ended(0, 1, Outcome(How.FINISHED, value=0.5, extra=extra))
    assert repr(unpack_outcome(pack_outcome(sent))) == repr(sent)


def refused_extra(name: str, shown: str) -> str:
    return (
        f"The training function returned {name}={shown}, which cannot be kept with the trial. Kept are numbers, text, "
        "paths, arrays of up to 10,000 elements, and lists and dicts of these. Save anything else under run.folder "
        "and return its path."
    )


def test_an_object_is_refused_by_the_name_under_which_it_lies() -> None:
    assert refusal({"accuracy": 0.5, "info": {"when": [1, {2, 3}]}}) == refused_extra("info.when", "{2, 3} (set)")
    assert refusal({"accuracy": 0.5, "z": np.array([1j])}) == refused_extra("z", "1j (complex)")
    assert refusal({"accuracy": 0.5, "n": 2**64}) == refused_extra("n", "18446744073709551616 (int)")


def test_arrays_are_kept_up_to_a_size_and_no_further() -> None:
    _, extra = read({"accuracy": 0.5, "curve": np.zeros(MAX_ELEMENTS)})
    assert len(extra["curve"]) == MAX_ELEMENTS
    message = refusal({"accuracy": 0.5, "weights": torch.zeros(101, 100)})
    assert message.startswith("The training function returned weights=tensor([[0.")
    assert message.endswith(refused_extra("", "")[len("The training function returned =") :])


def test_many_small_things_nested_are_refused_as_one_large_one_is() -> None:
    fits = [[0] * 99] * 100
    assert read({"accuracy": 0.5, "rows": fits})[1] == {"rows": fits}
    assert refusal({"accuracy": 0.5, "rows": [[0] * 100] * 101}).startswith("The training function returned rows=[0, 0")
