"""What the engine asks of Ray and refuses, with a Ray that only remembers; tests/engines_real has the real one."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import sys
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

import etude
from etude import ConfigError
from etude.core.errors import StudyError
from etude.core.resources import Resources
from etude.engines import node
from etude.engines import ray as engine_of_ray
from etude.engines.ray import Carrier, Ray
from etude.wire.credentials import Invitation

INVITATION = Invitation(("127.0.0.1",), 1, "certificate", "token")


class Ref:
    """A promise of Ray, which a test keeps."""

    def __init__(self) -> None:
        self._future: Future[Any] = Future()

    def future(self) -> Future[Any]:
        return self._future


class Handle:
    """An actor that is never placed."""

    def __init__(self, invitation: bytes) -> None:
        self.invitation = invitation
        self.refs = {"here": Ref(), "carry": Ref()}
        self.here = SimpleNamespace(remote=lambda: self.refs["here"])
        self.carry = SimpleNamespace(remote=lambda: self.refs["carry"])


class FakeRay:
    """Remembers what it is asked, and has the machines that a test gives it."""

    def __init__(self, *machines: dict[str, float], initialized: bool = False, client: bool = False) -> None:
        self.machines = machines or ({"CPU": 2.0, "memory": 2.0 * 2**30},)
        self.initialized = initialized
        self.asked: list[dict[str, Any]] = []
        self.options: dict[str, Any] = {}
        self.actors: list[Handle] = []
        self.killed: list[Handle] = []
        self.error: BaseException | None = None
        self.util = SimpleNamespace(
            get_node_ip_address=lambda: "10.0.0.1",
            client=SimpleNamespace(ray=SimpleNamespace(is_connected=lambda: client)),
        )

    def is_initialized(self) -> bool:
        return self.initialized

    def init(self, **options: Any) -> None:
        self.asked.append(options)
        if self.error is not None:
            raise self.error
        self.initialized = True

    def nodes(self) -> list[dict[str, Any]]:
        return [
            {"Resources": has, "Alive": True, "NodeManagerAddress": f"10.0.0.{nth}"}
            for nth, has in enumerate(self.machines, 1)
        ]

    def remote(self, kind: type) -> Any:
        assert kind is Carrier

        def options(**given: Any) -> Any:
            self.options = given
            return SimpleNamespace(remote=self._make)

        return SimpleNamespace(options=options)

    def _make(self, invitation: bytes, threads: int) -> Handle:
        self.threads = threads
        self.actors.append(Handle(invitation))
        return self.actors[-1]

    def wait(self, refs: Sequence[Ref], *, num_returns: int, timeout: float) -> tuple[list[Ref], list[Ref]]:
        ready = [ref for ref in refs if ref.future().done()]
        return ready, [ref for ref in refs if ref not in ready]

    def kill(self, actor: Handle, *, no_restart: bool) -> None:
        assert no_restart
        self.killed.append(actor)


class FakeDoor:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bound: list[str] = []
        self.failures: list[BaseException] = []

    def connect(self, name: str, sock: socket.socket) -> None:
        raise AssertionError("actors come by themselves")

    def invite(self, bind: str, port: int = 0, advertise: Sequence[str] = ()) -> Invitation:
        self.bound.append(bind)
        return INVITATION

    def tell(self, text: str) -> None:
        raise AssertionError

    def fail(self, error: BaseException) -> None:
        self.failures.append(error)


@pytest.fixture(autouse=True)
def _no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")


def use(monkeypatch: pytest.MonkeyPatch, fake: FakeRay) -> Any:
    monkeypatch.setitem(sys.modules, "ray", fake)  # type: ignore[arg-type]
    return fake


def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, n: int = 2) -> tuple[Any, Ray, FakeDoor]:
    fake, engine, door = use(monkeypatch, FakeRay()), Ray(), FakeDoor(tmp_path)
    engine.prepare(n)
    engine.start(n, door)
    return fake, engine, door


def refusal(engine: Ray, n: int = 1) -> str:
    with pytest.raises(ConfigError) as refused:
        engine.prepare(n)
    return str(refused.value)


def test_without_ray_the_extra_is_named_and_nothing_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    experiment = etude.Experiment(lambda x: x, metric="x", mode="max")
    with pytest.raises(ConfigError) as refused:
        experiment.tune({"x": etude.uniform(0, 1)}, trials=2, engine="ray", name="none")
    assert str(refused.value) == "engine='ray' needs Ray. Install it with: pip install 'etude[ray]'"
    with pytest.raises(etude.EtudeError):
        etude.open("none")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cpus": -1}, "cpus=-1 (int) is no amount of a resource. Pass a number, at least 0."),
        ({"gpus": True}, "gpus=True (bool) is no amount of a resource. Pass a number, at least 0."),
        ({"gpus": 1.5}, "gpus=1.5 (float) cannot be: Ray gives whole ones above 1. Pass a whole number."),
        ({"cpus": float("nan")}, "cpus=nan (float) is no amount of a resource. Pass a number, at least 0."),
        ({"memory_gb": 0}, "memory_gb=0 (int) is no memory. Pass GB above 0, or None."),
        ({"custom": {"CPU": 2}}, "custom names 'CPU', which Ray counts itself. Pass cpus= instead."),
        ({"custom": ["tpu"]}, "custom=['tpu'] (list) is no mapping. Pass a dict."),
        (
            {"address": "ray://head:10001"},
            "address='ray://head:10001' would make this process a Ray client, which workers cannot connect to. Run it "
            "on a machine of the cluster, for example with: ray job submit",
        ),
        ({"address": ""}, "address='' (str) is no address. Pass one as in '10.0.0.1:6379', or None."),
    ],
)
def test_what_is_no_option_is_refused_when_the_engine_is_made(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Ray(**options)
    assert str(refused.value) == message


def test_what_never_fits_is_refused_with_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeRay({"CPU": 2.0, "memory": 2.0 * 2**30}, {"CPU": 8.0, "GPU": 1.0, "memory": 2.0**30}))
    assert refusal(Ray(cpus=4, gpus=2, memory_gb=1.5, custom={"tpu": 1})) == (
        "No machine of the Ray cluster can hold a worker. Each asks for CPU 4, GPU 2, tpu 1, memory 1.5 GB; of "
        "2 machines the most that one has is CPU 8, GPU 1, tpu 0, memory 2 GB. Ask for less, add a machine, or pass "
        "autoscales=True if machines come when they are asked for."
    )
    assert "No machine" in refusal(Ray(cpus=4, memory_gb=1.5)), "each is there, and no machine has both"
    Ray(cpus=4, memory_gb=1).prepare(1)
    Ray(gpus=2, autoscales=True).prepare(1)


def test_more_workers_to_begin_with_than_ever_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeRay({"CPU": 8.0, "GPU": 1.0}, {"CPU": 2.0, "GPU": 2.0}, initialized=True))
    with pytest.raises(ConfigError) as refused:
        Ray().prepare(16, Resources(cpus=2, gpus=0.5), least=8)
    assert str(refused.value) == (
        "The first trial waits for 8 workers, and the Ray cluster has room for 3 in all: each asks for CPU 2, GPU 0.5. "
        "Ask for less, pass workers=(3, None), add machines, or pass autoscales=True if machines come when they are "
        "asked for."
    )
    Ray().prepare(16, Resources(cpus=2, gpus=0.5), least=3)
    Ray(autoscales=True).prepare(16, Resources(cpus=2, gpus=0.5), least=8)
    Ray(cpus=0).prepare(16, least=8)  # asks for nothing


@pytest.mark.parametrize(
    ("least", "ranks", "message"),
    [
        (4, 4, "The 4 ranks of a trial start together, {room} Ask for less, pass ranks=3, {more}"),
        (
            4,
            2,
            "The first trial waits until 2 could run, of 2 ranks each, {room} Ask for less, pass workers=(1, None), "
            "{more}",
        ),
    ],
)
def test_ranks_that_will_never_be_there_together_are_refused_as_such(
    least: int, ranks: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, FakeRay({"CPU": 2.0}, {"CPU": 1.0}, initialized=True))
    with pytest.raises(ConfigError) as refused:
        Ray().prepare(8, None, least=least, ranks=ranks)
    assert str(refused.value) == message.format(
        room="and the Ray cluster has room for 3 in all: each asks for CPU 1.",
        more="add machines, or pass autoscales=True if machines come when they are asked for.",
    )
    Ray().prepare(8, None, least=3, ranks=3)


def test_what_a_trial_needs_is_what_an_actor_asks_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = use(monkeypatch, FakeRay({"CPU": 8.0, "GPU": 1.0, "memory": 2.0**40}))
    engine = Ray(gpus=0.5)
    asked = []
    for resources in (Resources(cpus=2, gpus=0.5, memory_gb=1.5), Resources(gpus=0.5), None):
        engine.prepare(1, resources)
        engine.start(1, FakeDoor(tmp_path))
        asked.append([fake.options["num_cpus"], fake.options["num_gpus"], fake.options["memory"], fake.threads])
    assert asked == [[2, 0.5, 3 * 2**29, 2], [1, 0.5, None, 1], [1, 0.5, None, 1]]


def test_a_cluster_of_our_own_has_the_cores_of_this_machine_if_a_trial_needs_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake = use(monkeypatch, FakeRay())
    Ray().prepare(500, Resources(cpus=1))
    assert fake.asked[0]["num_cpus"] == os.cpu_count()


@pytest.mark.parametrize(
    ("engine", "resources", "message"),
    [
        (
            Ray(gpus=0.5),
            Resources(gpus=1),
            "resources='gpus=1' says gpus=1, and engine=Ray(gpus=0.5) says otherwise. Say it once: leave gpus= out of "
            "one of the two.",
        ),
        (
            Ray(),
            Resources(gpus=2),
            "No machine of the Ray cluster can hold a worker. Each asks for CPU 1, GPU 2; of 1 machine the most that "
            "one has is CPU 2, GPU 0. Ask for less, add a machine, or pass autoscales=True if machines come when they "
            "are asked for.",
        ),
        (Ray(), Resources(cpus=1.5), "cpus=1.5 (float) cannot be: Ray gives whole ones above 1. Pass a whole number."),
    ],
)
def test_resources_that_ray_cannot_give_are_refused(
    engine: Ray, resources: Resources, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, FakeRay())
    with pytest.raises(ConfigError) as refused:
        engine.prepare(1, resources)
    assert str(refused.value) == message


@pytest.mark.parametrize("error", [ConnectionError("nobody answers."), SystemExit(15)])
def test_a_cluster_that_cannot_be_reached_is_said_so(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeRay()).error = error
    told = "nobody answers" if isinstance(error, ConnectionError) else "Ray gave up on it with code 15"
    assert refusal(Ray(address="auto")) == (
        f"The Ray cluster at 'auto' cannot be reached: {told}. Start one with `ray start --head`, or leave address= "
        "out for one on this machine alone."
    )


def test_where_nobody_listens_ray_is_not_even_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = use(monkeypatch, FakeRay())
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    assert re.fullmatch(
        rf"The Ray cluster at '127\.0\.0\.1:{port}' cannot be reached: \[Errno \d+\] Connection refused "
        rf"\(127\.0\.0\.1:{port}\)\. Start one with `ray start --head`, or leave address= out for one on this machine "
        r"alone\.",
        refusal(Ray(address=f"127.0.0.1:{port}")),
    )
    assert fake.asked == []


def test_a_client_of_ray_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeRay(initialized=True, client=True))
    assert refusal(Ray()).startswith("This process is a Ray client (ray://), which workers cannot connect to. ")


def test_a_client_by_the_environment_is_refused_before_ray_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "ray://head:10001")
    fake = use(monkeypatch, FakeRay())
    assert refusal(Ray()) == (
        "RAY_ADDRESS='ray://head:10001' would make this process a Ray client, which workers cannot connect to. Run it "
        "on a machine of the cluster, for example with: ray job submit"
    )
    Ray(address="auto").prepare(1)
    assert [asked["address"] for asked in fake.asked] == ["auto"]


def test_a_cluster_of_our_own_has_room_for_all_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = use(monkeypatch, FakeRay())
    Ray(cpus=2).prepare(500)
    [asked] = fake.asked
    assert (asked["address"], asked["num_cpus"], asked["include_dashboard"]) == ("local", 1000, False)


def test_another_cluster_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    fake = use(monkeypatch, FakeRay())
    Ray().prepare(500)
    assert fake.asked == [{"address": "auto", "log_to_driver": False, "configure_logging": False}]


def test_options_reach_ray_and_the_secret_travels_as_an_argument(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = use(monkeypatch, FakeRay({"CPU": 8.0, "GPU": 1.0, "tpu": 4.0, "memory": 2.0**40}))
    door = FakeDoor(tmp_path)
    shipped = {"working_dir": str(tmp_path), "env_vars": {"A": "1"}}
    engine = Ray(cpus=2, gpus=0.5, memory_gb=1.5, custom={"tpu": 1}, runtime_env=shipped)
    engine.prepare(3)
    engine.start(3, door)
    assert fake.asked[0]["runtime_env"] == {"working_dir": str(tmp_path)}
    assert fake.options == {
        "num_cpus": 2,
        "num_gpus": 0.5,
        "memory": 3 * 2**29,
        "resources": {"tpu": 1},
        "runtime_env": {"env_vars": {"A": "1"}},
        "max_restarts": -1,
        "max_task_retries": -1,
    }
    assert [msgspec.json.decode(actor.invitation, type=Invitation) for actor in fake.actors] == [INVITATION] * 3
    assert door.bound == ["127.0.0.1"]


def test_a_folder_cannot_be_shipped_to_a_cluster_in_use_and_an_archive_elsewhere_can(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use(monkeypatch, FakeRay(initialized=True))
    assert refusal(Ray(runtime_env={"working_dir": "."})).startswith("runtime_env has working_dir of this machine, ")
    Ray(runtime_env={"working_dir": "s3://bucket/project.zip"}).prepare(1)


def test_machines_elsewhere_are_listened_to_at_our_own_address(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use(monkeypatch, FakeRay({"CPU": 1.0}, {"CPU": 1.0}))
    engine, door = Ray(), FakeDoor(tmp_path)
    engine.prepare(1)
    engine.start(1, door)
    assert door.bound == ["10.0.0.1"]


def test_the_study_fails_when_ray_has_given_the_last_actor_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake, _, door = started(monkeypatch, tmp_path)
    first, last = (actor.refs["carry"].future() for actor in fake.actors)
    first.set_exception(RuntimeError("no room"))
    assert door.failures == []
    last.set_exception(RuntimeError("\x1b[36mray::Carrier\x1b[39m has no Étude"))
    [failure] = door.failures
    assert isinstance(failure, StudyError)
    assert str(failure) == (
        "No worker comes from the Ray cluster any more. The last one ended so: ray::Carrier has no Étude"
    )


def test_stop_ends_all_actors_and_their_ends_are_no_failure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake, engine, door = started(monkeypatch, tmp_path)
    fake.actors[0].refs["here"].future().set_result(None)
    engine.stop()
    engine.stop()
    assert sorted(map(id, fake.killed)) == sorted(map(id, fake.actors))
    fake.actors[0].refs["carry"].future().set_exception(RuntimeError("killed"))
    assert door.failures == []


@pytest.fixture
def carried(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Have what nodes come to listed here, the first one first: an answer, or an error."""
    story: list[object] = []

    async def carry(invitation: Invitation, *, workers: int, threads: int, project: Path | None, placed: bool) -> bool:
        assert (invitation, workers, threads, project, placed) == (INVITATION, 1, 1, None, True)
        await asyncio.sleep(0)
        ends = story.pop(0)
        if isinstance(ends, Exception):
            raise ends
        return bool(ends)

    monkeypatch.setattr(node, "carry", carry)
    monkeypatch.setattr(engine_of_ray, "AGAIN_S", (0.0,) * 4)
    context = SimpleNamespace(runtime_env={})
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(get_runtime_context=lambda: context))  # type: ignore[arg-type]
    return story


def test_an_actor_comes_back_to_a_driver_that_it_lost_until_it_is_sent_home(carried: list[object]) -> None:
    carried += [False, *[StudyError("away")] * 9, False, True, "never"]
    Carrier(msgspec.json.encode(INVITATION)).carry()
    assert carried == ["never"]


@pytest.mark.parametrize(
    "story",
    [
        [StudyError("no way there")] * 4,
        [node.NotAdmittedError("another version")],
        [node.NoRoomError("no GPU")],
        [StudyError("not yet"), node.NotAdmittedError("no")],
    ],
)
def test_an_actor_that_never_got_in_says_why(story: list[Exception], carried: list[object]) -> None:
    carried += story
    with pytest.raises(StudyError, match=str(story[-1])):
        Carrier(msgspec.json.encode(INVITATION)).carry()
    assert carried == []
