"""The judges of repaired models see what is wrong with them, and pass what is right."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from benchmarks import removal_zoo  # noqa: E402 - they need torch
from benchmarks.zoo import cards, contact, page, running  # noqa: E402
from benchmarks.zoo.counting import outcome  # noqa: E402
from benchmarks.zoo.depths import DEPTHS, compare_depth  # noqa: E402
from benchmarks.zoo.families import DEVELOPED, FAMILIES, SPLIT  # noqa: E402
from benchmarks.zoo.family import Family, call  # noqa: E402
from benchmarks.zoo.oracles import Judge, Repaired, influences, is_cut, run  # noqa: E402
from benchmarks.zoo.pairs import DEAD, EDGE, MUST, Pair, pairs  # noqa: E402
from benchmarks.zoo.removers import Refused, blind, cutting, hidden, mixing  # noqa: E402
from benchmarks.zoo.running import Lines, Task  # noqa: E402
from benchmarks.zoo.sums import behind, doubled_sums  # noqa: E402
from benchmarks.zoo.twins import TWINS, Attention, compare  # noqa: E402
from benchmarks.zoo.unseen import UNSEEN  # noqa: E402
from benchmarks.zoo.unseen_pictures import PICTURES  # noqa: E402
from benchmarks.zoo.unseen_records import RECORDS  # noqa: E402
from benchmarks.zoo.unseen_sequences import SEQUENCES  # noqa: E402
from benchmarks.zoo.unseen_torch import TORCH  # noqa: E402
from benchmarks.zoo.values import floats  # noqa: E402
from torch import Tensor, nn  # noqa: E402

PLAIN = ("cnn", "mixer", "lstm_tagger", "gcn", "wavenet", "shufflenet", "pointnet")
"""Families that need no further library, of every kind."""
OWN = (*PICTURES, *SEQUENCES, *RECORDS, *TORCH)
"""Unseen families that need none."""


class Small(nn.Module):
    """A part of each class."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(30, 8)
        self.norm = nn.LayerNorm(8)
        self.attention = Attention(8)
        self.by_hand = nn.Linear(8, 8)
        self.never = nn.Linear(8, 8)
        self.dropout = nn.Dropout(0.5)
        self.head = nn.Linear(8, 5)
        self.out = self.head

    def forward(self, words: Tensor) -> Any:
        x = self.words(words)
        x = x + self.attention(self.norm(x))
        x = x @ self.by_hand.weight
        return self.head(nn.functional.dropout(x, self.dropout.p, self.training))


SMALL = Family("small", "text", Small, lambda batch: (torch.randint(0, 30, (batch, 7)),))


def the(path: str, family: Family = SMALL) -> Pair:
    return next(pair for pair in pairs(family) if pair.path == path)


def oracles(remove: Any, path: str, family: Family = SMALL, changes: tuple[str, ...] = ()) -> set[str]:
    """Return which oracles find a fault."""
    repaired, _ = remove(family.build(), path, family.example())
    found = Judge(family).faults(Repaired(repaired.model, changes, repaired.rung), path)
    return {fault.oracle for fault in found}


class Zero(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x)


def putting(module: Callable[[], nn.Module]) -> Any:
    def remove(model: nn.Module, path: str, inputs: Any) -> tuple[Repaired, int]:
        parent, _, name = path.rpartition(".")
        setattr(model.get_submodule(parent), name, module())
        return Repaired(model, rung=1), 1

    return remove


def neutral(model: nn.Module, path: str, inputs: Any) -> tuple[Repaired, int]:
    return Repaired(putting(Zero)(model, path, inputs)[0].model, rung=2), 2


def test_there_are_as_many_families_as_the_benchmark_says():
    assert len(FAMILIES) == len(DEVELOPED) + len(UNSEEN)  # no name stands for two
    assert len(DEVELOPED) >= 220
    assert len(UNSEEN) >= 30
    assert Counter(SPLIT.values()) == {"developed": len(DEVELOPED), "unseen": len(UNSEEN)}


def test_no_unseen_family_draws_in_evaluation():
    drawn = []
    for family in OWN:
        model, inputs = family.build(), family.example()
        before = torch.get_rng_state()
        with torch.no_grad():
            found = floats(call(model, inputs))
        if not torch.equal(before, torch.get_rng_state()) or not all(one.isfinite().all() for one in found.values()):
            drawn.append(family.name)
    assert drawn == []


def test_no_oracle_finds_a_fault_in_an_untouched_unseen_model():
    for family in OWN[::5]:
        assert [str(fault) for fault in Judge(family).faults(Repaired(family.build()), "nowhere")] == []


def test_an_unseen_family_has_parts_that_must_run():
    found = {family.name: Counter(pair.part for pair in pairs(family, 6)) for family in OWN[4::7]}
    assert {name for name, parts in found.items() if not parts[MUST]} == set()
    assert {name for name, parts in found.items() if parts.total() != 6} == set()


def test_the_first_contact_is_the_commit_that_is_kept_for_a_digest_or_this_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(contact, "MET", {"c0ffee": "a1"})
    assert contact.first_contact("c0ffee", "b2") == "a1"
    assert contact.first_contact("0ddba11", "b2") == "b2"
    assert page.contact("c0ffee", "b2") == (
        "The unseen families have the digest `c0ffee`. They were first measured at commit a1, "
        "and this is a later result."
    )
    assert page.contact("0ddba11", "b2").endswith("They were first measured at commit b2, with this result.")


@pytest.mark.parametrize("name", PLAIN)
def test_a_family_gives_equal_models_and_inputs_of_any_batch(name: str):
    family = FAMILIES[name]
    one, other = family.build(), family.build()
    assert all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True))
    assert torch.equal(call(one, family.example()), call(other, family.example()))
    assert call(one, family.example(5)).shape[0] == (17 if name == "gcn" else 5)


def test_classes_of_parts():
    found = {pair.path: pair for pair in pairs(SMALL)}
    assert {path: (pair.part, pair.why) for path, pair in found.items()} == {
        "words": (EDGE, "integers"),
        "norm": (MUST, ""),
        "attention": (MUST, ""),
        "attention.qkv": (MUST, ""),
        "attention.out": (MUST, ""),
        "by_hand": (MUST, ""),  # never called, and its weight is used
        "never": (DEAD, "never used"),
        "dropout": (MUST, ""),  # never called, and its p is read
        "head": (EDGE, "head"),
    }


def test_a_wrapper_is_an_edge():
    family = Family("wrapped", "", lambda: nn.Sequential(nn.Sequential(nn.Linear(7, 9), nn.Linear(9, 9)), nn.PReLU()),
                    lambda batch: (torch.randn(batch, 7),))  # fmt: skip
    assert {pair.path: pair.why for pair in pairs(family)} == {"0": "wrapper", "0.0": "", "0.1": "", "1": ""}


def test_a_list_of_embeddings_is_an_edge_although_it_is_never_called():
    class Columns(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.each = nn.ModuleList(nn.Embedding(9, 6) for _ in range(2))
            self.head = nn.Linear(6, 40)

        def forward(self, x: Tensor) -> Any:
            return self.head(self.each[0](x[:, 0]) + self.each[1](x[:, 1]))

    family = Family("columns", "", Columns, lambda batch: (torch.randint(0, 9, (batch, 2)),))
    assert {pair.path: pair.why for pair in pairs(family)} == {
        "each": "integers",
        "each.0": "integers",
        "each.1": "integers",
        "head": "head",
    }


def test_a_bag_of_embeddings_is_an_edge_although_it_reads_weights_beside_the_words():
    class Bags(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bag = nn.EmbeddingBag(30, 8, mode="sum")
            self.gate = nn.Bilinear(8, 7, 8)
            self.head = nn.Linear(8, 5)

        def forward(self, words: Tensor, weights: Tensor) -> Any:
            x = self.bag(words, per_sample_weights=weights)
            return self.head(x + self.gate(x, weights))

    family = Family("bags", "", Bags, lambda batch: (torch.randint(0, 30, (batch, 7)), torch.rand(batch, 7)))
    assert {pair.path: pair.why for pair in pairs(family)} == {"bag": "integers", "gate": "", "head": "head"}


def test_what_is_hard_and_why():
    assert {pair.path: pair.blind for pair in pairs(SMALL) if pair.hard} == {
        "words": "raises",
        "attention": "doubled",
        "attention.qkv": "raises",
        "by_hand": "raises",
        "dropout": "raises",
        "head": "shape",
    }


def test_a_smaller_number_of_pairs_is_the_same_for_everybody():
    assert pairs(SMALL, 3) == [pair for pair in pairs(SMALL) if pair in pairs(SMALL, 3)]
    assert len(pairs(SMALL, 3)) == 3


def test_a_sum_of_a_thing_with_what_was_made_of_it_alone_is_doubled():
    x = torch.randn(2, 6)
    for branch, doubles in (
        (nn.Identity(), True),
        (nn.Sequential(nn.LayerNorm(6), nn.ReLU()), True),
        (nn.Linear(6, 6), False),
        (Zero(), False),
    ):
        net = nn.ModuleDict({"stem": nn.Linear(6, 6), "branch": branch})
        net.forward = lambda x, net=net: (y := net["stem"](x)) + net["branch"](y)
        assert bool(doubled_sums(net, (x,))) is doubles


@pytest.mark.parametrize(
    ("add", "doubles"),
    [
        (lambda y: y.unbind(1)[0] + y.unbind(1)[1], False),
        (lambda y: y.unbind(1)[1] + y.unbind(1)[1].relu(), True),
        (lambda y: y.unbind(1)[0] + (y.unbind(1)[0] + y.unbind(1)[1]), True),
        (lambda y: y.chunk(2, 2)[0] + y.chunk(2, 2)[1], True),
    ],
)
def test_steps_of_a_sequence_are_different_things(add: Callable[[Tensor], Tensor], doubles: bool):
    net = nn.ModuleDict({"stem": nn.Linear(6, 6)})
    net.forward = lambda x: add(net["stem"](x))
    assert bool(doubled_sums(net, (torch.randn(2, 3, 6),))) is doubles


def test_a_product_with_what_another_layer_gives_is_no_doubled_summand():
    def gated(net: Any, x: Tensor) -> Any:
        y = net["stem"](x)
        return y + y * net["gate"](y)

    def normed(net: Any, x: Tensor) -> Any:
        y = net["stem"](x)
        return y + net["gate"].weight[0] * (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True)))

    for forward, doubles in ((gated, False), (normed, True)):
        net = nn.ModuleDict({"stem": nn.Linear(6, 6), "gate": nn.Linear(6, 6)})
        net.forward = lambda x, net=net, forward=forward: forward(net, x)
        assert bool(doubled_sums(net, (torch.randn(2, 6),))) is doubles


class Normed(nn.Module):
    """Norms before and behind what is added."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.head = nn.Linear(7, 8), nn.Linear(8, 5)
        self.before, self.behind = nn.LayerNorm(8), nn.RMSNorm(8)
        self.one, self.two, self.three = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Any:
        x = self.stem(x)
        x = x + self.behind(self.one(x))
        x = x + self.two(self.before(x))
        return self.head(x + self.three(x))


def test_a_norm_behind_the_part_stays_in_its_branch_and_one_before_it_is_no_branch():
    family = Family("normed", "", Normed, lambda batch: (torch.randn(batch, 7),))
    assert "sums" not in oracles(blind, "one", family)
    assert behind(family.build(), "one", family.example()) == {"behind.weight"}
    assert behind(family.build(), "two", family.example()) == set()
    assert "sums" in oracles(blind, "two", family)
    assert "sums" in oracles(blind, "three", family)
    assert "sums" in oracles(blind, "three", family, ("three removed",))


class Remembers(nn.Module):
    """Keeps what it gave last."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(7, 7), nn.Linear(7, 11)
        self.last: Any = None

    def forward(self, x: Tensor) -> Any:
        self.last = self.one(x)
        return self.two(x + torch.tanh(self.last))


def test_a_model_that_remembers_its_last_call_is_judged_too():
    family = Family("remembers", "", Remembers, lambda batch: (torch.randn(batch, 7),))
    assert {pair.path: pair.blind for pair in pairs(family)} == {"one": "doubled", "two": "shape"}
    assert oracles(blind, "one", family) == {"sums"}


def test_a_right_repair_passes_every_oracle():
    assert oracles(neutral, "attention", changes=("no longer reached: norm",)) == set()
    assert oracles(blind, "norm") == set()


@pytest.mark.parametrize(
    ("remove", "path", "found"),
    [
        (hidden, "attention", {"gone", "effect"}),
        (blind, "attention", {"sums"}),
        (blind, "head", {"outputs", "other batch"}),
        (mixing, "norm", {"independent"}),
        (putting(Zero), "attention", {"gradients"}),  # the norm before it has no reader, and nobody says so
        (putting(lambda: nn.LayerNorm(8)), "norm", {"gone"}),
    ],
)
def test_an_oracle_sees(remove: Any, path: str, found: set[str]):
    assert found <= oracles(remove, path)


def test_what_is_called_identity_and_is_none_is_seen():
    assert oracles(putting(Zero), "norm") >= {"identity"}
    assert "identity" not in oracles(putting(nn.Identity), "norm")


def test_a_cut_gradient_is_seen():
    family = FAMILIES["cnn"]
    assert oracles(cutting, "pool", family) >= {"gradients"}


def test_only_what_led_to_the_part_alone_may_be_no_longer_reached():
    """Telling of it excuses neither what was cut off by mistake, nor what is reached."""
    told = ("no longer reached: norm.weight, norm.bias", "no longer reached: words")
    assert oracles(neutral, "attention", changes=told) == {"gradients"}
    cut = Family("cut", "", Cut, lambda batch: (torch.randn(batch, 7),))
    assert oracles(cutting, "act", cut, ("no longer reached: low",)) == set()
    assert oracles(cutting, "act", cut, ("no longer reached: low, high",)) == {"gradients"}
    assert oracles(cutting, "act", cut, ("low rebuilt",)) == {"gradients"}


class Cut(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.low, self.act, self.high = nn.Linear(7, 9), nn.Tanh(), nn.Linear(9, 11)

    def forward(self, x: Tensor) -> Any:
        return self.high(self.act(self.low(x)))


def test_nodes_of_graphs_that_do_not_touch_stay_apart():
    family = FAMILIES["gcn"]
    judge = Judge(family)
    assert {(one, other) for _, one, other in judge.tied if (one < 6) != (other < 6)} == set()
    assert oracles(mixing, "dropout", family) >= {"independent"}


class Largest(nn.Module):
    """All examples of a batch are scaled by what is largest in it, a little."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share, self.low, self.high = share, nn.Linear(7, 7), nn.Linear(7, 11)
        nn.init.zeros_(self.low.weight)
        nn.init.zeros_(self.low.bias)

    def forward(self, x: Tensor) -> Any:
        y = self.low(x)
        return self.high(y / (1 + self.share * y.abs().max()))


@pytest.mark.parametrize(
    ("share", "remove", "seen"), [(3e-4, blind, False), (3e-4, mixing, True), (0.0, mixing, True), (0.0, blind, False)]
)
def test_a_repair_is_not_blamed_for_what_examples_had_to_do_with_each_other(share: float, remove: Any, seen: bool):
    """Which example is the largest changes with the weights; what it does to the others was there before."""
    family = Family("largest", "", lambda: Largest(share), lambda batch: (torch.randn(batch, 7),))
    judge = Judge(family)
    assert judge.tied == set()  # in single precision it is too little to be seen
    assert bool(judge.mixed) is bool(share)
    if share and remove is blind:
        repaired, _ = remove(family.build(), "low", family.example())
        assert influences(repaired.model, family, floats(run(repaired.model, family.example())))
    assert ("independent" in oracles(remove, "low", family)) is seen


def test_changed_weights_are_seen_unless_they_are_told():
    def retrain(model: nn.Module, path: str, inputs: Any) -> tuple[Repaired, int]:
        repaired, rung = blind(model, path, inputs)
        with torch.no_grad():
            repaired.model.get_parameter("head.bias").add_(1)
        return Repaired(repaired.model), rung

    assert oracles(retrain, "norm") == {"kept"}
    assert oracles(retrain, "norm", changes=("norm removed", "out rebuilt 9->8 inputs")) == set()


class Held(nn.Module):
    """A layer whose weight is made of others."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.utils.parametrizations.weight_norm(nn.Linear(6, 6))
        self.head = nn.Linear(6, 5)

    def forward(self, x: Tensor) -> Any:
        return self.head(torch.relu(self.first(x)))


HELD = Family("held", "table", Held, lambda batch: (torch.randn(batch, 6),))
TOLD = "first.parametrizations.weight removed (first.weight keeps its value)"


@pytest.mark.parametrize(
    ("scale", "changes", "found"),
    [(1.0, (TOLD,), set()), (1.0, (), {"kept"}), (1.5, (TOLD,), {"kept"})],
)
def test_a_weight_that_was_made_may_stay_as_it_was_if_that_is_told(
    scale: float, changes: tuple[str, ...], found: set[str]
) -> None:
    def remove(model: Any, path: str, inputs: Any) -> tuple[Repaired, int]:
        nn.utils.parametrize.remove_parametrizations(model.first, "weight")
        with torch.no_grad():
            model.first.weight.mul_(scale)
        return Repaired(model), 2

    assert oracles(remove, "first.parametrizations", HELD, changes) == found
    assert "gone" in oracles(hidden, "first.parametrizations", HELD, (TOLD,))


def test_more_than_a_fifth_built_anew_is_seen_even_if_it_is_told():
    def rebuild(model: nn.Module, path: str, inputs: Any) -> tuple[Repaired, int]:
        repaired, rung = blind(model, path, inputs)
        with torch.no_grad():
            repaired.model.get_parameter("words.weight").mul_(2)
        return Repaired(repaired.model), rung

    assert oracles(rebuild, "norm", changes=("words rebuilt",)) == {"kept"}


def test_columns_that_are_cut_are_not_built_anew() -> None:
    whole = torch.arange(12.0).reshape(3, 4)
    assert is_cut(whole[:, [0, 2, 3]], whole)
    assert is_cut(whole[1:], whole)
    assert not is_cut(whole[:, [0, 2, 3]] + 1, whole)
    assert not is_cut(whole[:, [2, 0]], whole)
    assert not is_cut(whole.new_zeros(3, 5), whole)


@pytest.mark.parametrize(
    ("name", "told"),
    [("a.conv", True), ("a.conv.weight", True), ("conv.weight", False), ("a.conv1.weight", False), ("b.bias", False)],
)
def test_what_is_told_is_told_by_its_whole_name(name: str, told: bool):
    assert Repaired(nn.Identity(), ("a.conv rebuilt 8->4 inputs", "b kept")).tells(name) is told


def test_pairs_are_counted_strictly():
    def refuse(model: nn.Module, path: str, inputs: Any) -> Any:
        raise Refused("no path", "nothing is left", "attention")

    def fail(model: nn.Module, path: str, inputs: Any) -> Any:
        raise ZeroDivisionError("oh")

    judge = Judge(SMALL)
    for remove, path, outcomes in (
        (blind, "norm", ("ran", "", 1)),
        (blind, "attention", ("wrong", "sums", 1)),
        (refuse, "norm", ("refused", "no path", 0)),
        (fail, "norm", ("raised", "ZeroDivisionError", 0)),
    ):
        found = outcome(SMALL, the(path), remove, judge)
        assert (found.outcome, found.code, found.rung) == outcomes


def test_a_pair_that_takes_too_long_is_late(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("benchmarks.zoo.counting.PAIR_LIMIT_S", 0.01)

    def spin(model: nn.Module, path: str, inputs: Any) -> Any:
        for _ in itertools.count():
            pass

    assert outcome(SMALL, the("norm"), spin, Judge(SMALL)).outcome == "late"


def test_no_twin_is_met_by_identity():
    rungs = Counter(twin.rung for twin in TWINS)
    assert len(TWINS) == len({twin.name for twin in TWINS}) >= 20
    assert min(rungs[rung] for rung in (2, 3, 4, 5)) >= 4
    assert {compare(twin, blind).outcome for twin in TWINS} == {"differs"}


def test_a_twin_is_met_by_the_repair_that_a_person_means():
    twin = next(twin for twin in TWINS if twin.name == "skip round an MLP")
    assert compare(twin, putting(Zero)).outcome == "equal"


def test_a_deeper_repair_is_another_one_and_not_wrong():
    twin = next(twin for twin in TWINS if twin.name == "a layer in a chain")

    def adapt(model: nn.Module, path: str, inputs: Any) -> tuple[Repaired, int]:
        return putting(lambda: nn.AdaptiveAvgPool1d(9))(model, path, inputs)[0], 5

    assert compare(twin, adapt).outcome == "deeper"


def test_a_layer_fewer_by_configuration_is_met_by_identity_in_its_place():
    assert len({depth.family for depth in DEPTHS}) >= 12
    depth = next(depth for depth in DEPTHS if depth.family == "mixer")
    assert compare_depth(depth, blind).outcome == "equal"
    assert "differs by" in compare_depth(depth, putting(Zero)).told


def pair(part: str, hard: bool, outcome: str, **more: Any) -> dict[str, Any]:
    known = {"family": "f", "path": "a", "type": "Linear", "part": part, "hard": hard, "outcome": outcome}
    times = {"seconds": 0.5, "judged_s": 0.25}
    return {**known, **times, "blind": "raises" if hard else "runs", "rung": 0, "code": "", "told": [""], **more}


def test_shares_are_of_live_pairs_and_a_refusal_does_not_run():
    found = removal_zoo.shares([
        pair(MUST, False, "ran", rung=1), pair(MUST, True, "ran", rung=3), pair(MUST, True, "refused", code="tied"),
        pair(MUST, True, "wrong", blind="doubled"), pair(EDGE, True, "died"), pair(DEAD, False, "refused"),
    ])  # fmt: skip
    assert found == {
        "live": 5, "wrong": 1, "all %": 40.0, "must run %": 50.0, "hard %": 100 / 3, "edge %": 0.0, "refused %": 20.0,
        "no answer %": 20.0, "identity runs %": 40.0, "identity doubles %": 20.0, "rung 1": 1, "rung 3": 1,
    }  # fmt: skip


def test_totals_are_over_all_families_and_tell_the_least_of_those_with_many_pairs():
    many = [pair(MUST, False, "ran", rung=1)] * 18 + [pair(MUST, False, "refused", code="tied")] * 6
    few = [pair(MUST, False, "wrong", told=["sums: twice"])]
    found = removal_zoo.totals({
        "étude developed a": {"details": {"pairs": many}},
        "étude unseen b": {"details": {"pairs": few}},
        "étude twins": {"details": {}},
    })  # fmt: skip
    assert set(found) == {f"étude {which}: all families" for which in ("developed", "unseen", "everywhere")}
    everywhere = found["étude everywhere: all families"]
    assert everywhere["families"] == 2
    assert everywhere["live"] == 25
    assert (everywhere["seconds"], everywhere["judged_s"]) == (0.5, 0.25)
    assert everywhere["least of a family %"] == 75
    assert everywhere["details"]["codes"] == {"tied": 6}
    assert everywhere["details"]["wrong"] == ["f a: sums: twice"]


def test_a_run_that_was_broken_off_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    taken: list[str] = []
    lines = Lines(tmp_path / "pairs.jsonl", {"commit": "a"})
    lines.add({"listed": "cnn", "pairs": [asdict(one) for one in pairs(FAMILIES["cnn"], 3)]})
    first, second, third = lines.pairs("cnn") or ()
    lines.add({"family": "cnn", "path": second["path"], "outcome": "ran"})
    with (tmp_path / "pairs.jsonl").open("a") as file:
        file.write('{"family": "cnn", "pa')  # it was broken off while it wrote
    lines = Lines(tmp_path / "pairs.jsonl", {"commit": "a"})
    assert [one["path"] for one in lines.left(Task("cnn", 3)) or ()] == [first["path"], third["path"]]

    def remove(model: nn.Module, path: str, inputs: Any) -> Any:
        taken.append(path)
        raise Refused("no path", "nothing is left")

    monkeypatch.setattr("benchmarks.zoo.removers.etude_remove", remove)
    running._count(Task("cnn", 3), lines)
    assert taken == [first["path"], third["path"]]
    assert lines.is_done(Task("cnn", 3))
    with pytest.raises(SystemExit, match="another with --into"):
        Lines(tmp_path / "pairs.jsonl", {"commit": "b"})


def test_a_pair_that_takes_the_process_along_is_one_without_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    lines, tasks = Lines(tmp_path / "pairs.jsonl", {}), [Task("cnn", 3), Task("twins", 1)]
    listed = [asdict(one) for one in pairs(FAMILIES["cnn"], 3)]

    def do(task: Task, lines: Lines) -> None:
        if task.name == "twins":
            lines.add({"compared": "twins", "outcome": "equal"})
            return
        if lines.pairs("cnn") is None:
            lines.add({"listed": "cnn", "pairs": listed})
        for left in lines.left(task) or ():
            if left["path"] == listed[1]["path"]:
                os._exit(9)
            lines.add({"family": "cnn", "path": left["path"], "outcome": "ran"})

    monkeypatch.setattr(running, "_do", do)
    monkeypatch.setattr(running, "_warm_up", lambda: None)
    running.run(tasks, lines, jobs=2)
    found = {line["path"]: line["outcome"] for line in lines.found("cnn")}
    assert found == {listed[0]["path"]: "ran", listed[1]["path"]: "died", listed[2]["path"]: "ran"}
    assert "code 9" in next(line["code"] for line in lines.found("cnn") if line["outcome"] == "died")


def test_there_is_a_table_by_family_and_one_of_what_is_wrong():
    ran, wrong = pair(MUST, True, "ran", rung=3), pair(MUST, True, "wrong", told=["sums: twice"])
    found = {"étude unseen f": {"details": {"pairs": [ran, wrong]}}}
    rows = {**removal_zoo.totals(found), "étude unseen f": {"details": removal_zoo.told_shortly([ran, wrong])}}
    by_family, faults = removal_zoo.tables({name: [one] for name, one in rows.items()})
    assert by_family[1][:8] == ("f", "unseen", "2", "1", "1/2", "1/2", "0", "1")
    assert faults[1:] == [("f a: sums: twice",)]


def test_the_page_shows_families_codes_faults_and_what_was_before():
    from benchmarks.page import pages

    ran, refused = pair(MUST, True, "ran", rung=3), pair(MUST, True, "refused", code="tied")
    found = {"étude unseen f": {"details": {"pairs": [ran, refused, pair(EDGE, True, "wrong", told=["sums: twice"])]}}}
    totals = removal_zoo.totals(found)
    details = {name: row["details"] for name, row in totals.items()}
    details["étude unseen f"] = removal_zoo.told_shortly(found["étude unseen f"]["details"]["pairs"])
    details["étude unseen: all families"]["unseen families"] = "c0ffee"
    machine = {"cores": 2, "cpu": "a cpu", "python": "3.11"}
    line = {"benchmark": "removal_zoo", "commit": "c", "changed": False, "machine": machine, "rows": [], "targets": []}
    text = pages([{**line, "details": details}])["removal"]
    assert "| f | unseen | 3 | 1 | 1/2 | 1/2 | 1 | 1 | 0 |  |  | 1 |  |  |  |" in text
    assert "| tied | 1 |" in text
    assert "- f a: sums: twice" in text
    assert "`c0ffee`" in text
    assert "433 live" in text


def test_cards_are_drawn_from_accepted_repairs_the_same_for_a_seed():
    found = [pair(MUST, False, "ran", path=str(k)) for k in range(30)] + [pair(MUST, False, "refused", path="no")]
    drawn = cards.draw(found, 9, 4)
    assert len({one["path"] for one in drawn}) == 9
    assert cards.draw(found[::-1], 9, 4) == drawn
    assert cards.draw(found, 9, 5) != drawn
    with pytest.raises(SystemExit, match="Only 30 repairs were accepted; 31 cannot be drawn"):
        cards.draw(found, 31, 4)


def test_a_card_has_what_a_person_needs():
    def remove(model: nn.Module, path: str, inputs: Any) -> tuple[Repaired, int]:
        repaired, rung = blind(model, path, inputs)
        return Repaired(repaired.model, ("gone", "40 fewer parameters"), rung), rung

    text = cards.card(pair(MUST, True, "ran", family="mixer", path="blocks.1.tokens", type="Sequential"), remove)
    assert "component   layer:blocks.1.tokens  (Sequential, must run, hard)" in text
    assert "changes     gone\n            40 fewer parameters" in text
    assert "x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)" in text
    assert "# blocks.1: MixerBlock" in text
    assert "-blocks.1.tokens: Sequential()\n+blocks.1.tokens: Identity()" in text
    assert "reads [(3, 20, 16)], gives [(3, 20, 16)]" in text
    assert "moved by" in text
    assert "6,613 before, 6,267 after; 346 in the component" in text
