"""The first experiment of the paper on AutoAblation: six features of the Titanic data, each left out in turn."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.autoablation import printed, studied
from benchmarks.common import Benchmark, Cell, Result
from benchmarks.live.workload import FOLDER

FILE: Final = FOLDER / "titanic" / "train.csv"
SEEDS: Final = 20
WORKERS: Final = 2

NAMES: Final = {arm: arm.removeprefix("feature:") for arm in printed.TITANIC}
RELEASED: Final = "étude, the released network"


def cells(small: bool) -> Sequence[Cell]:
    if not small and not FILE.is_file():
        raise SystemExit(f"There is no {FILE}. ETUDE_DATA_SETS names the folder with the data sets.")
    sizes: dict[str, Any] = {"small": small, "seeds": 2 if small else SEEDS}
    return [
        Cell("étude", {**sizes, "released": False}, limit_s=3600.0),
        Cell(RELEASED, {**sizes, "released": True}, limit_s=3600.0),
    ]


def work(args: Mapping[str, Any], place: Path) -> Result:
    import etude

    file = str(made_up(place) if args["small"] else FILE)
    example = importlib.import_module("examples.titanic_features")
    if args["released"]:
        from benchmarks.autoablation import released

        data = etude.table(
            file, label="Survived", features=example.FEATURES, valid_share=0, split_seed=None, scale=False
        )
        experiment = etude.Experiment(released.train, model=released.model, data=data, metric="accuracy", mode="max")
        arms = [f"feature:{name}" for name in example.FEATURES]
        ablation = experiment.ablate(arms, seeds=args["seeds"], workers=WORKERS, force=args["small"])
        assert isinstance(ablation, etude.Ablation)
    else:
        ablation = example.study(file, seeds=args["seeds"], workers=WORKERS, force=args["small"])
    found = studied.told(ablation)
    return {**studied.rows(found, NAMES), "details": found}


def made_up(place: Path) -> Path:
    """Write a small table with the same columns, and return where."""
    file = place / "train.csv"
    head = "PassengerId,Survived,Pclass,Name,Sex,Age,SibSp,Parch,Ticket,Fare,Cabin,Embarked"
    rows = (
        f"{n},{n % 3 % 2},{n % 3 + 1},N,{('female', 'male')[n % 2]},{n},{n % 4},{n % 5},T,{n}.5,,S" for n in range(40)
    )
    file.write_text("\n".join([head, *rows, ""]))
    return file


BENCHMARK = Benchmark(
    name="autoablation_titanic",
    cells=cells,
    work=work,
    quantities=studied.quantities(list(NAMES.values())),
    targets=(),
    note=(
        "Test accuracy without each feature, and the effect: how much higher that of the base is, over pairs with the\n"
        "same seed. low and high: 95 % interval (BCa). A seed decides the split, the weights and the order of batches."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
