"""Made-up tables with the columns of the real ones, for small runs and tests."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

HOUSING: Final = (
    "longitude,latitude,housing_median_age,total_rooms,total_bedrooms,population,households,median_income,"
    "median_house_value,ocean_proximity"
)
NUMBERS: Final = (
    "Elevation,Aspect,Slope,Horizontal_Distance_To_Hydrology,Vertical_Distance_To_Hydrology,"
    "Horizontal_Distance_To_Roadways,Hillshade_9am,Hillshade_Noon,Hillshade_3pm,Horizontal_Distance_To_Fire_Points"
)
AREAS, SOILS, COVERS = 4, 40, 7


def made_up(place: Path, rows: int, files: Mapping[str, str]) -> Path:
    """Write tables with so many rows of noise, and return the folder.

    Args:
        place: Where.
        rows: Of each.
        files: Where each of the three tables is, below that.
    """
    draws = random.Random(0)
    makes: dict[str, Callable[[random.Random, int], str]] = {
        "adult": _adult,
        "california-housing": _housing,
        "covertype": _covertype,
    }
    heads = {"adult": [], "california-housing": [HOUSING], "covertype": [_covertype_head()]}
    for table, file in files.items():
        path = place / file
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [*heads[table], *(makes[table](draws, nth) for nth in range(rows))]
        path.write_bytes(gzip.compress("\n".join([*lines, ""]).encode()))
    return place


def _adult(draws: random.Random, nth: int) -> str:
    words = (("Private", "?"), ("HS-grad", "Masters"), ("Divorced", "Widowed"), ("Sales", "?"), ("Wife", "Husband"))
    workclass, education, status, job, relation = (one[draws.randrange(2)] for one in words)
    age, weight, years, hours = (draws.randrange(17, 90) for _ in range(4))
    income = "<=50K" if age + draws.randrange(20) < 60 else ">50K"
    return (
        f"{age}, {weight}, {workclass}, {education}, {years}, {status}, {job}, {relation}, White, Male, 0, 0, {hours}, "
        f"Cuba, {income}"
    )


def _housing(draws: random.Random, nth: int) -> str:
    rooms = "" if nth % 7 == 0 else f"{draws.randrange(1, 900)}.0"
    income = draws.uniform(0.5, 9)
    price = 40_000 * income + draws.gauss(0, 20_000)
    near = ("INLAND", "NEAR BAY", "<1H OCEAN")[draws.randrange(3)]
    return f"-122.2,37.{nth},{nth % 50}.0,880.0,{rooms},322.0,126.0,{income:.4f},{price:.1f},{near}"


def _covertype_head() -> str:
    kinds = [f"Wilderness_Area{n + 1}" for n in range(AREAS)] + [f"Soil_Type{n + 1}" for n in range(SOILS)]
    return ",".join(["Id", NUMBERS, *kinds, "Cover_Type"])


def _covertype(draws: random.Random, nth: int) -> str:
    cover = nth % COVERS
    numbers = [2000 + 200 * cover + draws.randrange(300), *(draws.randrange(360) for _ in range(9))]
    area, soil = draws.randrange(AREAS), draws.randrange(SOILS)
    chosen = [int(n == area) for n in range(AREAS)] + [int(n == soil) for n in range(SOILS)]
    return ",".join(map(str, [nth + 1, *numbers, *chosen, cover + 1]))
