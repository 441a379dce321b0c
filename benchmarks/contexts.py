"""One function for each framework, unedited, in every verb on every engine: what is green, and why the rest is not."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.common import Benchmark, Cell, Quantity, Result, Target
from benchmarks.engines import kept_apart
from benchmarks.writing import paragraph, table

SCRIPTS: Final = {
    "torch": "torch_digits",
    "Keras on torch": "keras_digits",
    "Keras on TensorFlow": "keras_digits",
    "scikit-learn": "sklearn_digits",
    "numpy": "numpy_digits",
}
BACKENDS: Final = {"Keras on torch": "torch", "Keras on TensorFlow": "tensorflow"}
ENGINES: Final = {"local": "etude", "ray": "ray", "spark": "pyspark"}
"""Engine -> what has to be there for it."""

PARTS: Final = {
    "torch": ["layer:1", "momentum"],
    "Keras on torch": ["layer:relu", "momentum"],
    "Keras on TensorFlow": ["layer:relu", "momentum"],
    "scikit-learn": ["average"],
    "numpy": ["centred"],
}
"""What an ablation takes away."""

ALONE: Final = "a plain call is in the process that makes it; no engine is asked"
VIRTUAL: Final = "simulated workers take the place of the engine"
NO_MODULE: Final = "weights are loaded into modules of torch and models of Keras alone; others go on by run.keep"
NO_GRADIENTS: Final = "nothing averages what ranks of it learn"
REFUSED: Final[Mapping[tuple[str, str], tuple[str, str]]] = {
    ("Keras on TensorFlow", "2-rank fit"): ("gradients of TensorFlow are not averaged by us", "torch"),
    ("Keras on TensorFlow", "importance"): ("gradients of TensorFlow are not averaged by us", "torch"),
    ("Keras on torch", "importance"): ("Keras' fit computes its loss where the criterion does not see it", "criterion"),
    ("scikit-learn", "2-rank fit"): (NO_GRADIENTS, "torch"),
    ("scikit-learn", "importance"): (NO_GRADIENTS, "torch"),
    ("numpy", "2-rank fit"): (NO_GRADIENTS, "torch"),
    ("numpy", "importance"): (NO_GRADIENTS, "torch"),
    ("scikit-learn", "from trial weights"): (NO_MODULE, "are loaded into those alone"),
    ("numpy", "from trial weights"): (NO_MODULE, "are loaded into those alone"),
}
"""What cannot be: why, and a word of the error that says so; the cell is only right if that comes."""


@dataclass
class Here:
    """Where a cell is.

    Attributes:
        framework: Whose script it is.
        engine: Who starts workers.
        script: The script, loaded from its file.
        place: An empty folder.
    """

    framework: str
    engine: str
    script: Any
    place: Path

    @property
    def experiment(self) -> Any:
        """The script's three functions, as they are."""
        import etude

        one = self.script
        return etude.Experiment(one.train, model=one.model, data=one.data, metric="accuracy", mode="max")

    def tune(self, **given: Any) -> Any:
        """Search for a learning rate."""
        import etude

        options = {"trials": 3, "workers": 2, "sampler": "random", "stopper": "none", "engine": self.engine, **given}
        return self.experiment.tune({"lr": etude.loguniform(1e-2, 0.5)}, **options)


def plain(here: Here) -> None:
    found = here.experiment.run(lr=0.1)
    assert found is None or 0 < found["accuracy"] <= 1


def tuned(here: Here) -> None:
    _whole(here.tune(name="tuned"), 3)


def ablated(here: Here) -> None:
    found = here.experiment.ablate(
        PARTS[here.framework], at={"lr": 0.1}, seeds=2, force=True, workers=2, engine=here.engine, name="ablated"
    )
    _whole(found, 2 * (1 + len(PARTS[here.framework])))
    assert len(found.arms) == 1 + len(PARTS[here.framework])


def on_two_ranks(here: Here) -> None:
    _whole(here.experiment.fit(at={"lr": 0.1}, ranks=2, engine=here.engine, name="ranks"), 1)


def by_importance(here: Here) -> None:
    import etude

    partition = etude.partitions.Stripes(warmup=1, interval=1, ignore=0)
    found = here.experiment.fit(
        at={"lr": 0.1, "epochs": 3}, ranks=2, partition=partition, engine=here.engine, name="importance"
    )
    _whole(found, 1)


def from_weights(here: Here) -> None:
    search = here.tune(name="searched")
    found = here.experiment.fit(at=search.best, weights=search.best.weights, engine=here.engine, name="from-weights")
    _whole(found, 1)
    assert found.trials[0].start


def on_a_tuned_machine(here: Here) -> None:
    found = here.tune(name="machines", system=True, trials=2)
    _whole(found, 2)
    assert found.machines.uses


def simulated(here: Here) -> None:
    import etude

    def curve(params: Mapping[str, Any], seed: int) -> Iterator[tuple[float, dict[str, float]]]:
        yield 60.0, {"accuracy": 1 - params["lr"]}

    found = here.tune(name="simulated", engine=etude.Simulated(curves=curve, workers=8), trials=20, workers=None)
    _whole(found, 20)
    assert found.simulated


def in_a_notebook(here: Here) -> None:
    """Have a kernel define the functions in a cell, from the script's own text, and search in another."""
    import nbformat
    from nbclient import NotebookClient

    text = Path(here.script.__file__).read_text(encoding="utf-8")
    search = (
        "import etude\n"
        "experiment = etude.Experiment(train, model=model, data=data, metric='accuracy', mode='max')\n"
        "search = experiment.tune({'lr': etude.loguniform(1e-2, 0.5)}, trials=2, workers=2, sampler='random',\n"
        "                         stopper='none', name='notebook')\n"
        "print(search.counts())"
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in (text, search)])
    notebook.metadata.kernelspec = {"name": "python3", "language": "python", "display_name": "python3"}
    with _environment(ETUDE_ENGINE=here.engine):
        NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(here.place)}}).execute()
    told = "".join(one.get("text", "") for one in notebook.cells[-1].outputs)
    assert "{'finished': 2}" in told, told


CONTEXTS: Final[Mapping[str, Callable[[Here], None]]] = {
    "plain": plain,
    "notebook": in_a_notebook,
    "tune": tuned,
    "ablate": ablated,
    "2-rank fit": on_two_ranks,
    "importance": by_importance,
    "from trial weights": from_weights,
    "system tuning": on_a_tuned_machine,
    "simulated": simulated,
}


def cells(small: bool) -> Sequence[Cell]:
    there = [engine for engine, module in ENGINES.items() if importlib.util.find_spec(module) is not None]
    frameworks = [name for name in SCRIPTS if name not in BACKENDS or _has_backend(BACKENDS[name])]
    if small:
        frameworks = ["numpy"]
    return [
        Cell(f"étude, {framework} on {engine}", {"framework": framework, "engine": engine}, limit_s=1800.0)
        for framework in frameworks
        for engine in there[: 1 if small else None]
    ]


def _has_backend(name: str) -> bool:
    return all(importlib.util.find_spec(one) is not None for one in ("keras", name))


def work(args: Mapping[str, Any], place: Path) -> Result:
    framework, engine = args["framework"], args["engine"]
    if framework in BACKENDS:
        os.environ["KERAS_BACKEND"] = BACKENDS[framework]
    sys.path.insert(0, str(Path(__file__).parent / "scripts"))  # as a script of the user's, and no part of a package
    with kept_apart():
        here = Here(framework, engine, importlib.import_module(SCRIPTS[framework]), place)
        found = {context: _tried(context, run, here) for context, run in CONTEXTS.items()}
    green = sum(one == GREEN for one in found.values())
    wrong = {context: one for context, one in found.items() if one.startswith(WRONG)}
    return {
        "framework": framework,
        "engine": engine,
        "green": green,
        "wrong": len(wrong),
        "details": found,
        "recorded": _recorded(place),
    }


def _recorded(place: Path) -> list[str]:
    """Return the digests of the training function as the studies of a cell recorded it: one, if it was one function."""
    import etude
    from etude.results.finding import studies_in

    sources = [etude.open(folder).meta["definition"]["function train"] for folder in studies_in(place / "studies")]
    return sorted({hashlib.sha256(source.encode()).hexdigest()[:16] for source in sources})


def totals(found: Mapping[str, Result]) -> Mapping[str, Result]:
    """Return for each framework how many functions its studies on all engines recorded."""
    recorded: dict[str, set[str]] = {}
    for one in found.values():
        recorded.setdefault(one["framework"], set()).update(one["recorded"])
    return {f"étude, {framework}": {"functions": len(digests)} for framework, digests in recorded.items()}


GREEN: Final = "green"
NOT: Final = "n/a: "
WRONG: Final = "WRONG: "


def _tried(context: str, run: Callable[[Here], None], here: Here) -> str:
    """Return what came of a cell: that it is green, why it cannot be, or what is wrong."""
    if here.engine != "local" and context == "plain":
        return NOT + ALONE
    if here.engine != "local" and context == "simulated":
        return NOT + VIRTUAL
    before = _digest(here)
    why, word = REFUSED.get((here.framework, context), ("", ""))
    try:
        run(here)
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        return NOT + why if why and word in told else WRONG + told.splitlines()[0][:300]
    if why:
        return f"{WRONG}it went well, though {why}"
    return GREEN if _digest(here) == before else f"{WRONG}the source is another"


def _digest(here: Here) -> str:
    return hashlib.sha256(Path(here.script.__file__).read_bytes()).hexdigest()[:16]


def _whole(found: Any, trials: int) -> None:
    assert found.counts() == {"finished": trials}, f"{found.counts()}: {[one.reason for one in found.trials][:2]}"


@contextlib.contextmanager
def _environment(**values: str) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def matrix(found: Mapping[str, Mapping[str, str]]) -> Sequence[Sequence[Sequence[str]]]:
    """Return the cells as a table, and below it why some cannot be."""
    reasons: dict[str, int] = {}
    rows: list[list[str]] = [["", *CONTEXTS]]
    for name, cell in found.items():
        shown = [
            one if (one := cell[context]) == GREEN else str(reasons.setdefault(one, len(reasons) + 1))
            for context in CONTEXTS
        ]
        rows.append([name, *shown])
    notes = [["", ""], *([str(number), reason] for reason, number in reasons.items())]
    return [rows, notes] if reasons else [rows]


def beside(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the cells as a page shows them."""
    cells, *reasons = matrix(result["details"])
    yield paragraph("Each cell; a number leads to why it cannot be.")
    yield table(cells[0], cells[1:])
    for _, *rows in reasons:
        yield table(["", "why not"], rows)


BENCHMARK: Final = Benchmark(
    "contexts",
    cells,
    work,
    [Quantity("green", "cells", 0), Quantity("wrong", "cells", 0), Quantity("functions", "", 0)],
    [
        *(
            Target(
                f"{framework}: functions that studies recorded", f"étude, {framework}: functions", 1, "", at_least=False
            )
            for framework in SCRIPTS
        ),
        *(
            Target(
                f"{framework} on {engine}: cells that are wrong",
                f"étude, {framework} on {engine}: wrong",
                0,
                "cells",
                at_least=False,
            )
            for framework in SCRIPTS
            for engine in ENGINES
        ),
    ],
    note="One file for each framework, whose digest is the same before and after each cell; and of the training "
    "function one source, as all studies on all engines recorded it. A number in the table leads to why that cell "
    "cannot be.",
    totals=totals,
    tables=lambda results: matrix(
        {name: runs[-1]["details"] for name, runs in results.items() if "details" in runs[-1]}
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
