"""The server over a real socket: what it answers, and to whom."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import queue
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from served import Serve, Served

import etude
from etude.core.events import AnyFact
from etude.store.journal import Journal
from etude.store.mirror import Mirror
from etude.store.remote import Remote
from etude.studies.at_work import STOP_FILE
from etude.testing.written import Written, begin_study, write_study

TRIALS = [Written({"lr": n / 10}, 0.5 + n / 100, curve=[0.1, 0.2]) for n in range(6)]


class Client:
    """Speaks HTTP with a view, as a browser with its cookie would."""

    def __init__(self, served: Served) -> None:
        self.served = served
        token = served.link.partition("token=")[2]
        self.cookie = f"etude-view-{served.port}={token}"

    def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", int(self.served.port), timeout=60)
        try:
            connection.request(method, path, headers={"Cookie": self.cookie, **headers})
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def told(self, path: str, method: str = "GET") -> Any:
        return json.loads(self.ask(path, method)[2])

    def events(self, path: str, **headers: str) -> Generator[tuple[str, str, Any], None, None]:
        """Yield kind, id and data of what comes, until the test looks no more."""
        connection = http.client.HTTPConnection("127.0.0.1", int(self.served.port), timeout=60)
        answer = None
        try:
            connection.request("GET", path, headers={"Cookie": self.cookie, **headers})
            answer = connection.getresponse()
            assert answer.getheader("content-type", "").startswith("text/event-stream")
            lines: list[str] = []
            while line := answer.readline():
                if line.strip():
                    lines.append(line.decode().rstrip("\n"))
                elif lines:
                    fields = dict(one.partition(": ")[::2] for one in lines)
                    lines = []
                    if fields.get("event"):
                        yield fields["event"], fields.get("id", ""), json.loads(fields["data"])
        finally:
            if answer is not None:
                answer.close()
            connection.close()


def test_the_link_leads_to_the_study_without_the_token_in_its_address(tmp_path: Path, serve: Serve) -> None:
    client = Client(serve(write_study(tmp_path / "s", TRIALS)))
    connection = http.client.HTTPConnection("127.0.0.1", int(client.served.port), timeout=60)
    connection.request("GET", client.served.link.removeprefix(client.served.address))
    first = connection.getresponse()
    first.read()
    connection.close()
    cookie = first.getheader("set-cookie", "")
    assert (first.status, first.getheader("location")) == (303, "/")
    assert cookie.startswith(client.cookie)
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    status, headers, _ = client.ask("/")
    assert (status, headers["location"]) == (303, "/study/s")
    status, headers, body = client.ask("/study/s")
    assert status == 200
    assert b"<h1>s</h1>" in body
    assert {name: headers[name] for name in ("cache-control", "x-content-type-options", "x-frame-options")} == {
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
    }
    assert "server" not in headers


def test_without_the_cookie_nothing_is_answered(tmp_path: Path, serve: Serve) -> None:
    client = Client(serve(write_study(tmp_path / "s", TRIALS)))
    client.cookie = "etude-view=wrong"
    for path in ("/", "/studies", "/study/s", "/study/s/events", "/study/s/trials/0", "/nowhere"):
        status, _, body = client.ask(path)
        assert status == 403, path
        assert json.loads(body)["error"].startswith("This link has no token")
    assert client.ask("/study/s/stop", "POST")[0] == 403


def test_events_are_all_then_what_is_new_then_only_that_to_who_comes_back(tmp_path: Path, serve: Serve) -> None:
    journal, facts = begin_study(tmp_path / "s", TRIALS)
    journal.append(facts[:10])
    client = Client(serve(tmp_path / "s"))
    events = client.events("/study/s/events")
    kind, number, data = next(events)
    assert (kind, data["rows"]["whole"], data["rows"]["seq"]) == ("study", True, 10)
    assert data["head"]["standing"] == "at work"
    journal.append(facts[10:])
    kind, number, data = next(events)
    assert (data["rows"]["whole"], data["rows"]["seq"]) == (False, len(facts))
    journal.lease.release()
    while data["head"]["standing"] != "complete":
        kind, number, data = next(events)
    assert data["rows"] is None, "nobody works on it any more, and no fact has come"
    events.close()
    edition = number.partition(".")[0]
    again = client.events("/study/s/events", **{"Last-Event-ID": f"{edition}.{len(facts) - 3}"})
    _, _, data = next(again)
    assert (data["rows"]["whole"], data["rows"]["seq"]) == (False, len(facts))
    assert len(data["rows"]["trials"]) <= 3
    again.close()
    journal.close()


@contextlib.contextmanager
def mirrored(folder: Path, url: str, journal: Journal) -> Iterator[Callable[[list[AnyFact]], None]]:
    """Give what appends facts to a study's journal and returns when its mirror has them: that ships when asked."""
    shipped: queue.Queue[int | BaseException] = queue.Queue()
    mirror = Mirror(folder, Remote(url), every_s=600.0)
    mirror.attach(note=print)
    mirror.start(fail=shipped.put, shipped=lambda: shipped.put(mirror.upto))

    def ship(facts: list[AnyFact]) -> None:
        journal.append(facts)
        mirror.wake()
        while (upto := shipped.get(timeout=60)) != journal.seq:
            assert isinstance(upto, int), upto

    try:
        yield ship
    finally:
        mirror.close(journal.seq)


@pytest.mark.parametrize("place", ["file://{}/mirrors/s", "{}/mirrors/s"])
def test_a_mirror_is_followed_while_the_study_grows_elsewhere(tmp_path: Path, serve: Serve, place: str) -> None:
    folder, url = tmp_path / "elsewhere" / "s", place.format(tmp_path)
    journal, facts = begin_study(folder, TRIALS)
    log = folder / "trials" / "00000" / "attempt-1" / "log.txt"
    log.parent.mkdir(parents=True)
    log.write_text("epoch 1\n")
    with contextlib.closing(journal), mirrored(folder, url, journal) as ship:
        ship(facts[:10])
        client = Client(serve(url))
        with contextlib.closing(client.events("/study/s/events")) as events:
            _, _, data = next(events)
            assert (data["rows"]["whole"], data["rows"]["seq"]) == (True, 10)
            assert client.told("/study/s/trials/0/log/1")["text"] == "epoch 1\n"
            for begin, end in ((10, 20), (20, len(facts))):
                ship(facts[begin:end])
                _, _, data = next(events)
                assert (data["head"]["trouble"], data["rows"]["whole"], data["rows"]["seq"]) == ("", False, end)
        assert (data["head"]["standing"], data["head"]["counts"]) == ("complete", {"finished": 6})
        assert client.told("/study/s/stop", "POST")["error"].startswith("This view only shows.")


def test_all_about_a_trial_and_what_it_printed(tmp_path: Path, serve: Serve) -> None:
    folder = write_study(tmp_path / "s", [*TRIALS, Written({"lr": 9.0}, state="failed", reason="it exploded")])
    log = folder / "trials" / "00006" / "attempt-1" / "log.txt"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"x" * 300_000 + "über\n".encode())
    client = Client(serve(folder))
    next(client.events("/study/s/events"))
    told = client.told("/study/s/trials/6")
    assert (told["state"], told["reason"], told["params"]) == ("failed", "it exploded", {"lr": "9"})
    assert [(one["step"], one["accuracy"]) for one in client.told("/study/s/trials/0")["reports"]] == [
        (1, 0.1),
        (2, 0.2),
    ]
    end = client.told("/study/s/trials/6/log/1")
    assert (end["cut"], end["end"], end["text"][-5:]) == (True, 300_006, "über\n")
    assert client.told("/study/s/trials/6/log/1?after=300000") == {"text": "über\n", "end": 300_006, "cut": False}
    with log.open("ab") as file:
        file.write("ä".encode()[:1])
    assert client.told("/study/s/trials/6/log/1?after=300006") == {"text": "", "end": 300_006, "cut": False}
    with log.open("ab") as file:
        file.write("ä".encode()[1:])
    assert client.told("/study/s/trials/6/log/1?after=300006") == {"text": "ä", "end": 300_008, "cut": False}
    assert client.told("/study/s/trials/0/log/1") == {"text": "", "end": 0, "cut": False}
    status, _, body = client.ask("/study/s/trials/7")
    assert (status, json.loads(body)) == (
        409,
        {"error": "There is no trial 7: the study has 7, numbered from 0."},
    )
    assert client.ask("/study/s/trials/..%2F..%2Fetc/log/1")[0] == 404


def test_it_stops_nothing_unless_it_may_and_then_the_driver_finds_the_request(tmp_path: Path, serve: Serve) -> None:
    journal, facts = begin_study(tmp_path / "s", TRIALS)
    journal.append(facts)
    only_shows = Client(serve(tmp_path / "s"))
    assert only_shows.told("/study/s/stop", "POST") == {
        "error": "This view only shows. Start it with --allow-stop, or run: etude stop s"
    }
    assert not (tmp_path / "s" / STOP_FILE).exists()
    may = Client(serve(tmp_path / "s", "--allow-stop"))
    assert may.ask("/study/s/stop")[0] == 405, "looking stops nothing"
    assert may.ask("/study/s/stop", "POST", Origin="http://evil.example")[0] == 403
    assert not (tmp_path / "s" / STOP_FILE).exists()
    assert may.told("/study/s/stop", "POST") == {"asked": True}
    assert (tmp_path / "s" / STOP_FILE).exists()
    (tmp_path / "s" / STOP_FILE).unlink()
    journal.lease.release()
    journal.close()
    assert may.told("/study/s/stop", "POST") == {"error": "Nobody works on study s, so there is nothing to stop."}


def test_a_real_study_is_followed_and_stopped_from_the_page(live: etude.Search, serve: Serve) -> None:
    client = Client(serve(live.folder, "--allow-stop"))
    events = client.events("/study/live/events")
    grown: dict[int, int] = {}
    for _, _, data in events:
        for curve in (data.get("rows") or {}).get("curves", []):
            grown[curve["trial"]] = grown.get(curve["trial"], 0) + 1
        if sorted(grown) == [0, 1] and min(grown.values()) > 1:
            break
    assert client.told("/study/live/stop", "POST") == {"asked": True}
    states = set()
    for _, _, data in events:
        states |= {row[1] for row in (data.get("rows") or {}).get("trials", [])}
        standing = data.get("head", {}).get("standing")
        assert standing != "complete", "it ended before anybody stopped it"
        if standing == "not complete":
            break
    events.close()
    assert "stopped" in states or "queued" in states
    live.wait()


def test_a_folder_of_studies_is_a_list_that_goes_on_while_studies_come_and_go(tmp_path: Path, serve: Serve) -> None:
    write_study(tmp_path / "one", TRIALS)
    write_study(tmp_path / "<b>two", TRIALS[:2], metrics={"loss": "min"})
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "journal.sqlite").write_text("nonsense")
    client = Client(serve(tmp_path))
    assert client.ask("/")[0] == 200
    rows = {row["study"]: row for row in client.told("/studies")}
    assert (rows["one"]["standing"], rows["one"]["trials"], rows["one"]["best"]) == ("complete", 6, 0.55)
    assert rows["<b>two"]["metrics"] == {"loss": "min"}
    assert rows["broken"]["standing"].startswith("unreadable: ")
    assert client.ask("/study/%3Cb%3Etwo")[0] == 200
    _, _, data = next(client.events("/study/%3Cb%3Etwo/events"))
    assert len(data["rows"]["trials"]) == 2
    write_study(tmp_path / "three", TRIALS[:1])
    assert "three" in {row["study"] for row in client.told("/studies")}
    status, _, body = client.ask("/study/four")
    assert (status, json.loads(body)["error"]) == (404, f"There is no study four in {tmp_path}.")


def test_ctrl_c_ends_it_at_once_also_while_somebody_looks(tmp_path: Path, serve: Serve) -> None:
    served = serve(write_study(tmp_path / "s", TRIALS))
    events = Client(served).events("/study/s/events")
    next(events)
    assert (served.end(), served.said) == (0, "")
    assert list(events) == []


def ran(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from etude.cli import main; main()", "view", *args]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **env}, check=False, timeout=120)


def test_what_cannot_be_shown_is_refused_before_anything_is_served(tmp_path: Path, serve: Serve) -> None:
    served = serve(write_study(tmp_path / "s", TRIALS))
    taken = ran(str(tmp_path / "s"), "--port", served.port)
    assert (taken.returncode, taken.stderr) == (
        2,
        f"Nothing can be served at 127.0.0.1, port {served.port}: Address already in use. "
        "Name another --port, or an address of this machine as --host.\n",
    )
    nothing = ran(str(tmp_path / "t"))
    assert nothing.returncode == 1
    assert nothing.stderr.startswith(f"There is no study {tmp_path / 't'}.")


@pytest.mark.parametrize("missing", ["starlette", "uvicorn"])
def test_without_its_extra_it_says_what_to_install(tmp_path: Path, missing: str) -> None:
    folder = write_study(tmp_path / "s", TRIALS)
    code = f"import sys; sys.modules[{missing!r}] = None; from etude.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "view", str(folder)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 2
    assert done.stderr == (
        f"etude view serves its page with Starlette and uvicorn, and '{missing}' is missing. "
        "Install them: pip install 'etude[view]'.\n"
    )
