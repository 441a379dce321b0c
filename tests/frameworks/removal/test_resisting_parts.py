"""Units and filters of all kinds of layers: what is left keeps its values, and nothing reads what is gone."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from repaired import assert_same, parts_planned, refusal, without, zeroed
from torch import nn

from etude.core.errors import RefusalCode, RemovalRefused
from etude.core.removal import Layers, Part
from etude.removing import remove

IMAGE = torch.randn(4, 3, 8, 8)


class Chain(nn.Module):
    """Layers one behind the other, and a mean over the image."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x).mean((2, 3))


def conv(n_in: int, n_out: int, size: int = 3, **more: Any) -> nn.Conv2d:
    return nn.Conv2d(n_in, n_out, size, **more)


def learned(net: nn.Module) -> nn.Module:
    """Give a model values that no new one has, also in what norms remember."""
    for tensor in (*net.parameters(), *net.buffers()):
        if tensor.is_floating_point():
            nn.init.uniform_(tensor, 0.2, 1.2)
    return net


FILTERS: dict[str, tuple[list[nn.Module], int, tuple[int, ...], int]] = {
    "plain": ([conv(3, 8), conv(8, 5)], 0, (0, 5), 1),
    "into groups": ([conv(3, 8), conv(8, 12, groups=2), conv(12, 5)], 0, (1, 6), -1),
    "of groups": ([conv(3, 8), conv(8, 12, groups=2), conv(12, 5)], 1, (0, 7), 2),
    "transposed": ([conv(3, 8), nn.ConvTranspose2d(8, 6, 2, 2), nn.BatchNorm2d(6), conv(6, 5)], 1, (0, 1), 3),
    "transposed of groups": ([conv(3, 8), nn.ConvTranspose2d(8, 6, 2, 2, groups=2), conv(6, 5)], 1, (0, 4), 2),
    "into transposed": ([conv(3, 8), nn.ConvTranspose2d(8, 6, 2, 2)], 0, (0, 4), 1),
    "into transposed of groups": ([conv(3, 8), nn.ConvTranspose2d(8, 6, 2, 2, groups=2)], 0, (0, 5), -1),
    "before a batch norm": ([conv(3, 8), nn.BatchNorm2d(8), nn.ReLU(), conv(8, 5)], 0, (2, 3), 3),
    "each for itself": ([conv(3, 8), conv(8, 8, groups=8), nn.ReLU(), conv(8, 5)], 1, (0, 2), 3),
}


@pytest.mark.parametrize("case", FILTERS.values(), ids=FILTERS)
def test_filters_go_with_all_that_reads_them(case: Any) -> None:
    layers, which, gone, reader = case
    net = learned(Chain(*layers))
    found = parts_planned(net, f"layers.{which}", "filters", gone, IMAGE)
    assert not found.rebuilt
    changed = without(net, found)
    if reader >= 0:
        turned = isinstance(net.layers[reader], nn.ConvTranspose2d)
        assert_same(changed, zeroed(net, f"layers.{reader}", list(gone), axis=0 if turned else 1), IMAGE)
    else:  # those who read them have groups: their own filters give 0
        expected = zeroed(net, f"layers.{which}", list(gone), axis=0)
        with torch.no_grad():
            expected.layers[which].bias[list(gone)] = 0
        assert_same(changed, expected, IMAGE)


def test_what_norms_remember_is_cut_with_their_channels() -> None:
    net = learned(Chain(conv(3, 8), nn.BatchNorm2d(8), conv(8, 5)))
    changed = without(net, parts_planned(net, "layers.0", "filters", (2, 3), IMAGE))
    kept = [0, 1, 4, 5, 6, 7]
    for name in ("running_mean", "running_var", "weight", "bias"):
        assert torch.equal(getattr(changed.layers[1], name), getattr(net.layers[1], name)[kept])
    assert torch.equal(changed.layers[1].num_batches_tracked, net.layers[1].num_batches_tracked)


def test_groups_lose_as_many_channels_each_and_the_counts_that_would_do_are_named() -> None:
    grouped = Chain(conv(3, 8), conv(8, 12, groups=2), conv(12, 5))
    why = refusal(grouped, Layers((Part("layers.1", "filters", (0, 1)),)), IMAGE)
    assert why.code is RefusalCode.DOES_NOT_FIT
    assert why.why == (
        "layers.1 has 2 groups of 6 channels, and as many must go of each group: 2, 4, 6, 8, ... in all."
    )
    assert str(why) == f"These filters of 'layers.1' cannot be taken out (does not fit): {why.why}"
    assert str(pickle.loads(pickle.dumps(why))) == str(why)
    normed = Chain(conv(3, 12), nn.GroupNorm(4, 12), conv(12, 5))
    for gone in ((0, 1), (0, 1, 2, 3)):  # the second leaves a number that four groups divide
        why = refusal(normed, Layers((Part("layers.0", "filters", gone),)), IMAGE)
        assert "layers.1 has 4 groups of 3 channels, and as many must go of each group: 4, 8 in all" in why.why
    found = parts_planned(normed, "layers.0", "filters", (0, 4, 8, 9), IMAGE)
    assert without(normed, found).layers[1].weight.shape == (8,)
    several = Chain(conv(3, 8), conv(8, 16, groups=8), conv(16, 5))
    why = refusal(several, Layers((Part("layers.0", "filters", (0,)),)), IMAGE)
    assert "layers.1 has 8 groups of 1 channel, and as many must go of each group: none can" in why.why


class Recurrent(nn.Module):
    """A recurrent layer whose results and last state are read."""

    def __init__(self, kind: Any, **options: Any) -> None:
        super().__init__()
        self.rnn = kind(5, 6, batch_first=True, **options)
        width = (options.get("proj_size") or 6) * (2 if options.get("bidirectional") else 1)
        self.head, self.last = nn.Linear(width, 3), nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, state = self.rnn(x)
        cell = state[1] if isinstance(state, tuple) else state
        return self.head(y).mean(1) + self.last(cell[-1])


RECURRENT: dict[str, tuple[Any, dict[str, Any]]] = {
    "rnn": (nn.RNN, {}),
    "lstm": (nn.LSTM, {}),
    "gru": (nn.GRU, {}),
    "two layers": (nn.LSTM, {"num_layers": 2}),
    "both ways": (nn.GRU, {"bidirectional": True, "num_layers": 2}),
    "no bias": (nn.GRU, {"bias": False}),
    "projected": (nn.LSTM, {"proj_size": 3, "num_layers": 2}),
}


@pytest.mark.parametrize("case", RECURRENT.values(), ids=RECURRENT)
def test_hidden_units_go_from_all_gates_and_from_all_that_reads_them(case: Any) -> None:
    kind, options = case
    net, x = Recurrent(kind, **options), torch.randn(4, 7, 5)
    gone, size = (1, 4), 6
    found = parts_planned(net, "rnn", "units", gone, x)
    assert not found.rebuilt
    assert found.changes[0] == "2 units of rnn removed"
    changed = without(net, found)
    assert changed.rnn.hidden_size == 4
    silent = net.eval()  # its next steps and its readers read nothing from those units
    with torch.no_grad():
        for name, weight in silent.rnn.named_parameters():
            hidden = name.startswith("weight_hr") or (name.startswith("weight_hh") and "proj_size" not in options)
            deep = name.startswith("weight_ih_l1") and "proj_size" not in options
            for block in range(weight.shape[1] // size if hidden or deep else 0):
                weight[:, [block * size + unit for unit in gone]] = 0
        readers = [silent.last] if "proj_size" in options else [silent.head, silent.last]
        for reader in readers:
            for block in range(reader.weight.shape[1] // size):
                reader.weight[:, [block * size + unit for unit in gone]] = 0
    assert_same(changed, silent, x)


@pytest.mark.parametrize("kind", [nn.RNNCell, nn.LSTMCell, nn.GRUCell])
def test_hidden_units_of_a_cell_go(kind: Any) -> None:
    class Steps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.head = kind(5, 6), nn.Linear(6, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            state = None
            for step in x.unbind(1):
                state = self.cell(step, state)
            return self.head(state[0] if isinstance(state, tuple) else state)

    net, x = Steps(), torch.randn(4, 7, 5)
    changed = without(net, parts_planned(net, "cell", "units", (0, 5), x))
    with torch.no_grad():
        for weight in (net.cell.weight_hh, net.head.weight):
            weight[:, [0, 5]] = 0
    assert_same(changed, net, x)


def test_columns_of_an_embedding_go_with_positions_and_all_that_reads_them() -> None:
    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(31, 12), nn.Parameter(torch.randn(1, 9, 12))
            self.head = nn.Linear(12, 3)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return self.head(torch.relu(self.words(tokens) + self.places))

    net, tokens = Words(), torch.randint(0, 31, (4, 9))
    found = parts_planned(net, "words", "units", (0, 7), tokens)
    assert found.changes == (
        *("2 units of words removed", "places cut 12->10", "head cut 12->10 inputs", "86 fewer parameters"),
    )
    assert_same(without(net, found), zeroed(net, "head", [0, 7]), tokens)


def test_components_count_units_of_embeddings_and_of_recurrent_layers() -> None:
    net = nn.Sequential(nn.Embedding(31, 12), nn.Linear(12, 4))
    assert remove(net, "units:0[-1]", torch.randint(0, 31, (4, 9))).model[1].weight.shape == (4, 11)
    assert remove(Recurrent(nn.GRU), "units:rnn[0:2]", torch.randn(4, 7, 5)).model.rnn.hidden_size == 4


class Placed(nn.Module):
    """Tokens and their places, which are a table without a module."""

    def __init__(self, take: Callable[[torch.Tensor, int], torch.Tensor]) -> None:
        super().__init__()
        self.take, self.pos = take, nn.Parameter(torch.randn(20, 12))
        self.tok, self.norm, self.mlp, self.out = (
            nn.Embedding(30, 12),
            nn.LayerNorm(12),
            nn.Linear(12, 12),
            nn.Linear(12, 3),
        )

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tok(ids) + self.take(self.pos, ids.shape[1])
        return self.out((x + self.mlp(self.norm(x))).mean(1))


TAKEN: dict[str, Callable[[torch.Tensor, int], torch.Tensor]] = {
    "first rows": lambda pos, n: pos[:n],
    "first rows and all columns": lambda pos, n: pos[:n, :],
    "with an axis for examples": lambda pos, n: pos[None, :n],
    "rows by number": lambda pos, n: pos[torch.arange(n)],
}


@pytest.mark.parametrize("take", TAKEN.values(), ids=TAKEN)
def test_units_go_from_a_table_of_which_rows_are_taken(take: Any) -> None:
    net, ids = Placed(take), torch.randint(0, 30, (5, 7))
    before = net.pos.detach().clone()
    removed = remove(net, "units:tok[0:4]", ids)
    assert "pos cut 12->8" in removed.changes
    assert "masked re-execution" in removed.checks or "re-execution" in removed.checks
    assert net.pos.equal(before[:, 4:])


def test_units_do_not_go_from_a_table_whose_columns_are_taken_in_another_order() -> None:
    def turned(pos: torch.Tensor, n: int) -> torch.Tensor:
        return pos[:n, torch.arange(11, -1, -1)]

    with pytest.raises(RemovalRefused, match="the width that __getitem__ gives cannot be changed"):
        remove(Placed(turned), "units:tok[0:4]", torch.randint(0, 30, (5, 7)))
