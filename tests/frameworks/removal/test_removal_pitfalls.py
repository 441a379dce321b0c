"""What went wrong at least once: shared calls, tied weights, masks, several inputs, values that decide, heads."""

from __future__ import annotations

import copy

import pytest
import torch
from repaired import planned, refusal, without
from torch import nn
from torch.nn import functional as F

from etude.core.errors import RefusalCode, RemovalRefused
from etude.core.removal import Layers, Part, Whole
from etude.core.rungs import Rung
from etude.frameworks.removal.check import check
from etude.frameworks.removal.edits import Fit, StandIn
from etude.frameworks.removal.plan import Planner, plan


def test_a_block_that_is_called_again_on_its_own_result_passes_it_on() -> None:
    class Again(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.block, self.head = nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(6, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.stem(x)
            for _ in range(3):
                x = torch.tanh(self.block(x))
            return self.head(x)

    net, x = Again().eval(), torch.randn(5, 4)
    found = planned(net, "block", x)
    assert found.rung is Rung.IDENTITY
    assert torch.equal(without(net, found)(x), net.head(net.stem(x).tanh().tanh().tanh()))


class Tied(nn.Module):
    """Its last layer has the weight of its first."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.wide, self.head = nn.Embedding(17, 6), nn.Linear(6, 6), nn.Linear(6, 17, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.wide(self.embed(tokens))))


def test_a_tied_weight_stays_with_its_other_owner() -> None:
    net, x = Tied(), torch.randint(0, 17, (4, 5))
    found = planned(net, "head", x, repair="learned")
    assert found.rung is Rung.LEARNED
    assert all("adapter" in name for name in found.rebuilt)  # the tied weight is not resized
    assert torch.equal(without(net, found).embed.weight, net.embed.weight)


def test_a_tied_weight_is_never_cut() -> None:
    with pytest.raises(RemovalRefused) as refused:
        plan(Tied(), Layers((Part("wide", "units", (0,)),)), torch.randint(0, 17, (4, 5)))
    assert refused.value.code is RefusalCode.TIED
    assert "head.weight is shared" in refused.value.why


def test_a_bias_of_an_attention_gives_nothing_also_behind_a_mask() -> None:
    class Biased(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mix, self.bias, self.head = nn.Linear(6, 6), nn.Embedding(9, 1), nn.Linear(6, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            n = x.shape[1]
            far = (torch.arange(n)[:, None] - torch.arange(n)[None]).clamp(-4, 4) + 4
            hidden = torch.ones(n, n, dtype=torch.bool).tril()
            bias = torch.where(hidden, self.bias(far).squeeze(-1), torch.tensor(-1e9))
            return self.head(F.scaled_dot_product_attention(x, self.mix(x), x, attn_mask=bias))

    net, x = Biased(), torch.randn(3, 7, 6)
    found = planned(net, "bias", x)
    assert found.rung is Rung.NEUTRAL
    flat = copy.deepcopy(net)
    nn.init.zeros_(flat.bias.weight)
    torch.testing.assert_close(without(net, found)(x), flat.eval()(x))


def test_inputs_are_added_up_where_one_would_have_no_effect_any_more() -> None:
    class Two(nn.Module):
        class Meet(nn.Module):
            def __init__(self, width: int) -> None:
                super().__init__()
                self.left, self.right = nn.Linear(6, 6), nn.Linear(width, 6)

            def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
                return torch.tanh(self.left(a)) + self.right(b)

        def __init__(self, width: int) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(4, 6), nn.Linear(5, width)
            self.meet, self.head = self.Meet(width), nn.Linear(6, 2)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return self.head(self.meet(self.a(x), self.b(y)))

    example = torch.randn(5, 4), torch.randn(5, 5)
    net = Two(6)
    found = planned(net, "meet", example)
    stand = found.edits[0]
    assert isinstance(stand, StandIn)
    rule = stand.calls[0].rules[0]
    assert isinstance(rule, Fit)
    assert [source.path for source in rule.sources] == [("a",), ("b",)]
    assert torch.equal(without(net, found)(*example), net.head(net.a(example[0]) + net.b(example[1])))
    wider = planned(Two(8), "meet", example)
    assert wider.rung is Rung.ADAPTER
    assert "its 8 channels averaged to 6" in str(wider)


def test_an_attention_through_which_all_content_comes_is_refused() -> None:
    class Latents(nn.Module):
        class Cross(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.key = nn.Linear(8, 6)

            def forward(self, latents: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
                k = self.key(x)
                return F.scaled_dot_product_attention(latents, k, k)

        def __init__(self) -> None:
            super().__init__()
            self.stem, self.latents = nn.Linear(4, 8), nn.Parameter(torch.randn(1, 5, 6))
            self.cross, self.head = self.Cross(), nn.Linear(6, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            latents = self.latents.expand(len(x), -1, -1)
            return self.head(latents + self.cross(latents, self.stem(x)))

    net, x = Latents(), torch.randn(3, 7, 4)
    refused = refusal(net, Layers((Whole("cross"),)), x)
    assert refused.code is RefusalCode.NO_PATH  # neither tokens nor latents have an order in which to average them
    assert "7 entries would be averaged that have no order" in refused.why


def test_what_an_attention_reads_besides_is_no_part_of_its_branch() -> None:
    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.embed = nn.Linear(4, 6), nn.Linear(5, 6)
            self.first = nn.MultiheadAttention(6, 2, batch_first=True)
            self.second = nn.MultiheadAttention(6, 2, batch_first=True)
            self.head = nn.Linear(6, 2)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            memory, y = self.encoder(x), self.embed(y)
            y = y + self.first(y, memory, memory)[0]
            return self.head(y + self.second(y, memory, memory)[0])

    net, example = Decoder().eval(), (torch.randn(3, 7, 4), torch.randn(3, 5, 5))
    found = planned(net, "first", example)  # identity would give y + y
    assert found.rung is Rung.NEUTRAL
    memory, y = net.encoder(example[0]), net.embed(example[1])
    torch.testing.assert_close(without(net, found)(*example), net.head(y + net.second(y, memory, memory)[0]))


def test_a_model_that_decides_by_a_value_is_planned_on_real_tensors_and_says_so() -> None:
    class Deciding(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.head = nn.Linear(4, 4), nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.stem(x)
            return self.head(x if float(x.detach().mean()) > 1e9 else x + 1)

    net, x = Deciding(), torch.randn(5, 4)
    state = {name: value.clone() for name, value in net.state_dict().items()}
    found = planned(net, "stem", x)
    assert not found.fake
    assert "planned on a real copy, since fake tensors do not do" in found.notes[0]
    assert all(torch.equal(value, state[name]) for name, value in net.state_dict().items())


def test_planning_draws_nothing_and_changes_nothing() -> None:
    net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Linear(6, 2), nn.Linear(2, 40)).eval()
    state = {name: value.clone() for name, value in net.state_dict().items()}
    torch.manual_seed(3)
    drawn = torch.get_rng_state()
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    check(net, plan(net, Layers((Whole("0"),)), x), x)
    assert torch.equal(torch.get_rng_state(), drawn)
    assert not net.training
    assert all(torch.equal(value, state[name]) for name, value in net.state_dict().items())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in net.modules())


def test_one_planner_makes_many_plans_and_each_is_the_same_as_alone() -> None:
    net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 2), nn.Linear(2, 40))
    x = torch.randn(5, 4)
    planner = Planner(net, x)
    for path in ("0", "1", "2", "3", "4"):
        assert planner.plan(Layers((Whole(path),))) == plan(net, Layers((Whole(path),)), x)


class Attention(nn.Module):
    """An attention with a projection each."""

    def __init__(self, heads: int, key_heads: int) -> None:
        super().__init__()
        self.num_heads, self.num_key_value_heads, self.head_dim = heads, key_heads, 5
        self.q_proj, self.o_proj = nn.Linear(6, heads * 5), nn.Linear(heads * 5, 6)
        self.k_proj, self.v_proj = nn.Linear(6, key_heads * 5), nn.Linear(6, key_heads * 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shape = (*x.shape[:-1], -1, self.head_dim)
        q, k, v = (p(x).view(shape).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        k, v = (t.repeat_interleave(self.num_heads // self.num_key_value_heads, dim=1) for t in (k, v))
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2)
        return self.o_proj(mixed.reshape(*x.shape[:-1], -1))


class Attending(nn.Module):
    def __init__(self, heads: int, key_heads: int) -> None:
        super().__init__()
        self.stem, self.attn, self.head = nn.Linear(4, 6), Attention(heads, key_heads), nn.Linear(6, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.attn(self.stem(x)))


def test_heads_are_cut_out_of_all_projections() -> None:
    net, x = Attending(4, 4).eval(), torch.randn(3, 7, 4)
    found = plan(net, Layers((Part("attn", "heads", (0, 3)),)), x)
    check(net, found, x)
    assert found.changes == ("2 heads of attn removed", "attn.o_proj cut 20->10 inputs", "270 fewer parameters")
    silent = copy.deepcopy(net)
    with torch.no_grad():
        silent.attn.o_proj.weight[:, [*range(5), *range(15, 20)]] = 0
    torch.testing.assert_close(without(net, found)(x), silent(x))


def test_a_key_goes_with_the_last_head_that_reads_it() -> None:
    net, x = Attending(4, 2), torch.randn(3, 7, 4)
    one = plan(net, Layers((Part("attn", "heads", (0,)),)), x)
    check(net, one, x)
    assert without(net, one).attn.k_proj.weight.shape == (10, 6)  # the other head of the group reads it
    found = plan(net, Layers((Part("attn", "heads", (0, 1)),)), x)
    check(net, found, x)
    assert without(net, found).attn.k_proj.weight.shape == (5, 6)


def test_what_has_no_heads_is_refused() -> None:
    with pytest.raises(RemovalRefused, match="has no heads that can be taken apart"):
        plan(Attending(4, 4), Layers((Part("stem", "heads", (0,)),)), torch.randn(3, 7, 4))


def test_a_weight_that_is_made_of_others_is_not_resized() -> None:
    net = nn.Sequential(nn.Linear(4, 7), nn.utils.parametrizations.weight_norm(nn.Linear(7, 3)), nn.Linear(3, 60))
    found = planned(net, "0", x := torch.randn(5, 4))
    assert found.rung is Rung.ADAPTER
    assert "its 4 channels again from the first on, up to 7" in found.changes[0]
    assert any("Take the parametrization off before" in note for note in found.notes)
    again = torch.cat([x, x[:, :3]], dim=1)
    torch.testing.assert_close(without(net, found)(x), net[2](net[1](again)))
