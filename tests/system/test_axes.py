"""In which order knobs are tried: those that interact together, and nothing that means nothing."""

from __future__ import annotations

from etude.core.system import Setting, SettingValue
from etude.system.axes import axes_of, worth_trying
from etude.system.knobs import key

ALL: dict[str, tuple[SettingValue, ...]] = {
    "loader_workers": (0, 1, 2, 4),
    "prefetch": (2, 4),
    "persistent_workers": (False, True),
    "threads": (4, 2, 1),
    "channels_last": (False, True),
    "amp": (False, True),
    "cpu_governor": ("schedutil", "performance"),
    "compile": (False, True),
}


def asked(knobs: dict[str, tuple[SettingValue, ...]], costs: dict[str, float]) -> list[Setting]:
    """Return what is tried where settings cost what is said, and others one and a half times the default."""
    axes, tried, settings = axes_of(knobs), {}, []
    while (setting := axes.propose(tried)) is not None:
        settings.append(dict(setting))
        tried[key(setting)] = costs.get(key(setting), 1.5)
    return settings


def test_threads_and_loader_workers_share_the_cores_in_one_axis() -> None:
    both = {name: ALL[name] for name in ("loader_workers", "threads")}
    assert asked(both, {}) == [
        {"loader_workers": 2},
        {"threads": 2, "loader_workers": 2},
        {"loader_workers": 1},
        {"threads": 3, "loader_workers": 1},
        {"loader_workers": 4},
        {"threads": 2},
        {"threads": 1},
    ]


def test_after_a_setting_that_is_ruinous_none_is_tried_that_changes_the_same_knobs() -> None:
    both = {name: ALL[name] for name in ("loader_workers", "threads")}
    ruinous = {key({"loader_workers": 2}): 2.0}
    assert asked(both, ruinous) == [{"loader_workers": 2}, {"threads": 2}, {"threads": 1}]
    bad = {key({"loader_workers": 2}): 1.9}
    assert {"threads": 3, "loader_workers": 1} in asked(both, bad)


def test_workers_stay_where_they_can() -> None:
    knobs = {name: ALL[name] for name in ("loader_workers", "persistent_workers", "threads")}
    assert all(setting.get("persistent_workers") for setting in asked(knobs, {}) if setting.get("loader_workers"))
    stayed = {**knobs, "persistent_workers": (True, False)}
    assert all("persistent_workers" not in setting for setting in asked(stayed, {}) if len(setting) < 3)


def test_what_means_nothing_without_loader_workers_is_tried_only_beside_them() -> None:
    knobs = {name: ALL[name] for name in ("loader_workers", "prefetch")}
    assert not any("prefetch" in setting for setting in asked(knobs, {}))
    better = {key({"loader_workers": 1}): 0.5}
    assert {"loader_workers": 1, "prefetch": 4} in asked(knobs, better)
    own = {"loader_workers": (2, 0, 1), "prefetch": (2, 4)}
    assert {"prefetch": 4} in asked(own, {})


def test_low_precision_and_the_order_of_images_are_tried_together_too() -> None:
    knobs = {name: ALL[name] for name in ("channels_last", "amp")}
    assert asked(knobs, {}) == [{"channels_last": True}, {"amp": True}, {"channels_last": True, "amp": True}]


def test_all_choices_without_an_order_are_tried() -> None:
    knobs: dict[str, tuple[SettingValue, ...]] = {"cpu_governor": ("schedutil", "performance", "powersave")}
    assert asked(knobs, {}) == [{"cpu_governor": "performance"}, {"cpu_governor": "powersave"}]


def test_nothing_to_try_is_no_axis() -> None:
    assert axes_of({"threads": (2,)}).axes == ()


def test_where_an_epoch_waited_for_no_loader_only_fewer_workers_are_tried() -> None:
    assert worth_trying(ALL, None) == ALL
    assert worth_trying(ALL, 0.3) == ALL
    of_loaders = {"loader_workers", "prefetch", "persistent_workers"}
    assert worth_trying(ALL, 0.0) == {name: values for name, values in ALL.items() if name not in of_loaders}
    own = {"loader_workers": (2, 0, 1, 4), "cache": (False, True), "pin_memory": (False, True)}
    assert worth_trying(own, 0.0) == {"loader_workers": (2, 0, 1), "pin_memory": (False, True)}
