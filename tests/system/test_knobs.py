"""Which knobs a machine has, what the others lack, and what they may be set to."""

from __future__ import annotations

import dataclasses
import re

import msgspec
import pytest

from etude.core.errors import ConfigError
from etude.system.knobs import NAMES, Effect, Knob, catalogue
from etude.system.machine import Machine
from etude.system.settings import check_setting, chosen, grid, together

BARE = Machine(cores=1)
FULL = Machine(
    cores=6,
    memory_gb=16.0,
    gpus=("0",),
    governors=("powersave", "performance"),
    frequencies_mhz=(800, 4000),
    may_set_clock=True,
    gpu_power_w=(100.0, 350.0, 300.0),
    may_set_power=True,
    cgroup=2,
    controllers=("cpu", "memory"),
)


def names(knobs: tuple[Knob, ...]) -> list[str]:
    return [knob.name for knob in knobs]


def test_every_knob_is_there_on_a_machine_that_has_everything() -> None:
    knobs = catalogue(FULL, "torch")
    assert tuple(knobs) == NAMES
    for knob in knobs.values():
        assert not knob.needs
        assert knob.values[0] == knob.default
        assert len(set(knob.values)) == len(knob.values) > 1
        for value in knob.values:
            knob.check(value)


def test_what_a_machine_lacks_is_told_with_what_would_enable_it() -> None:
    lacking = {name: knob.needs for name, knob in catalogue(BARE).items() if knob.needs}
    assert set(NAMES) - set(lacking) == {"checkpoint_every"}
    assert lacking["loader_workers"] == (
        "it is one of PyTorch's, and the training function uses a loop of its own. "
        "Load the data with a DataLoader of torch."
    )
    assert (
        lacking["cpu_share"] == "CPU time cannot be limited: there are no control groups. Mount them at /sys/fs/cgroup."
    )
    assert all(why.endswith(".") and not re.search(r"[{}]", why) for why in lacking.values())


@pytest.mark.parametrize(
    ("change", "name", "said"),
    [
        ({"may_set_clock": False}, "cpu_governor", "Run as root"),
        ({"governors": ("performance",)}, "cpu_governor", "cpufreq"),
        ({"frequencies_mhz": ()}, "cpu_frequency", "cpufreq"),
        ({"may_set_power": False}, "gpu_power_limit", "Run as root"),
        ({"gpu_power_w": ()}, "gpu_power_limit", "nvidia-ml-py"),
        ({"gpus": ()}, "pin_memory", "Let the trial see one"),
        ({"controllers": ("cpu",)}, "memory_limit", "Delegate=yes"),
        ({"cgroup": 1, "controllers": ()}, "cpu_share", "version 1"),
        ({"memory_gb": None}, "memory_limit", "how much memory"),
    ],
)
def test_one_thing_that_is_missing_takes_its_knob(change: dict[str, object], name: str, said: str) -> None:
    knobs = catalogue(dataclasses.replace(FULL, **change), "torch")  # type: ignore[arg-type]
    assert said in knobs[name].needs
    with pytest.raises(ConfigError, match="cannot be tuned here"):
        chosen(knobs, [name])
    with pytest.raises(ConfigError, match="cannot be set here"):
        check_setting(knobs, {name: 1})


def test_keras_and_plain_loops_have_the_knobs_that_make_sense_for_them() -> None:
    assert names(chosen(catalogue(FULL, "keras"))) == ["cores", "threads"]
    assert names(chosen(catalogue(FULL))) == ["cores", "threads"]
    assert "while it trains" in catalogue(FULL, "keras")["amp"].needs


def test_what_changes_training_or_is_noticed_by_others_is_off_unless_it_is_named() -> None:
    knobs = catalogue(FULL, "torch")
    off = set(NAMES) - set(names(chosen(knobs)))
    assert off == {knob.name for knob in knobs.values() if knob.if_named}
    assert {knob.name for knob in knobs.values() if knob.effect is Effect.TRAINING} <= off
    assert names(chosen(knobs, ["amp"])) == ["amp"]


def test_without_rounding_only_the_same_numbers_are_left() -> None:
    effects = {knob.effect for knob in chosen(catalogue(FULL, "torch"), rounding=False)}
    assert effects == {Effect.SAME}


def test_fewer_cores_count_as_rounding_since_they_take_threads_along() -> None:
    assert catalogue(FULL, "torch")["cores"].effect is Effect.ROUNDING


def test_an_unknown_knob_is_refused_with_the_nearest_name() -> None:
    knobs = catalogue(FULL, "torch")
    with pytest.raises(ConfigError) as refused:
        chosen(knobs, ["loader_worker"])
    assert str(refused.value) == (
        f"There is no knob 'loader_worker'. Did you mean 'loader_workers'? There are: {', '.join(NAMES)}."
    )
    with pytest.raises(ConfigError, match="names 'amp' twice"):
        chosen(knobs, ["amp", "amp"])


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"loader_workers": -1}, "loader_workers=-1 (int) cannot be. Pass a whole number from 0 to 12."),
        ({"loader_workers": 2.5}, "loader_workers=2.5 (float) cannot be. Pass a whole number from 0 to 12."),
        ({"loader_workers": True}, "loader_workers=True (bool) cannot be. Pass a whole number from 0 to 12."),
        ({"cores": 7}, "cores=7 (int) cannot be. Pass a whole number from 1 to 6."),
        ({"cache": 1}, "cache=1 (int) cannot be. Pass False or True."),
        ({"cpu_governor": "fast"}, "cpu_governor='fast' (str) cannot be. Pass 'powersave' or 'performance'."),
        ({"cpu_share": 0.0}, "cpu_share=0.0 (float) cannot be. Pass a number from 0.01 to 1."),
        ({"memory_limit": float("nan")}, "memory_limit=nan (float) cannot be. Pass a number from 0.1 to 16."),
    ],
)
def test_a_value_that_cannot_be_is_refused(setting: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        check_setting(catalogue(FULL, "torch"), setting)  # type: ignore[arg-type]
    assert str(refused.value) == said


def test_values_between_those_to_try_are_taken() -> None:
    check_setting(catalogue(FULL, "torch"), {"loader_workers": 5, "cpu_share": 0.3, "memory_limit": None, "threads": 5})


def test_what_is_to_be_tried_goes_by_the_machine() -> None:
    knobs = catalogue(FULL, "torch")
    assert knobs["loader_workers"].values == (0, 1, 2, 4, 6)
    assert knobs["threads"].values == (6, 4, 2, 1)
    assert knobs["cpu_frequency"].values == (4000, 3200, 2400, 1600, 800)
    assert knobs["gpu_power_limit"].values == (300, 270, 240, 210, 180, 150, 120)
    assert knobs["memory_limit"].values == (None, 8.0, 4.0)


def test_knobs_that_depend_on_each_other_are_tried_together() -> None:
    knobs = catalogue(FULL, "torch")
    picked = chosen(knobs, ["threads", "cache", "channels_last", "loader_workers", "amp"])
    assert [names(group) for group in together(picked)] == [
        ["threads", "loader_workers"],
        ["cache"],
        ["channels_last", "amp"],
    ]


def test_a_knob_between_two_joins_them() -> None:
    knobs = catalogue(FULL, "torch")
    apart = chosen(knobs, ["prefetch", "threads"])
    assert [names(group) for group in together(apart)] == [["prefetch"], ["threads"]]
    joined = chosen(knobs, ["prefetch", "threads", "loader_workers"])
    assert [names(group) for group in together(joined)] == [["prefetch", "threads", "loader_workers"]]


def test_a_grid_begins_with_the_defaults_and_has_nothing_that_means_nothing() -> None:
    knobs = catalogue(FULL, "torch")
    settings = grid(chosen(knobs, ["loader_workers", "prefetch"]))
    assert settings[0] == {"loader_workers": 0, "prefetch": 2}
    assert len(settings) == 1 + 4 * 3
    assert [s["prefetch"] for s in settings if s["loader_workers"] == 0] == [2]


def test_a_knob_travels_as_plain_data() -> None:
    for knob in catalogue(FULL, "torch").values():
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(knob), type=Knob) == knob
