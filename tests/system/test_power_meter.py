"""A power meter is asked over HTTP, beside a training that it never holds up. The server here is a real one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tests.system.turns import PATIENCE_S, Turns

from etude.core.errors import ConfigError
from etude.system.energy import Energy, Label
from etude.system.meters.best import best_meter
from etude.system.meters.power_meter import PowerMeter


class Server:
    """A power meter on this machine: answers what a test says, one after the other, and the last one again."""

    def __init__(self) -> None:
        self.answers: list[str] = []
        self.asked = threading.Event()
        self.may_answer = threading.Event()
        self.may_answer.set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.set()
                assert outer.may_answer.wait(PATIENCE_S)
                answer = outer.answers.pop(0) if len(outer.answers) > 1 else outer.answers[0]
                body = answer.encode()
                self.send_response(500 if answer == "broken" else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.host = f"127.0.0.1:{self._server.server_address[1]}"
        self.url = f"http://{self.host}/power"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def measured(server: Server, turns: Turns, answers: list[str], *, field: str = "power") -> Energy:
    """Return what a meter says that is asked once for each answer, a second apart."""
    server.answers = list(answers)
    meter = PowerMeter(server.url, field=field, timeout_s=PATIENCE_S, now_s=turns.now_s, wait=turns.wait)
    meter.begin()
    for _ in answers[1:]:
        turns.let_pass(1.0)
    turns.pause()
    energy = meter.end()
    turns.go_on()
    return energy


def test_power_is_read_each_second_and_integrated(server: Server) -> None:
    energy = measured(server, Turns(), ["10", "20.0", " 40\n"])
    assert energy == Energy.measured(15 + 30, f"power meter at {server.host}")


@pytest.mark.parametrize(
    ("answer", "field"),
    [('{"power": 12.5}', "power"), ('{"outlets": [{"w": 1}, {"w": 12.5}]}', "outlets.1.w"), ("12.5", "any")],
)
def test_an_answer_is_a_number_or_has_one(server: Server, answer: str, field: str) -> None:
    assert measured(server, Turns(), [answer, answer], field=field).joules == 12.5


def test_readings_that_are_missing_widen_the_bounds_and_are_told(server: Server) -> None:
    energy = measured(server, Turns(), ["10", "broken", "nonsense", "20"])
    assert str(energy) == f"45 J measured (18 to 84), power meter at {server.host}, readings missing"


@pytest.mark.parametrize(
    "answer", ["NaN", "-3", "true", "[]", '{"watts": 3}', '{"power": "3"}', "<html>", "Infinity", "1e300"]
)
def test_an_answer_without_watts_is_no_reading(server: Server, answer: str) -> None:
    server.answers = [answer]
    meter = PowerMeter(server.url)
    assert meter.lacks().startswith(f"power meter at {server.host} answers ")
    assert "Pass field=, if it lies elsewhere." in meter.lacks()


def test_a_meter_that_is_silent_for_long_is_unavailable(server: Server) -> None:
    energy = measured(server, Turns(), ["10", *["broken"] * 11, "10"])
    assert energy.label is Label.UNAVAILABLE
    assert f"power meter at {server.host} gave no reading for 12 s, longer than 10 s" in energy.source
    assert "HTTP Error 500" in energy.source


def test_a_meter_that_hangs_holds_nobody_up(server: Server) -> None:
    turns = Turns()
    server.answers = ["10"]
    server.may_answer.clear()
    meter = PowerMeter(server.url, timeout_s=PATIENCE_S, now_s=turns.now_s, wait=turns.wait)
    meter.begin()
    assert server.asked.wait(PATIENCE_S)
    turns.time_s = 3.0
    energy = meter.end()  # comes back though the answer is still to come
    server.may_answer.set()
    turns.go_on()
    assert str(energy) == f"energy unavailable: power meter at {server.host} gave no reading in 3 s"


def test_a_stretch_that_begins_while_the_last_one_hangs_is_its_own(server: Server) -> None:
    first, second = Turns(), Turns()
    server.answers = ["10"]
    server.may_answer.clear()
    late = PowerMeter(server.url, timeout_s=PATIENCE_S, now_s=first.now_s, wait=first.wait)
    late.begin()
    assert server.asked.wait(PATIENCE_S)
    late.end()
    server.may_answer.set()
    first.go_on()
    assert measured(server, second, ["30", "30"]).joules == 30.0


def test_a_meter_that_is_not_there_is_passed_over_with_the_reason(server: Server) -> None:
    url = server.url
    server.answers = ["12"]
    assert best_meter(url=url).meter.source == f"power meter at {server.host}"
    server.answers = ["broken"]
    found = best_meter(url=url)
    assert found.passed_over[0][0] == f"power meter at {server.host}"
    assert "does not answer: HTTP Error 500" in found.passed_over[0][1]


def test_a_password_in_the_address_is_not_shown() -> None:
    assert PowerMeter("http://user:secret@10.0.0.7:8080/power?key=1").source == "power meter at 10.0.0.7:8080"


@pytest.mark.parametrize(
    "url", ["", "10.0.0.7/power", "ftp://10.0.0.7", "file:///etc/passwd", "http://:80", "http://a:b"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        PowerMeter(url)
    assert str(refused.value) == (
        f"url={url!r} (str) is no address of a power meter. Pass one as in 'http://10.0.0.7/power'."
    )
