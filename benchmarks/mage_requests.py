"""How often a service is asked that has said that no more may be spent."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from benchmarks.common import Benchmark, Cell, Quantity, Result, Target

ANSWERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "anthropic": {
        "type": "error",
        "error": {
            "type": "rate_limit_error",
            "message": "The monthly limit is reached.",
            "details": {"error_code": "enforced_spend_limit_reached"},
        },
    },
    "openai": {
        "error": {
            "type": "insufficient_quota",
            "code": "insufficient_quota",
            "message": "You exceeded your current quota.",
            "param": None,
        }
    },
}
"""What the services say, with a 429 and no ``retry-after``."""

MODEL: Final = "a-model"
KEY: Final = "no-key-at-all"


@contextmanager
def refusing(service: str) -> Iterator[tuple[str, list[str]]]:
    """Give the address of a server that refuses all it is asked, and what it was asked."""
    asked: list[str] = []
    answer = json.dumps(ANSWERS[service]).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            asked.append(self.path)
            self.send_response(429)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", asked
        finally:
            server.shutdown()
            thread.join()


def by_us(service: str, url: str) -> None:
    import time

    from etude.core.clock import WallClock
    from etude.mage.asking.asker import SMALL, Asker
    from etude.mage.asking.budget import Budget
    from etude.mage.backends.caching import NoCache
    from etude.mage.backends.naming import backend_of

    backend = backend_of(f"{service}:{MODEL}", base_url=url, environment={"ETUDE_API_KEY": KEY})
    how: dict[str, Any] = {"cache": NoCache(), "clock": WallClock(), "sleep": time.sleep}
    Asker(backend, Budget(), draw=lambda: 0.5, say=lambda _: None, **how).ask(SMALL)


def by_the_sdk(service: str, url: str) -> None:
    """Ask by an official SDK with its defaults."""
    said: list[Any] = [{"role": "user", "content": "Answer with the word ready."}]
    if service == "anthropic":
        import anthropic

        with anthropic.Anthropic(api_key=KEY, base_url=url) as client:
            client.messages.create(model=MODEL, max_tokens=64, messages=said)
    else:
        import openai

        with openai.OpenAI(api_key=KEY, base_url=f"{url}/v1") as other:
            other.chat.completions.create(model=MODEL, max_tokens=64, messages=said)


ASKING: Final[Mapping[str, Callable[[str, str], None]]] = {"étude": by_us, "SDK": by_the_sdk}


def cells(small: bool) -> Sequence[Cell]:
    return [Cell(f"{who}, {service}", {"who": who, "service": service}) for service in ANSWERS for who in ASKING]


def work(args: Mapping[str, Any], place: Path) -> Result:
    import time

    with refusing(args["service"]) as (url, asked):
        began_s = time.perf_counter()
        try:
            ASKING[args["who"]](args["service"], url)
        except Exception as error:
            told = str(error)
        else:
            raise AssertionError("it was refused, and nobody was told")
        took_s = time.perf_counter() - began_s
    assert "spend limit" in told or "429" in told, told
    return {"requests": len(asked), "until_told_s": took_s}


BENCHMARK = Benchmark(
    name="mage_requests",
    cells=cells,
    work=work,
    quantities=(Quantity("requests", "", 0), Quantity("until_told_s", "s", 2)),
    targets=tuple(
        Target(
            f"requests for one spend limit, {service}", f"étude, {service}: requests", 1, "", at_least=False, worst=True
        )
        for service in ANSWERS
    ),
    note=(
        "requests: how many one question becomes when the service answers 429 because the account may spend no more:\n"
        "Anthropic without retry-after, OpenAI with insufficient_quota. The SDKs are asked with their defaults.\n"
        "until told: seconds until whoever asked knows, the import of the SDK included."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
