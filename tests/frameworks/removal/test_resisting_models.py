"""Models that resist: each gives the model that a person would write, or a refusal whose words name the mend."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from repaired import assert_same, planned, refusal, without
from torch import nn
from torch.nn import functional as F

from etude.core.errors import RefusalCode, RemovalRefused
from etude.core.removal import Layers, Part, Whole
from etude.core.rungs import Rung
from etude.removing import remove

X = torch.randn(4, 7, 5)


def chain(*layers: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(5, 6), *layers, nn.Linear(6, 3))


# --- weights that are made of others, or not there yet --------------------------------------------------

PARAMETRIZED: dict[str, Callable[[nn.Module], nn.Module]] = {
    "weight norm": nn.utils.parametrizations.weight_norm,
    "spectral norm": nn.utils.parametrizations.spectral_norm,
    "orthogonal": nn.utils.parametrizations.orthogonal,
}


@pytest.mark.parametrize("parametrized", PARAMETRIZED.values(), ids=PARAMETRIZED)
def test_a_parametrized_layer_goes_as_a_whole_and_is_not_cut(parametrized: Any) -> None:
    net = chain(parametrized(nn.Linear(6, 6)), nn.Tanh())
    assert_same(without(net, planned(net, "1", X)), nn.Sequential(net[0], net[2], net[3]), X)
    for part in (Part("1", "units", (0,)), Part("0", "units", (0,))):  # its own, and those that it reads
        why = refusal(net, Layers((part,)), X)
        assert why.code is RefusalCode.WITHOUT_CALL
        assert "1.weight is made of other parameters. Take the parametrization off before" in why.why


@pytest.mark.parametrize("name", ["weight_norm", "spectral_norm"])
@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
def test_weights_that_old_hooks_make_are_refused_and_the_new_way_is_named(name: str) -> None:
    net = chain(getattr(nn.utils, name)(nn.Linear(6, 6)))
    why = refusal(net, Layers((Whole("0"),)), X)
    assert why.code is RefusalCode.UNTRACEABLE
    assert f"Use torch.nn.utils.parametrizations.{name} instead" in why.why


def test_lazy_layers_take_their_sizes_from_the_example() -> None:
    net = nn.Sequential(nn.LazyLinear(6), nn.LazyBatchNorm1d(), nn.ReLU(), nn.LazyLinear(3))
    why = refusal(net, Layers((Whole("2"),)), X[:, 0])
    assert "has no sizes yet. Call the model once with an example before" in why.why
    remove(net, "layer:2", X[:, 0])
    assert net.training
    assert torch.equal(net[1].running_mean, torch.zeros(6))  # nothing was learned from the example
    assert_same(net, nn.Sequential(net[0], net[1], net[3]), X[:, 0])


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_what_covers_a_model_is_refused_and_the_mend_is_named() -> None:
    inner = chain(nn.Tanh())
    compiled = chain(nn.Tanh())
    compiled.compile()
    quantised = torch.ao.quantization.quantize_dynamic(chain(nn.Tanh()))
    cases: list[tuple[Any, str, str]] = [
        (nn.DataParallel(inner), "module.1", "wrapped in DataParallel. Take the component out of its .module"),
        (torch.compile(inner), "_orig_mod.1", "it is compiled. Take the component out of its ._orig_mod"),
        (nn.Sequential(torch.compile(inner)), "0._orig_mod.1", "it is compiled. Take the component out of"),
        (compiled, "1", "it is compiled. Take the component out first, and call .compile() afterwards"),
        (quantised, "1", "is quantised. Take the component out first"),
        (
            chain(nn.Tanh()).to("meta"),
            "1",
            "0.weight is on the meta device, and the example is not. Build the model on",
        ),
        (torch.jit.script(inner), "1", "it is a script of torch.jit. Take the component out of the module"),
    ]
    for net, path, words in cases:
        why = refusal(net, Layers((Whole(path),)), X)
        assert why.code is RefusalCode.UNTRACEABLE
        assert words in why.why


WRAPPERS = {
    "DistributedDataParallel": ("torch.nn.parallel.distributed", "it is wrapped in DistributedDataParallel. Take the"),
    "FullyShardedDataParallel": ("torch.distributed.fsdp", "it is wrapped in FullyShardedDataParallel. Take the"),
    "FSDPModule": ("torch.distributed.fsdp", "it is sharded by fully_shard. Take the component out first"),
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_a_model_of_several_ranks_is_refused_and_what_to_do_is_named(name: str) -> None:
    class Wrapper(nn.Module):  # the real ones want several processes
        def __init__(self, module: nn.Module) -> None:
            super().__init__()
            self.module = module

    place, words = WRAPPERS[name]
    like = type(name, (Wrapper,), {"__module__": place})
    assert words in refusal(like(chain()), Layers((Whole("module.0"),)), X).why


# --- parameters without a layer -------------------------------------------------------------------------


def test_units_of_an_embedding_that_is_also_the_head_are_refused() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.mix, self.head = nn.Embedding(17, 6), nn.Linear(6, 6), nn.Linear(6, 17, bias=False)
            self.head.weight = self.words.weight

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            x = self.words(tokens)
            return self.head(x + self.mix(x))

    net, tokens = Tied(), torch.randint(0, 17, (4, 9))
    why = refusal(net, Layers((Part("words", "units", (0,)),)), tokens)
    assert why.code is RefusalCode.TIED
    assert "is shared" in why.why
    changed = without(net, planned(net, "mix", tokens))
    assert changed.head.weight is changed.words.weight
    assert torch.equal(changed(tokens), net.head(net.words(tokens)))


class Bare(nn.Module):
    """Parameters that no layer has: by themselves, in a list, in a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.mix, self.head = nn.Linear(5, 6), nn.Linear(6, 6), nn.Linear(6, 3)
        self.scale = nn.Parameter(torch.rand(6) + 0.5)
        self.shifts = nn.ParameterList([torch.randn(6), torch.randn(6)])
        self.weights = nn.ParameterDict({"left": torch.randn(6, 6), "right": torch.randn(6, 6)})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x) * self.scale
        for shift in self.shifts:
            x = torch.tanh(self.mix(x) + shift)
        return self.head(x @ self.weights["left"] + x @ self.weights["right"])


def test_bare_parameters_stay_and_are_cut_with_the_units_that_they_meet() -> None:
    net = Bare()
    found = planned(net, "mix", X)
    assert found.rung is Rung.IDENTITY
    x = net.stem(X) * net.scale
    x = torch.tanh(torch.tanh(x + net.shifts[0]) + net.shifts[1])
    expected = net.head(x @ net.weights["left"] + x @ net.weights["right"])
    torch.testing.assert_close(without(net, found)(X), expected)


@pytest.mark.parametrize("path", ["shifts", "weights"])
def test_a_list_of_parameters_is_refused_and_its_owner_named(path: str) -> None:
    net = nn.Sequential(nn.Linear(5, 5), Bare(), nn.Linear(3, 3))
    why = refusal(net, Layers((Whole(f"1.{path}"),)), X)
    assert why.code is RefusalCode.WITHOUT_CALL
    assert "its parameters are used without calling it" in why.why
    assert why.instead == "1"


# --- modules with ways of their own ---------------------------------------------------------------------


def test_a_module_that_looks_after_its_attributes_keeps_them() -> None:
    class Watchful(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.notes: dict[str, Any] = {}
            self.stem, self.mix, self.head = nn.Linear(5, 6), nn.Linear(6, 6), nn.Linear(6, 3)

        def __setattr__(self, name: str, value: Any) -> None:
            if "notes" in self.__dict__:
                self.notes[name] = type(value).__name__
            super().__setattr__(name, value)

        def __getattr__(self, name: str) -> Any:
            if name.startswith("its_"):
                return super().__getattr__(name.removeprefix("its_"))
            return super().__getattr__(name)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.its_head(torch.tanh(self.its_mix(self.its_stem(x))))

    net = Watchful()
    changed = without(net, planned(net, "mix", X))
    torch.testing.assert_close(changed(X), net.head(torch.tanh(net.stem(X))))
    assert changed.notes.keys() - {"training"} == net.notes.keys()  # nothing was set that it would have noted


def test_a_sequential_that_indexes_itself_finds_its_layers_where_they_were() -> None:
    class Indexed(nn.Sequential):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self[0](x)
            return self[-1](self[2](x + self[1](x)))

    net = Indexed(nn.Linear(5, 6), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 3))
    changed = without(net, planned(net, "1", X))
    assert len(changed) == 4
    torch.testing.assert_close(changed(X), net[3](net[2](net[0](X))))


def test_two_lists_that_are_walked_together_stay_in_step() -> None:
    class Zipped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.head = nn.Linear(5, 6), nn.Linear(6, 3)
            self.layers = nn.ModuleList([nn.Linear(6, 6) for _ in range(3)])
            self.norms = nn.ModuleList([nn.LayerNorm(6) for _ in range(3)])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.stem(x)
            for layer, norm in zip(self.layers, self.norms, strict=True):
                x = norm(torch.tanh(layer(x)))
            return self.head(x)

    net = Zipped()
    changed = without(net, planned(net, "layers.1", X))
    x = net.norms[0](torch.tanh(net.layers[0](net.stem(X))))
    x = net.norms[2](torch.tanh(net.layers[2](net.norms[1](torch.tanh(x)))))
    torch.testing.assert_close(changed(X), net.head(x))


def test_a_module_that_has_two_names_goes_from_both_places() -> None:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.one, self.head = nn.Linear(5, 6), nn.Linear(6, 6), nn.Linear(6, 3)
            self.two = self.one

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(torch.tanh(self.two(torch.tanh(self.one(self.stem(x))))))

    net = Shared()
    for path in ("one", "two"):
        changed = without(net, planned(net, path, X))
        torch.testing.assert_close(changed(X), net.head(torch.tanh(torch.tanh(net.stem(X)))))
        assert not [name for name, _ in changed.named_parameters() if name.startswith(("one", "two"))]


def test_a_rate_that_is_read_of_a_removed_dropout_is_still_read() -> None:
    class Functional(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.p = 0.4
            self.stem, self.mix, self.head = nn.Linear(5, 6), nn.Linear(6, 6), nn.Linear(6, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(F.dropout(self.mix(self.stem(x)), self.p, self.training))

    net = Functional()
    changed = without(net, planned(net, "mix", X))
    twin = copy.deepcopy(net)
    twin.mix = nn.Identity()
    assert_same(changed, twin, X)
    torch.manual_seed(3)
    one = changed.train()(X)
    torch.manual_seed(3)
    torch.testing.assert_close(one, twin.train()(X))


# --- what goes in and what comes out --------------------------------------------------------------------


@dataclass
class Scores:
    logits: torch.Tensor
    hidden: torch.Tensor
    note: str = "scores"


class Rich(nn.Module):
    """Its block takes keyword arguments alone, and gives a dataclass, as it does itself."""

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mix, self.more = nn.Linear(6, 6), nn.Linear(6, 6)

        def forward(self, *, states: torch.Tensor, scale: float = 1.0) -> Scores:
            return Scores(torch.tanh(self.mix(states)) * scale, self.more(states))

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.block, self.head = nn.Linear(5, 6), self.Block(), nn.Linear(6, 3)

    def forward(self, *, inputs: dict[str, torch.Tensor]) -> Scores:
        states = self.stem(inputs["x"])
        found = self.block(states=states, scale=0.5)
        return Scores(self.head(found.logits), found.hidden)


@pytest.mark.parametrize("path", ["block.mix", "block.more", "block"])
def test_dicts_go_in_keywords_alone_and_dataclasses_come_out(path: str) -> None:
    net, example = Rich().eval(), {"inputs": {"x": X}}
    changed = without(net, planned(net, path, example))
    given, states = changed(**example), net.stem(X)
    assert type(given) is Scores
    if path == "block":
        assert type(changed.block(states=states)) is Scores
    logits = {"block": states, "block.mix": torch.tanh(states) * 0.5}.get(path, torch.tanh(net.block.mix(states)) * 0.5)
    hidden = net.block.more(states) if path == "block.mix" else states
    torch.testing.assert_close(given.logits, net.head(logits))
    torch.testing.assert_close(given.hidden, hidden)


# --- types and devices ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_models_in_other_precisions_keep_it(dtype: torch.dtype) -> None:
    net = chain(nn.Linear(6, 6), nn.Tanh()).to(dtype)
    untouched = copy.deepcopy(net)
    x = X.to(dtype)
    remove(net, "layer:1", x)
    remove(net, "units:0[0:2]", x)
    assert {p.dtype for p in net.parameters()} == {dtype}
    assert torch.equal(net[0].weight, untouched[0].weight[2:])
    assert net(x).dtype == dtype
    untouched[1] = nn.Identity()
    with torch.no_grad():
        untouched[3].weight[:, :2] = 0
    assert_same(net, untouched, x)


def test_a_refusal_leaves_the_model_as_it_was() -> None:
    net = chain(nn.utils.parametrizations.weight_norm(nn.Linear(6, 6)))
    state = {name: value.clone() for name, value in net.state_dict().items()}
    with pytest.raises(RemovalRefused):
        remove(net, "units:0[0]", X)
    assert all(torch.equal(value, state[name]) for name, value in net.state_dict().items())
    assert type(net[0]) is nn.Linear
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in net.modules())


class Remembering(nn.Module):
    """Keeps what it gave last, as recurrent models of Hugging Face do."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.head = nn.Linear(6, 6), nn.LayerNorm(6), nn.Linear(6, 2)
        self.last: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.last = self.norm(self.first(x))
        return self.head(self.last)


def test_a_model_that_has_run_and_keeps_what_it_gave_is_taken_apart_all_the_same() -> None:
    torch.manual_seed(0)
    net, x = Remembering(), torch.randn(4, 6)
    net(x)
    removed = remove(net, "layer:norm", x)
    assert "re-execution" in removed.checks
    torch.testing.assert_close(removed.model.eval()(x), net.head(net.first(x)))


class Frozen(nn.Module):
    """What stands before the head is not trained, as an encoder that was taken from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.head = nn.Linear(5, 5), nn.Linear(5, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            h = self.encoder(x)
        return self.head(h)


def test_what_would_leave_nothing_to_train_is_refused() -> None:
    torch.manual_seed(0)
    with pytest.raises(RemovalRefused, match="nothing that learns reaches what it gives any more"):
        remove(Frozen(), "layer:head", X)
    assert remove(Frozen(), "layer:encoder", X).rung is Rung.IDENTITY
