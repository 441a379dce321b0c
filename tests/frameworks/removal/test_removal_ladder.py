"""Which rung a component is taken out on: what joins it is asked before identity is, and shapes come last."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from nets import IMAGE, Dense, Owner, Plain, Residual, Stage, Tagger
from repaired import planned, refusal, without
from torch import nn

import etude
from etude.core.errors import RefusalCode
from etude.core.removal import Layers, Part, Whole
from etude.core.rungs import Rung
from etude.frameworks.removal.apply import apply
from etude.frameworks.removal.check import check
from etude.frameworks.removal.edits import StandIn
from etude.frameworks.removal.plan import plan


def test_a_branch_beside_the_identity_gives_nothing_and_not_x_plus_x() -> None:
    net, x = Residual().eval(), torch.randn(5, 4)
    found = planned(net, "branch", x)
    assert found.rung is Rung.NEUTRAL
    stem = net.stem(x)
    after = stem * net.gate(stem)
    after = after + net.second(torch.relu(net.first(after)))
    assert torch.equal(without(net, found)(x), net.head(after))
    assert found.idle == ("norm.bias", "norm.weight")  # it stands before a branch that is gone


def test_one_of_two_layers_of_a_branch_leaves_the_other() -> None:
    net, x = Residual().eval(), torch.randn(5, 4)
    found = planned(net, "second", x)
    assert found.rung is Rung.IDENTITY
    y = net.stem(x)
    y = y + net.branch(net.norm(y))
    y = y * net.gate(y)
    assert torch.equal(without(net, found)(x), net.head(y + torch.relu(net.first(y))))


def test_a_gate_gives_one() -> None:
    net, x = Residual().eval(), torch.randn(5, 4)
    found = planned(net, "gate", x)
    assert found.rung is Rung.NEUTRAL
    y = net.stem(x)
    y = y + net.branch(net.norm(y))
    assert torch.equal(without(net, found)(x), net.head(y + net.second(torch.relu(net.first(y)))))


def test_what_reads_a_removed_layer_is_rebuilt_and_all_else_keeps_its_values() -> None:
    net, x = Plain(), torch.randn(IMAGE)
    found = planned(net, "conv1", x)
    assert found.rung is Rung.SPLICE
    assert found.changes == ("conv1 removed", "relu1 kept", "conv2 rebuilt 8->3 inputs", "764 fewer parameters")
    assert found.rebuilt == ("conv2.weight",)
    changed = without(net, found)
    old, new = dict(net.named_parameters()), dict(changed.named_parameters())
    assert set(old) - set(new) == {"conv1.weight", "conv1.bias"}
    assert all(torch.equal(old[name], new[name]) for name in new if name != "conv2.weight")


def test_a_rebuilt_layer_draws_from_a_stream_of_its_own() -> None:
    net, x = Plain(), torch.randn(IMAGE)
    found = plan(net, Layers((Whole("conv1"),)), x)
    weights = []
    for seed in (1, 1, 2):
        changed = copy.deepcopy(net)
        torch.manual_seed(5)
        apply(changed, found, seed=seed)
        weights.append(changed.conv2.weight)
        assert float(torch.rand(())) == pytest.approx(float(torch.rand((), generator=torch.Generator().manual_seed(5))))
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_what_would_rebuild_too_much_keeps_its_widths() -> None:
    net, x = Plain().eval(), torch.randn(IMAGE)
    found = planned(net, "fc", x)  # head and big would have to be rebuilt: most of what is left
    assert found.rung is Rung.ADAPTER
    assert not found.rebuilt
    assert "its 80 channels averaged to 40" in found.changes[0]
    assert any("more than 20 % of what is left would have to be rebuilt" in note for note in found.notes)
    went_in: list[torch.Tensor] = []
    net.fc.register_forward_pre_hook(lambda layer, args: went_in.append(args[0]))
    net(x)
    came: list[torch.Tensor] = []
    changed = without(net, found)
    changed.fc.register_forward_hook(lambda layer, args, out: came.append(out))
    changed(x)
    torch.testing.assert_close(came[0], (went_in[0][:, ::2] + went_in[0][:, 1::2]) / 2)


def test_a_branch_of_a_concatenation_is_cut_out_of_all_that_reads_it() -> None:
    net, x = Dense().eval(), torch.randn(IMAGE)
    found = planned(net, "one", x)
    assert found.rung is Rung.SPLICE
    assert not found.rebuilt
    changed = without(net, found)
    assert torch.equal(changed.two.weight, net.two.weight[:, :5])
    kept = [*range(5), *range(9, 16)]
    assert torch.equal(changed.head.weight, net.head.weight[:, kept])
    assert torch.equal(changed.norm.running_mean, net.norm.running_mean[kept])


def test_a_width_goes_through_norms_and_depthwise_convolutions_to_what_it_is_added_to() -> None:
    net, x = Stage(), torch.randn(IMAGE)
    found = planned(net, "stem", x)
    assert found.rung is Rung.WIDTH
    cut = plan(net, Layers((Part("stem", "filters", (1, 4)),)), x)
    check(net, cut, x)
    assert cut.rung is Rung.WIDTH
    assert not cut.rebuilt
    changed = without(net, cut)
    kept = [0, 2, 3, 5]
    assert torch.equal(changed.stem.weight, net.stem.weight[kept])
    assert torch.equal(changed.depthwise.weight, net.depthwise.weight[kept])
    assert torch.equal(changed.conv.weight, net.conv.weight[kept][:, kept])
    columns = [k * 16 + n for k in kept for n in range(16)]
    assert torch.equal(changed.wide.weight, net.wide.weight[:, columns])


def test_units_are_cut_with_the_columns_that_read_them() -> None:
    net, x = Tagger(), torch.randint(0, 31, (4, 9))
    cut = plan(net, Layers((Part("middle", "units", tuple(range(16))),)), x)
    assert cut.changes == ("16 units of middle removed", "tags cut 40->24 inputs", "320 fewer parameters")
    check(net, cut, x)
    assert torch.equal(without(net, cut).tags.weight, net.tags.weight[:, 16:])


def test_a_recurrent_layer_is_spliced_out() -> None:
    net, x = Tagger(), torch.randint(0, 310, (4, 9))
    net.embed = nn.Embedding(310, 6)  # much that stays as it is
    found = planned(net, "lstm", x)
    assert found.rung is Rung.SPLICE
    changed = without(net, found)
    assert torch.equal(changed(x), changed.tags(torch.relu(changed.middle(net.embed(x)))))


def test_a_state_with_the_examples_second_does_not_mix_them() -> None:
    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gru = nn.GRU(5, 7, 2)
            self.head, self.big = nn.Linear(7, 3), nn.Linear(3, 60)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.big(self.head(self.gru(x.transpose(0, 1))[1][-1]))

    net, x = Last(), torch.randn(4, 9, 5)
    found = planned(net, "gru", x)
    assert found.rung is Rung.ADAPTER
    changed = without(net, found)
    moved = changed(torch.cat([x[:3], x[:1]])) - changed(x)
    torch.testing.assert_close(changed(x), changed.big(changed.head(x.mean(1))))  # its state is the mean of all times
    assert torch.equal(moved[:3], torch.zeros(3, 60))
    assert moved[3].abs().max() > 0


def test_an_adapter_reads_only_what_the_output_depended_on() -> None:
    class Rotary(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            angles = torch.arange(x.shape[1], dtype=x.dtype)[:, None] * torch.ones(x.shape[2])
            return angles.cos(), angles.sin()

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.rotary, self.head = nn.Linear(4, 6), Rotary(), nn.Linear(6, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.stem(x)
            cos, sin = self.rotary(x)
            return self.head(x * cos + x.flip(-1) * sin)

    net, x = Net().eval(), torch.randn(3, 5, 4)
    found = planned(net, "rotary", x)
    assert found.rung is Rung.NEUTRAL
    assert torch.equal(without(net, found)(x), net.head(net.stem(x)))  # no rotation: cosine 1, sine 0


def test_what_is_called_for_several_shapes_has_a_rule_for_each() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.pool = nn.Conv2d(3, 5, 3, padding=1), nn.MaxPool2d(2)
            self.head = nn.Linear(5, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.pool(self.conv(self.pool(x))).reshape(len(x), 5, 4).mean(2))

    found = planned(Twice(), "pool", torch.randn(IMAGE))
    assert found.rung is Rung.ADAPTER


def test_a_module_list_goes_with_all_that_is_in_it() -> None:
    class Listed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Linear(4, 6)
            self.layers = nn.ModuleList([nn.Linear(6, 6) for _ in range(3)])
            self.head = nn.Linear(6, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.stem(x)
            for layer in self.layers[:2]:
                x = torch.relu(layer(x))
            return self.head(x)

    net, x = Listed(), torch.randn(5, 4)
    found = planned(net, "layers", x)
    assert {name for name, _ in without(net, found).named_parameters()} == {
        *("stem.weight", "stem.bias", "head.weight", "head.bias")
    }


def test_a_list_of_stages_of_several_widths_goes() -> None:
    class Stages(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Conv2d(3, 5, 3, padding=1)
            stages = [nn.Conv2d(5, 6, 3, padding=1), nn.Conv2d(6, 9, 3, 2, 1), nn.Conv2d(9, 12, 3, 2, 1)]
            self.stages = nn.ModuleList(stages)
            self.head = nn.Linear(12, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.stem(x)
            for stage in self.stages:
                x = torch.relu(stage(x))
            return self.head(x.mean((2, 3)))

    net, x = Stages(), torch.randn(IMAGE)
    assert not [n for n, _ in without(net, planned(net, "stages", x)).named_parameters() if "stages" in n]


def test_an_auxiliary_head_that_is_there_in_training_alone_is_seen() -> None:
    class Auxiliary(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.aux, self.head = nn.Linear(4, 6), nn.Linear(6, 2), nn.Linear(6, 2)

        def forward(self, x: torch.Tensor) -> Any:
            x = torch.relu(self.stem(x))
            return (self.head(x), self.aux(x)) if self.training else self.head(x)

    net, x = Auxiliary(), torch.randn(5, 4)
    changed = without(net, planned(net, "aux", x, repair="learned"))
    assert [t.shape for t in changed.train()(x)] == [(5, 2), (5, 2)]


def test_an_auxiliary_head_is_cut_with_the_branch_that_it_reads() -> None:
    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(4, 5), nn.Linear(4, 7)
            self.aux, self.head = nn.Linear(12, 2), nn.Linear(12, 3)

        def forward(self, x: torch.Tensor) -> Any:
            both = torch.cat([self.one(x), self.two(x)], 1)
            return (self.head(both), self.aux(both)) if self.training else self.head(both)

    net, x = Branches(), torch.randn(5, 4)
    found = planned(net, "one", x)
    assert found.rung is Rung.SPLICE
    changed = without(net, found)
    assert torch.equal(changed.aux.weight, net.aux.weight[:, 5:])
    assert torch.equal(changed.head.weight, net.head.weight[:, 5:])


def test_dropout_is_removed_though_it_does_nothing_in_evaluation() -> None:
    net = nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.9), nn.Linear(6, 2))
    x = torch.randn(5, 4)
    found = planned(net, "1", x)
    assert found.rung is Rung.IDENTITY
    changed = without(net, found).train()
    assert torch.equal(changed(x), net.eval()(x))


def test_a_square_weight_that_is_used_without_a_call_becomes_the_identity() -> None:
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention, self.head = nn.MultiheadAttention(6, 2, batch_first=True), nn.Linear(6, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.attention(x, x, x)[0])

    net, x = Attention(), torch.randn(3, 5, 6)
    found = planned(net, "attention.out_proj", x)
    with torch.no_grad():
        net.attention.out_proj.weight.copy_(torch.eye(6))
        net.attention.out_proj.bias.zero_()
    torch.testing.assert_close(without(net, found)(x), net.eval()(x))
    assert not [n for n, _ in without(net, found).named_parameters() if "out_proj" in n]


def test_several_models_by_name_are_one_model() -> None:
    pair = {"g": nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 6)), "d": nn.Linear(6, 1)}
    found = plan(pair, Layers((Whole("g.1"),)), {"g": torch.randn(5, 3), "d": torch.randn(5, 6)})
    assert [edit.path for edit in found.edits if isinstance(edit, StandIn)] == ["g.1"]
    assert "g.1" in check(pair, found, {"g": torch.randn(5, 3), "d": torch.randn(5, 6)}) or found.rung is Rung.IDENTITY


def test_layers_that_are_taken_along_are_said() -> None:
    net, x = Plain(), torch.randn(IMAGE)
    found = plan(net, Layers((Whole("conv1"),), along=("relu1",)), x)
    assert found.changes[:2] == ("conv1 removed", "relu1 after it removed")
    assert [e.path for e in found.edits if isinstance(e, StandIn)] == ["relu1", "conv1"]


def test_two_layers_go_as_one_arm() -> None:
    net, x = Plain(), torch.randn(IMAGE)
    found = plan(net, Layers((Whole("conv1"), Whole("conv2"))), x)
    check(net, found, x)
    names = {name for name, _ in without(net, found).named_parameters()}
    assert not [name for name in names if name.startswith(("conv1", "conv2"))]


@pytest.mark.parametrize("component", ["layers:[0,2]", "layers:[0,1,2]"])
@pytest.mark.parametrize(
    ("width", "repair", "changes", "left"),
    [
        (24, "auto", "2 removed (what went in comes out, its 6 channels again from the first on, up to 24)", 50),
        (24, "learned", "2 removed (what went in is brought into shape by a learned dense layer)", 50 + 7 * 24),
        (6, "auto", "2 removed", 14),
        (6, "learned", "2 removed", 14),
    ],
)
def test_an_adapter_is_for_what_reaches_it_when_all_has_gone(
    component: str, width: int, repair: str, changes: str, left: int
) -> None:
    net = nn.Sequential(nn.Linear(6, 60), nn.ReLU(), nn.Linear(60, width), nn.Identity(), nn.Linear(width, 2))
    x = torch.rand(8, 6)
    removed = etude.remove(net, component, x, repair=repair)
    assert changes in removed.changes
    assert sum(one.numel() for one in net.parameters()) == removed.plan.after == left
    if repair == "auto":
        assert torch.equal(net[:3](x), x.repeat(1, 4)[:, :width])


def test_what_is_rebuilt_twice_is_named_once() -> None:
    layers = (nn.Linear(6, 6), nn.Linear(6, 60), nn.Linear(60, 24), nn.Linear(24, 300), nn.Linear(300, 300))
    removed = etude.remove(nn.Sequential(*layers), "layers:[1,2]", torch.rand(8, 6))
    assert removed.plan.rebuilt == ("3.weight",)


# --- refusals ---------------------------------------------------------------------------------------


def test_a_block_that_owns_what_others_use_is_refused_and_the_block_that_can_go_is_named() -> None:
    net, x = Owner(), torch.randn(5, 7, 4)
    why = refusal(net, Layers((Whole("blocks.0"),)), x)
    assert why.code is RefusalCode.OWNED_STATE
    assert why.instead == "blocks"
    assert str(why) == (
        "'blocks.0' cannot be taken out (owned state): besides its result it gives something of its own that other "
        "layers use. Take out 'blocks' instead, which contains it."
    )
    assert planned(net, "blocks.1", x).rung is Rung.IDENTITY


def test_an_embedding_of_tokens_is_refused_and_a_learned_adapter_offered() -> None:
    net, x = Tagger(), torch.randint(0, 31, (4, 9))
    why = refusal(net, Layers((Whole("embed"),)), x)
    assert why.code is RefusalCode.NO_PATH
    assert 'repair="learned"' in why.why
    found = plan(net, Layers((Whole("embed"),), repair="learned"), x)
    check(net, found, x)
    assert found.rung is Rung.LEARNED
    assert found.rebuilt == ("embed.adapter.weight", "embed.adapter.bias")


def test_what_is_not_there_what_is_everything_and_what_is_never_used() -> None:
    class Idle(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.idle = nn.Linear(4, 2), nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.used(x)

    x = torch.randn(5, 4)
    assert refusal(Idle(), Layers((Whole("conv9"),)), x).code is RefusalCode.NOT_FOUND
    assert refusal(Idle(), Layers((Whole(""),)), x).code is RefusalCode.EVERYTHING
    assert refusal(Idle(), Layers((Whole("idle"),)), x).code is RefusalCode.DEAD
    assert refusal(Idle(), Layers((Part("used", "units", (0, 1)),)), x).code is RefusalCode.EVERYTHING
    assert refusal(Idle(), Layers((Part("used", "filters", (0,)),)), x).code is RefusalCode.NOT_FOUND
    assert refusal(Idle(), Layers((Part("used", "units", (7,)),)), x).code is RefusalCode.NOT_FOUND


def test_indices_are_refused() -> None:
    class Routed(nn.Module):
        class Router(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return x.argmax(-1)

        def __init__(self) -> None:
            super().__init__()
            self.router, self.experts = self.Router(), nn.Parameter(torch.randn(4, 4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ self.experts[self.router(x)].T

    assert refusal(Routed(), Layers((Whole("router"),)), torch.randn(5, 4)).code is RefusalCode.NOT_FLOAT


def test_a_model_that_does_not_run_with_the_example_is_refused() -> None:
    why = refusal(nn.Linear(4, 2), Layers((Whole("x"),)), torch.randn(5, 3))
    assert why.code is RefusalCode.UNTRACEABLE
    assert "does not run with the example" in str(why)
