"""A server on this machine that speaks both services' languages, answers by a script, and checks what it is asked.

It answers as the services are documented to, and as their official SDKs understand it; ``test_backends`` asks it
through those, too. What it says was authored: nothing here tells how good any model is.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

VERSIONS = ("2023-06-01", "2026-10-21")
NO_SAMPLING_SINCE = "2026-10-21"
MOST_BYTES = 32_000_000

SPEND_LIMIT_ANTHROPIC: Mapping[str, Any] = {
    "type": "rate_limit_error",
    "message": "The monthly limit of this organization is reached.",
    "details": {"error_code": "enforced_spend_limit_reached"},
}
QUOTA_OPENAI: Mapping[str, Any] = {
    "message": "You exceeded your current quota, please check your plan and billing details.",
    "type": "insufficient_quota",
    "param": None,
    "code": "insufficient_quota",
}


@dataclass(frozen=True)
class Step:
    """How one request is answered.

    Attributes:
        text: What is said, in one content block, or in several.
        stop: Why it ends, in the service's own word; empty for the ordinary one.
        usage: Tokens of the question, of the answer, kept from before, and newly kept.
        status: The HTTP status; with another one than 200, ``error`` is the body.
        error: Of the failure: type, message, code.
        headers: Further ones.
        pieces: In how many parts a streamed text comes; the parts may split a character.
        pings: So many signs of life come before the text.
        cut: The connection is dropped after so many bytes of the body; None for never.
        clean_end: Whether a stream that is cut ends as if it were whole.
        midway: An error in the middle of a stream.
        waits: Nothing is sent before this is set.
        breathes: Whether signs of life come on and on, and no answer, until the client is gone.
        refuses: Whether the answer is a refusal with words of its own.
        body: What is sent as it is, instead of all this.
    """

    text: str | Sequence[str] = "ready"
    stop: str = ""
    usage: tuple[int, int, int, int] = (20, 5, 0, 0)
    status: int = 200
    error: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    pieces: int = 2
    pings: int = 0
    cut: int | None = None
    clean_end: bool = False
    midway: Mapping[str, Any] | None = None
    waits: threading.Event | None = None
    breathes: bool = False
    refuses: bool = False
    body: bytes | None = None

    @property
    def texts(self) -> Sequence[str]:
        """The content blocks."""
        return [self.text] if isinstance(self.text, str) else self.text


@dataclass(frozen=True)
class Seen:
    """A request that came."""

    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    raw: bytes


class LLMServer:
    """The server; use it in a ``with``.

    Args:
        steps: What the requests get, in their order. One more than these gets a 418, which no client asks again.
        limit_field: How the limit of an answer has to be called in chat completions; empty for either way.
        knows_schema: Whether it takes ``response_format``.
        most_output: Largest limit of an answer that it takes.
        most_bytes: Largest request that it takes.
    """

    def __init__(
        self,
        *steps: Step,
        limit_field: str = "",
        knows_schema: bool = True,
        most_output: int | None = None,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self.steps = list(steps)
        self.seen: list[Seen] = []
        self.limit_field = limit_field
        self.knows_schema = knows_schema
        self.most_output = most_output
        self.most_bytes = most_bytes
        self.closing = threading.Event()
        self._lock = threading.Lock()
        owner = self

        class Handler(_Handler):
            server_of_test = owner

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = False
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), name="llm-server")

    def __enter__(self) -> LLMServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        for step in self.steps:
            if step.waits is not None:
                step.waits.set()
        self._http.shutdown()
        self._http.server_close()  # waits for whoever is still answered
        self._thread.join()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._http.server_address[1])

    @property
    def url(self) -> str:
        """Its address, without a path."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def bodies(self) -> list[Mapping[str, Any]]:
        """The bodies of the requests that came."""
        return [seen.body for seen in self.seen]

    def next_step(self, seen: Seen) -> Step:
        """Note a request, and return what it gets."""
        with self._lock:
            self.seen.append(seen)
            at = len(self.seen) - 1
        too_many = Step(status=418, error={"type": "over", "message": f"No step for request {at + 1}."})
        return self.steps[at] if at < len(self.steps) else too_many


class _Handler(BaseHTTPRequestHandler):
    server_of_test: LLMServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """A request that was redirected may come so."""
        self.do_POST()

    def do_POST(self) -> None:
        self.close_connection = True
        length = int(self.headers.get("content-length") or 0)
        raw = self.rfile.read(length)
        try:
            body = json.loads(raw)
        except ValueError:
            body = {}
        seen = Seen(self.path, {name.lower(): value for name, value in self.headers.items()}, body, raw)
        anthropic = self.path.endswith("/v1/messages")
        step = self.server_of_test.next_step(seen)
        problems = _anthropic_problems if anthropic else _openai_problems
        problem = next(problems(seen, self.server_of_test), None)
        if length > self.server_of_test.most_bytes:
            problem = (413, {"type": "request_too_large", "message": "Request exceeds the maximum size"})
        if problem is not None:
            status, error = problem
            step = Step(status=status, error=error)
        if step.waits is not None:
            step.waits.wait()
        if step.body is not None:
            self._send(step, "application/json", [step.body])
        elif step.status != 200:
            self._send(step, "application/json", [_failure(step, anthropic)])
        elif body.get("stream"):
            events = _anthropic_events if anthropic else _openai_events
            self._send(step, "text/event-stream", events(step, body, self.server_of_test.closing))
        else:
            whole = _anthropic_whole if anthropic else _openai_whole
            self._send(step, "application/json", [json.dumps(whole(step, body)).encode()])

    def _send(self, step: Step, kind: str, parts: Sequence[bytes] | Iterator[bytes]) -> None:
        self.send_response_only(step.status)
        own = {"content-type": kind, "request-id": "req_authored", "x-request-id": "req_authored"}
        for name, value in {**own, "connection": "close", **step.headers}.items():
            self.send_header(name, value)
        if not step.clean_end:
            self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        sent = 0
        try:
            for part in parts:
                left = len(part) if step.cut is None else max(step.cut - sent, 0)
                if part[:left]:
                    self._chunk(part[:left], plain=step.clean_end)
                    sent += len(part[:left])
                if left < len(part):
                    return
            if not step.clean_end:
                self.wfile.write(b"0\r\n\r\n")
        except OSError:  # the client is gone
            pass

    def _chunk(self, part: bytes, *, plain: bool) -> None:
        self.wfile.write(part if plain else b"%x\r\n%s\r\n" % (len(part), part))
        self.wfile.flush()


Problem = tuple[int, Mapping[str, Any]]
"""A status, and an error."""


def _openai_problems(seen: Seen, server: LLMServer) -> Iterator[Problem]:
    """Give what the service would not take."""
    body = seen.body
    if not seen.path.endswith("/chat/completions"):
        yield 404, {"message": f"Unknown request URL: {seen.path}", "type": "invalid_request_error"}
    if not seen.headers.get("authorization", "").startswith("Bearer "):
        yield 401, {"message": "You didn't provide an API key.", "type": "invalid_request_error"}
    if not body.get("messages"):
        yield 400, _bad("messages: too short", "messages")
    for name in ("max_tokens", "max_completion_tokens"):
        if server.limit_field and name in body and name != server.limit_field:
            text = f"Unsupported parameter: '{name}' is not supported with this model. Use '{server.limit_field}'."
            yield 400, _bad(text, name, code="unsupported_parameter")
        if server.most_output is not None and body.get(name, 0) > server.most_output:
            text = (
                f"{name} is too large: {body[name]}. This model supports at most {server.most_output} completion "
                f"tokens, whereas you provided {body[name]}."
            )
            yield 400, _bad(text, name)
    if not server.knows_schema and "response_format" in body:
        yield 400, _bad("'response_format' of type 'json_schema' is not supported.", "response_format")


def _bad(message: str, param: str, *, code: str | None = None) -> Mapping[str, Any]:
    return {"message": message, "type": "invalid_request_error", "param": param, "code": code}


def _anthropic_problems(seen: Seen, server: LLMServer) -> Iterator[Problem]:
    """Give what the service would not take."""
    body, version = seen.body, seen.headers.get("anthropic-version")

    def bad(message: str) -> Problem:
        return 400, {"type": "invalid_request_error", "message": message}

    if version not in VERSIONS:
        yield bad("anthropic-version: header is required")
    if "x-api-key" not in seen.headers and not seen.headers.get("authorization", "").startswith("Bearer "):
        yield 401, {"type": "authentication_error", "message": "a key is required"}
    limit = body.get("max_tokens")
    if not isinstance(limit, int) or limit < 1:
        yield bad("max_tokens: Field required")
    elif server.most_output is not None and limit > server.most_output:
        yield bad(f"max_tokens: {limit} > {server.most_output}, which is the maximum allowed number of output tokens")
    if version == NO_SAMPLING_SINCE and (given := [name for name in ("temperature", "top_p", "top_k") if name in body]):
        yield bad(f"{given[0]}: not permitted")
    messages = body.get("messages", ())
    roles = [message["role"] for message in messages]
    if roles[:1] != ["user"] or any(one == other for one, other in itertools.pairwise(roles)):
        yield bad("messages: roles must alternate")
    if any(not block.get("text") for message in messages for block in _blocks(message)):
        yield bad("messages: text content blocks must be non-empty")


def _blocks(message: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _failure(step: Step, anthropic: bool) -> bytes:
    error = dict(step.error or {"type": "api_error", "message": "Internal server error"})
    if anthropic:
        return json.dumps({"type": "error", "error": error, "request_id": "req_authored"}).encode()
    return json.dumps({"error": {"param": None, "code": None, **error}}).encode()


def _split(data: bytes, pieces: int) -> list[bytes]:
    """Return bytes in pieces: some characters of more than one byte are split."""
    size = max(len(data) // max(pieces, 1), 1)
    return [data[at : at + size] for at in range(0, len(data), size)] or [b""]


def _parts_of(text: str, pieces: int) -> list[str]:
    size = max(-(-len(text) // max(pieces, 1)), 1)
    return [text[at : at + size] for at in range(0, len(text), size)]


def _wire(event: Mapping[str, Any], step: Step, *, named: bool) -> Iterator[bytes]:
    """Give an event as bytes, in pieces that may split a character."""
    name = f"event: {event['type']}\n" if named else ""
    yield from _split(f"{name}data: {json.dumps(event, ensure_ascii=False)}\n\n".encode(), step.pieces)


def _anthropic_usage(step: Step) -> dict[str, Any]:
    asked, answered, kept, written = step.usage
    return {
        "input_tokens": asked - kept - written,
        "output_tokens": answered,
        "cache_read_input_tokens": kept,
        "cache_creation_input_tokens": written,
    }


def _anthropic_whole(step: Step, body: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": "msg_authored",
        "type": "message",
        "role": "assistant",
        "model": body.get("model"),
        "content": [{"type": "text", "text": text} for text in step.texts if text],
        "stop_reason": step.stop or ("refusal" if step.refuses else "end_turn"),
        "stop_sequence": None,
        "usage": _anthropic_usage(step),
    }


def _anthropic_events(step: Step, body: Mapping[str, Any], closing: threading.Event) -> Iterator[bytes]:
    begun = {**_anthropic_whole(step, body), "content": [], "stop_reason": None}
    begun["usage"] = {**begun["usage"], "output_tokens": 1}
    yield from _wire({"type": "message_start", "message": begun}, step, named=True)
    for _ in range(step.pings):
        yield from _wire({"type": "ping"}, step, named=True)
    while step.breathes and not closing.wait(0.01):
        yield from _wire({"type": "ping"}, step, named=True)
    for index, text in enumerate(step.texts if step.text else ()):
        start = {"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": ""}}
        yield from _wire(start, step, named=True)
        for part in _parts_of(text, step.pieces):
            delta = {"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": part}}
            yield from _wire(delta, step, named=True)
        if step.midway is not None:
            yield from _wire({"type": "error", "error": step.midway}, step, named=True)
            return
        yield from _wire({"type": "content_block_stop", "index": index}, step, named=True)
    whole = _anthropic_whole(step, body)
    last = {
        "type": "message_delta",
        "delta": {"stop_reason": whole["stop_reason"], "stop_sequence": None},
        "usage": {"output_tokens": step.usage[1]},
    }
    yield from _wire(last, step, named=True)
    yield from _wire({"type": "message_stop"}, step, named=True)


def _openai_usage(step: Step) -> dict[str, Any]:
    asked, answered, kept, _ = step.usage
    return {
        "prompt_tokens": asked,
        "completion_tokens": answered,
        "total_tokens": asked + answered,
        "prompt_tokens_details": {"cached_tokens": kept},
    }


def _openai_frame(step: Step, body: Mapping[str, Any], kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-authored", "object": kind, "created": 1, "model": body.get("model")}


def _openai_whole(step: Step, body: Mapping[str, Any]) -> dict[str, Any]:
    text = "".join(step.texts)
    message = {"role": "assistant", "content": None if step.refuses else text}
    message["refusal"] = text if step.refuses else None
    choice = {"index": 0, "message": message, "finish_reason": step.stop or "stop", "logprobs": None}
    return {**_openai_frame(step, body, "chat.completion"), "choices": [choice], "usage": _openai_usage(step)}


def _openai_events(step: Step, body: Mapping[str, Any], closing: threading.Event) -> Iterator[bytes]:
    frame = _openai_frame(step, body, "chat.completion.chunk")

    def chunk(delta: Mapping[str, Any], stop: str | None = None) -> dict[str, Any]:
        return {**frame, "choices": [{"index": 0, "delta": delta, "finish_reason": stop}]}

    yield from _wire(chunk({"role": "assistant", "content": ""}), step, named=False)
    for _ in range(step.pings):
        yield b": keep-alive\n\n"
    while step.breathes and not closing.wait(0.01):
        yield b": keep-alive\n\n"
    for part in _parts_of("".join(step.texts), step.pieces):
        yield from _wire(chunk({"refusal" if step.refuses else "content": part}), step, named=False)
    if step.midway is not None:
        yield from _wire({"error": step.midway}, step, named=False)
        return
    yield from _wire(chunk({}, step.stop or "stop"), step, named=False)
    if (body.get("stream_options") or {}).get("include_usage"):
        yield from _wire({**frame, "choices": [], "usage": _openai_usage(step)}, step, named=False)
    yield b"data: [DONE]\n\n"
