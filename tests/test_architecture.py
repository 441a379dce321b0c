"""The house has no hidden doors: who imports whom is read from the source, and so is what loads what."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

import etude

SOURCE: Final = Path(etude.__file__).parent

ARROWS: Final = {
    "core": set(),
    "wire": {"core"},
    "places": {"core"},
    "store": {"core", "places"},
    "frameworks": {"core"},
    "analyse": {"core"},
    "system": {"core"},
    "tune": {"core", "wire"},  # the sampler is a process of its own, and talks over a channel
    "ablate": {"core", "analyse"},
    "data": {"core", "frameworks"},
    "fit": {"core", "frameworks", "data", "analyse"},
    "mage": {"core", "ablate", "store", "system"},  # what it does is written into the study's journal
    "worker": {"core", "wire", "frameworks", "places", "data", "system"},
    "engines": {"core", "wire", "worker", "places"},
    "testing": {"core", "wire", "store", "engines", "tune", "ablate", "fit", "worker"},
    # Rooms and single modules that stand on top of these, from the lowest to the highest.
    "definition": {"core"},
    "components": {"ablate"},
    "policies": {"core", "ablate"},
    "partitions": {"fit"},
    "measures": {"fit"},
    "removing": {"core", "ablate", "frameworks"},
    "studies": {"core", "wire", "store", "places", "tune", "engines", "worker", "system"},
    "reported": {"core", "store", "analyse", "system"},
    "exports": {"core", "tune"},
    "results": {
        *{
            "exports",
            "reported",
            "core",
            "store",
            "places",
            "tune",
            "ablate",
            "fit",
            "analyse",
            "frameworks",
            "worker",
            "system",
        },
    },
    "launching": {
        *{"core", "wire", "store", "places", "tune", "fit", "engines", "worker", "frameworks", "system"},
        *{"definition", "studies", "results"},
    },
    "forecasting": {"core", "store", "tune", "engines", "definition", "studies", "results", "launching"},
    "verbs": {
        *{"core", "tune", "ablate", "fit", "analyse", "data", "engines", "worker", "frameworks"},
        *{"definition", "removing", "results", "launching"},
    },
    "experiment": {
        *{"core", "tune", "ablate", "fit", "analyse", "worker", "system"},
        *{"definition", "results", "launching", "forecasting", "verbs"},
    },
    "files": {"core", "tune", "ablate", "engines", "results", "experiment", "system"},
    "comparing": {"core", "fit", "results", "launching", "verbs", "experiment"},
    "comparing_partitions": {"core", "tune", "fit", "results", "launching", "verbs", "experiment"},
    "view": {"core", "store", "analyse", "reported", "results", "studies"},
    "demo": {"core", "worker"},
    "cli": None,  # on top: it may import everything
    "etude": None,  # the window shows everything
}
"""Room or module -> what it may import of ours; None for everything."""

MAGE: Final = {
    "sources": set(),
    "networks": {"sources"},
    "patch": {"sources"},
    "rules": {"sources", "networks", "patch"},
    "plan": {"sources", "networks", "rules"},
    "static": {"sources", "networks", "patch"},
    "sandbox": set(),
    "probe": {"sources", "sandbox"},
    "judge": {"patch"},
    "backends": set(),
    "asking": {"patch", "backends"},
    "handover": {"sources", "patch", "judge"},
    "loop": {
        *{"sources", "patch", "rules", "plan", "static", "sandbox", "probe", "judge", "backends", "asking", "handover"},
    },
    "review": {"patch", "loop"},
}
"""Room within the mage -> what it may import of its other rooms; all know what lies in the folder itself."""

MAY_IMPORT_THE_WINDOW: Final = {"cli", "demo", "verbs.check", "testing"}

WORKER_FOR_STUDY: Final = {"etude.worker.attempt", "etude.worker.processes", "etude.worker.received"}
"""All that the driver's shell needs of the workers: where an outcome lies, how leftovers are ended, and where files go
that come from elsewhere."""

ONLY_IN: Final = {
    "torch": {"frameworks", "demo", "removing"},
    "keras": {"frameworks"},
    "lightning": {"frameworks"},
    "transformers": {"frameworks"},
    "xgboost": {"frameworks"},
    "lightgbm": {"frameworks"},
    "optuna": {"tune", "analyse", "exports"},  # proposals; what it knows of importances; and studies for its users
    "sqlalchemy": {"exports"},
    "mlflow": {"exports"},
    "tensorboard": {"exports"},
    "narwhals": {"data"},
    "sqlite3": {"store", "studies", "system", "cli"},
    "fsspec": {"places"},
    "yaml": {"files"},
    "ray": {"engines"},
    "pyspark": {"engines"},
    "rich": {"cli", "launching.progress", "launching.snapshot", "verbs.check", "demo"},
    "typer": {"cli"},
    "starlette": {"view"},
    "uvicorn": {"view"},
}
"""Heavy or particular libraries -> the rooms and modules that may know them."""


@dataclass(frozen=True)
class Arrow:
    """One import statement.

    Attributes:
        module: Who imports.
        imported: What.
        when: ``now`` at module level, ``later`` inside a function, ``types`` for type checkers only.
    """

    module: str
    imported: str
    when: str


def modules() -> dict[str, ast.Module]:
    """Return our modules by name, parsed."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = ("etude", *path.relative_to(SOURCE).with_suffix("").parts)
        found[".".join(parts).removesuffix(".__init__")] = ast.parse(path.read_text(encoding="utf-8"))
    return found


MODULES: Final = modules()


def imports_in(module: str, node: ast.AST, when: str = "now") -> Iterator[Arrow]:
    """Walk a syntax tree, and keep in mind when each import happens."""
    if isinstance(node, ast.Import):
        yield from (Arrow(module, name.name, when) for name in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"{module} imports relatively, which hides an arrow"
        assert node.module is not None
        for name in node.names:  # a name may be a module of its own
            whole = f"{node.module}.{name.name}"
            yield Arrow(module, whole if whole in MODULES else node.module, when)
    elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        for child in node.body:
            yield from imports_in(module, child, "types")
        for child in node.orelse:
            yield from imports_in(module, child, when)
    else:
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            yield from imports_in(module, child, "later" if is_function and when == "now" else when)


ALL: Final = [arrow for name, tree in MODULES.items() for arrow in imports_in(name, tree)]
OURS: Final = [
    arrow
    for arrow in ALL
    if arrow.imported.split(".")[0] == "etude" and not (arrow.module == "etude" and arrow.when == "types")
]


def room(module: str) -> str:
    """Return the room that a module of ours stands in; single modules are rooms of their own."""
    return module.split(".")[1] if module != "etude" else "etude"


def lies_in(module: str, places: set[str]) -> bool:
    """Return whether a module of ours is one of these, or stands in one of these rooms."""
    return bool({room(module), module.removeprefix("etude.")} & places)


def shown(arrows: list[Arrow]) -> str:
    return "\n".join(f"{arrow.module} -> {arrow.imported} ({arrow.when})" for arrow in arrows)


def test_every_room_is_on_the_plan() -> None:
    assert {room(module) for module in MODULES} <= set(ARROWS)


def test_arrows_point_where_the_design_says() -> None:
    wrong = []
    for arrow in OURS:
        here, there = room(arrow.module), room(arrow.imported)
        allowed = ARROWS[here]
        if here != there and allowed is not None and there not in allowed:
            wrong.append(arrow)
    wrong = [arrow for arrow in wrong if arrow.imported != "etude"]  # that is a rule of its own, below
    assert not wrong, f"these arrows are not in the design:\n{shown(wrong)}"


def test_nobody_imports_the_window_but_those_who_stand_before_it() -> None:
    wrong = [a for a in OURS if a.imported == "etude" and not lies_in(a.module, MAY_IMPORT_THE_WINDOW)]
    assert not wrong, shown(wrong)


def test_the_core_knows_nobody() -> None:
    standard = sys.stdlib_module_names | {"__future__"}
    tops = {arrow.imported.split(".")[0] for arrow in ALL if room(arrow.module) == "core"}
    assert tops - standard <= {"etude", "msgspec"}
    wrong = [arrow for arrow in OURS if room(arrow.module) == "core" and room(arrow.imported) != "core"]
    assert not wrong, shown(wrong)


def test_the_core_has_no_wires() -> None:
    wires = {"asyncio", "socket", "sqlite3", "threading", "multiprocessing", "subprocess", "os", "pathlib", "io"}
    wrong = [arrow for arrow in ALL if room(arrow.module) == "core" and arrow.imported.split(".")[0] in wires]
    assert not wrong, shown(wrong)
    assert {a.module for a in ALL if room(a.module) == "core" and a.imported == "time"} == {"etude.core.clock"}


def test_a_study_knows_of_its_workers_only_what_it_needs() -> None:
    known = {a.imported for a in OURS if room(a.module) == "studies" and room(a.imported) == "worker"}
    assert known <= WORKER_FOR_STUDY


def test_the_verbs_do_not_know_each_other() -> None:
    verbs = {"tune", "ablate", "fit"}
    wrong = [a for a in OURS if {room(a.module), room(a.imported)} <= verbs and room(a.module) != room(a.imported)]
    assert not wrong, shown(wrong)


@pytest.mark.parametrize("library", ONLY_IN)
def test_a_library_is_known_only_where_it_belongs(library: str) -> None:
    wrong = [a for a in ALL if a.imported.split(".")[0] == library and not lies_in(a.module, ONLY_IN[library])]
    assert not wrong, shown(wrong)


def test_the_rooms_of_the_mage_have_an_order_too() -> None:
    assert {path.name for path in (SOURCE / "mage").iterdir() if (path / "__init__.py").is_file()} == set(MAGE)
    wrong = []
    for arrow in OURS:
        if room(arrow.module) == room(arrow.imported) == "mage":
            (here, *_), (there, *_) = ([*name.split(".")[2:], ""] for name in (arrow.module, arrow.imported))
            if there in MAGE and here != there and there not in MAGE.get(here, set()):
                wrong.append(arrow)
    assert not wrong, shown(wrong)


# --- maps -----------------------------------------------------------------------------------------


def test_the_map_of_the_largest_room_has_every_module_once() -> None:
    place = "etude.frameworks.removal"
    said = re.findall(r"``(\w+)``", ast.get_docstring(MODULES[place]) or "")
    assert sorted(said) == sorted(name.removeprefix(f"{place}.") for name in MODULES if name.startswith(f"{place}."))


# --- circles --------------------------------------------------------------------------------------


def a_circle(graph: dict[str, set[str]]) -> list[str] | None:
    """Return the modules of a circle, the first one again at the end; None if there is none."""
    done: set[str] = set()

    def walk(module: str, path: list[str]) -> list[str] | None:
        if module in path:
            return [*path[path.index(module) :], module]
        if module in done:
            return None
        for imported in sorted(graph.get(module, ())):
            if circle := walk(imported, [*path, module]):
                return circle
        done.add(module)
        return None

    return next((circle for module in sorted(graph) if (circle := walk(module, []))), None)


def graph_of(arrows: list[Arrow]) -> dict[str, set[str]]:
    graph: dict[str, set[str]] = {}
    for arrow in arrows:
        if arrow.imported != arrow.module:  # a script that looks at itself goes round nobody
            graph.setdefault(arrow.module, set()).add(arrow.imported)
    return graph


def test_a_circle_is_found() -> None:
    assert a_circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert a_circle({"a": {"b", "c"}, "b": {"c"}}) is None


def test_no_room_leads_back_to_itself() -> None:
    rooms: dict[str, set[str]] = {}
    for here, there in ((room(arrow.module), room(arrow.imported)) for arrow in OURS):
        if there not in (here, "etude"):
            rooms.setdefault(here, set()).add(there)
    assert a_circle(rooms) is None


def test_no_module_imports_itself_round_a_circle() -> None:
    assert a_circle(graph_of([arrow for arrow in OURS if arrow.when == "now"])) is None


def test_no_circle_is_hidden_in_a_function_or_from_type_checkers() -> None:
    assert a_circle(graph_of([arrow for arrow in OURS if room(arrow.imported) != "etude"])) is None


# --- what loads what ------------------------------------------------------------------------------

HEAVY: Final = (
    "torch",
    "keras",
    "lightning",
    "transformers",
    "ray",
    "pyspark",
    "optuna",
    "numpy",
    "fsspec",
    "sklearn",
    "pandas",
    "matplotlib",
    "mlflow",
    "tensorboard",
    "rich",
    "typer",
)
WIRES: Final = ("asyncio", "sqlite3")


def loaded_by(*names: str) -> set[str]:
    """Return what a fresh interpreter has loaded after importing modules."""
    script = f"import sys, {', '.join(names)}\nprint('\\n'.join(sys.modules))"
    return set(
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    )


def test_the_window_loads_no_framework_and_hardly_anything_else() -> None:
    loaded = loaded_by("etude")
    assert loaded.isdisjoint(HEAVY + WIRES)
    assert {name for name in loaded if name.startswith("etude")} == {"etude", "etude.core", "etude.core.version"}


def test_the_core_loads_nothing_heavy() -> None:
    core = [module for module in MODULES if room(module) == "core"]
    assert loaded_by(*core).isdisjoint(HEAVY + WIRES)


def test_a_study_of_this_machine_loads_nothing_for_other_machines() -> None:
    loaded = loaded_by("etude.studies.study", "etude.engines.local")
    assert loaded.isdisjoint(
        {"etude.studies.nodes", "etude.wire.gate", "etude.wire.credentials", "etude.wire.node_messages"}
    )


def test_a_supervisor_loads_no_framework() -> None:
    assert loaded_by("etude.worker.supervisor").isdisjoint({*HEAVY, "sqlite3"})


def test_no_two_modules_of_tests_have_one_name() -> None:
    """Where their folders are no packages a process of tests holds one module of a name, and takes it for the other."""
    tests = Path(__file__).parent
    loose = [path for path in tests.rglob("*.py") if not (path.parent / "__init__.py").exists()]
    names = Counter(path.stem for path in loose if path.stem != "conftest")
    assert [name for name, n in names.items() if n > 1] == []
