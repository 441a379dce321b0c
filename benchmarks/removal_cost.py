"""Plans the removal of every block of a model of 7 billion parameters, on tensors that hold no numbers."""

from __future__ import annotations

import re
import resource
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.common import Benchmark, Cell, Quantity, Result, Target

LLAMA: Final[dict[str, Any]] = {
    "vocab_size": 32_000, "hidden_size": 4_096, "intermediate_size": 11_008, "num_hidden_layers": 32,
    "num_attention_heads": 32, "max_position_embeddings": 4_096, "use_cache": False,
}  # fmt: skip
"""What the configuration of Llama with 7 billion parameters says."""
SMALL: Final[dict[str, Any]] = {
    **LLAMA, "vocab_size": 60, "hidden_size": 24, "intermediate_size": 36, "num_hidden_layers": 2,
    "num_attention_heads": 4,
}  # fmt: skip
LENGTH: Final = 11
BATCH: Final = 3
BLOCKS: Final = ("", ".self_attn", ".mlp")
HOUR_S: Final = 3_600.0
MIB: Final = 1024
"""Of what the kernel counts the largest resident set in."""


def cells(small: bool) -> Sequence[Cell]:
    return [Cell(f"étude {what}", {"small": small, "what": what}, limit_s=HOUR_S) for what in ("blocks", "parts")]


def work(args: Mapping[str, Any], place: Path) -> Result:
    import torch
    import transformers
    from torch._subclasses.fake_tensor import FakeTensorMode

    from etude.core.errors import RemovalRefused
    from etude.core.removal import Layers, Whole
    from etude.frameworks.removal.plan import Planner

    torch.set_num_threads(1)
    began = time.perf_counter()
    with FakeTensorMode():
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**(SMALL if args["small"] else LLAMA)))
        example = {"input_ids": torch.randint(0, 60, (BATCH, LENGTH))}
    built, computed = time.perf_counter(), time.process_time()
    paths = blocks(model) if args["what"] == "blocks" else parts(model)
    planner = Planner(model, example)
    traced = time.perf_counter()
    refused = {}
    took: dict[str, float] = {}
    for path in paths:
        since = time.process_time()
        try:
            planner.plan(Layers((Whole(path),)))
        except RemovalRefused as refusal:
            refused[path] = f"{refusal.code.value}: {refusal.why}"
        kind = re.sub(r"\d+", "N", path)
        took[kind] = took.get(kind, 0.0) + time.process_time() - since
    ended = time.perf_counter()
    computed = time.process_time() - computed
    return {
        "parameters": sum(parameter.numel() for parameter in model.parameters()) / 1e9,
        "plans": len(paths),
        "refused": len(refused),
        "build_s": built - began,
        "trace_s": traced - built,
        "plan_s": ended - built,
        "plan_cpu_s": computed,
        "each_s": (ended - traced) / len(paths),
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MIB**2,
        "details": {"refused": refused, "processor_s": {kind: round(s, 2) for kind, s in took.items()}},
    }


def blocks(model: Any) -> list[str]:
    """Return each layer of the transformer, its attention and its MLP."""
    return [f"model.layers.{nth}{block}" for nth in range(len(model.model.layers)) for block in BLOCKS]


def parts(model: Any) -> list[str]:
    """Return these, and all that has nothing in it."""
    return [*blocks(model), *(path for path, module in model.named_modules() if path and not any(module.children()))]


BENCHMARK = Benchmark(
    name="removal_cost",
    cells=cells,
    work=work,
    quantities=(
        Quantity("parameters", "billion", 2),
        Quantity("plans", "", 0),
        Quantity("refused", "", 0),
        Quantity("build_s", "s", 1),
        Quantity("trace_s", "s", 1),
        Quantity("plan_s", "s", 1),
        Quantity("plan_cpu_s", "s", 1),
        Quantity("each_s", "s", 3),
        Quantity("peak_gb", "GiB", 2),
    ),
    targets=(
        Target("plans of all blocks", "étude blocks: plan_s", 60, "s", at_least=False, worst=True),
        Target("memory, blocks", "étude blocks: peak_gb", 2, "GiB", at_least=False, worst=True),
        Target("plans of all parts", "étude parts: plan_s", 60, "s", at_least=False, worst=True),
        Target("memory, parts", "étude parts: peak_gb", 2, "GiB", at_least=False, worst=True),
    ),
    note=(
        "blocks: each of the 32 layers, its attention and its MLP. parts: these, and all that has nothing in it.\n"
        "plan_s holds tracing the model, which is done once, and all plans; plan_cpu_s is the same by the processor's\n"
        "clock; each_s is what one plan takes. build_s is the library's, and counts for none of them.\n"
        "A prototype took .92 s for a plan, and .36 GiB."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
