"""Both services: our backends and both official SDKs get the same from one server, and it takes what they send."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from llm_server import QUOTA_OPENAI, SPEND_LIMIT_ANTHROPIC, LLMServer, Step

from etude.core.errors import BackendError, ConfigError
from etude.mage.asking.asker import SMALL
from etude.mage.backends.capabilities import capability_of
from etude.mage.backends.naming import backend_of, check_ready
from etude.mage.backends.protocol import Message, Reply, Request, StopReason, Usage
from etude.mage.backends.services import Service

KEY = "sk-a-secret-of-the-tests-0123456789"
SERVICES = ("anthropic", "openai")
LONG = "Zeile für Zeile: naïve Größen, 変異 und 🎼 – " * 7

REQUEST = Request(system="Be short.", messages=(Message(role="user", text="Say ready."),), most_tokens=100)


def backend_at(server: LLMServer, service: str, **options: Any) -> Service:
    model = "claude-opus-5" if service == "anthropic" else "some-model"
    found = backend_of(f"{service}:{model}", base_url=server.url, environment={"ETUDE_API_KEY": KEY}, **options)
    assert isinstance(found, Service)
    return found


def sdk_at(server: LLMServer, service: str, **options: Any) -> Any:
    if service == "anthropic":
        return anthropic.Anthropic(api_key=KEY, base_url=server.url, **options)
    return openai.OpenAI(api_key=KEY, base_url=f"{server.url}/v1", **options)


def ask_sdk(client: Any, service: str, *, streamed: bool) -> tuple[str, str, int, int]:
    """Ask through an official SDK as its manual shows it; return text, its word for the end, and tokens."""
    said = [{"role": "user", "content": "Say ready."}]
    if service == "anthropic":
        ask = {"model": "claude-opus-5", "max_tokens": 100, "messages": said}
        if streamed:
            with client.messages.stream(**ask) as stream:
                message = stream.get_final_message()
        else:
            message = client.messages.create(**ask)
        text = "".join(block.text for block in message.content if block.type == "text")
        return text, message.stop_reason, message.usage.input_tokens, message.usage.output_tokens
    ask = {"model": "some-model", "max_tokens": 100, "messages": said}
    if not streamed:
        whole = client.chat.completions.create(**ask)
        choice, usage = whole.choices[0], whole.usage
        text = choice.message.content or choice.message.refusal or ""
        return text, choice.finish_reason, usage.prompt_tokens, usage.completion_tokens
    text, stop, usage = "", "", None
    with client.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True}) as stream:
        for chunk in stream:
            usage = chunk.usage or usage
            for choice in chunk.choices:
                text += choice.delta.content or choice.delta.refusal or ""
                stop = choice.finish_reason or stop
    return text, stop, usage.prompt_tokens, usage.completion_tokens


def failure_of(backend: Service, request: Request = REQUEST) -> BackendError:
    with pytest.raises(BackendError) as failed:
        backend.ask(request)
    return failed.value


# --- what is answered -----------------------------------------------------------------------------

CASES: dict[str, tuple[dict[str, Any], StopReason]] = {
    "plain": ({"text": "ready"}, StopReason.COMPLETE),
    "split characters": ({"text": LONG, "pieces": 17}, StopReason.COMPLETE),
    "signs of life": ({"text": "ready", "pings": 3}, StopReason.COMPLETE),
    "two blocks": ({"text": ("first, ", "second")}, StopReason.COMPLETE),
    "empty": ({"text": ""}, StopReason.COMPLETE),
    "cut off": ({"text": "half of", "stop": "the limit"}, StopReason.CUT_OFF),
    "refused": ({"text": "I would rather not.", "refuses": True}, StopReason.REFUSED),
    "filtered": ({"text": "", "stop": "the filter"}, StopReason.REFUSED),
    "for a tool": ({"text": "", "stop": "a tool"}, StopReason.OTHER),
}
WORDS = {
    "anthropic": {"the limit": "max_tokens", "the filter": "refusal", "a tool": "tool_use"},
    "openai": {"the limit": "length", "the filter": "content_filter", "a tool": "tool_calls"},
}


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("case", CASES)
def test_our_backends_understand_what_both_sdks_understand(service: str, case: str) -> None:
    how, stop = CASES[case]
    step = Step(**{**how, "stop": WORDS[service].get(how.get("stop", ""), ""), "usage": (321, 45, 0, 0)})
    with LLMServer(step, step, step) as server:
        reply = backend_at(server, service).ask(REQUEST)
        with sdk_at(server, service) as client:
            streamed = ask_sdk(client, service, streamed=True)
            plain = ask_sdk(client, service, streamed=False)
    assert streamed == plain == (reply.text, plain[1], reply.usage.input, reply.usage.output)
    assert reply.text == "".join(step.texts)
    assert reply.stop is stop
    assert (reply.usage.input, reply.usage.output) == (321, 45)
    assert reply.request == "req_authored"
    assert reply.model == server.bodies[0]["model"]
    assert len(server.seen) == 3


@pytest.mark.parametrize("service", SERVICES)
def test_what_comes_is_kept_byte_for_byte_and_holds_no_type_of_an_sdk(service: str) -> None:
    with LLMServer(Step(text=LONG, pieces=31)) as server:
        reply = backend_at(server, service).ask(REQUEST)
    assert type(reply) is Reply
    assert type(reply.text) is str
    assert type(reply.usage) is Usage
    assert reply.raw is not None
    assert reply.raw.startswith((b"event: message_start", b'data: {"id": "chatcmpl-authored"'))
    assert LONG[-8:].encode() in reply.raw


@pytest.mark.parametrize("service", SERVICES)
def test_what_the_service_had_kept_is_part_of_the_question(service: str) -> None:
    written = 300 if service == "anthropic" else 0
    with LLMServer(Step(usage=(1000, 5, 600, written))) as server:
        usage = backend_at(server, service).ask(REQUEST).usage
    assert (usage.input, usage.output, usage.cached) == (1000, 5, 600)
    assert (usage.written or 0) == written


def test_a_server_that_tells_no_usage_leaves_it_unknown() -> None:
    step = b'data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":'
    step += b'{"content":"ready"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    with LLMServer(Step(body=step, headers={"content-type": "text/event-stream"})) as server:
        reply = backend_at(server, "openai").ask(REQUEST)
    assert reply.text == "ready"
    assert reply.usage == Usage()


# --- what is sent ---------------------------------------------------------------------------------


@pytest.mark.parametrize("service", SERVICES)
def test_no_sampling_is_sent_unless_somebody_sets_it(service: str) -> None:
    warm = Request(system="", messages=REQUEST.messages, most_tokens=9, sampling={"temperature": 0.5})
    with LLMServer(Step(), Step()) as server:
        backend_at(server, service).ask(REQUEST)
        asked = backend_at(server, service)
        if service == "openai":
            asked.ask(warm)
        else:  # the newest version takes none, and says so
            failed = failure_of(asked, warm)
            assert (failed.code, failed.may_retry) == ("bad request", False)
            assert "temperature: not permitted" in str(failed)
    assert not {"temperature", "top_p", "top_k", "seed"} & set(server.bodies[0])
    assert server.bodies[1]["temperature"] == 0.5
    assert len(server.seen) == 2


@pytest.mark.parametrize("service", SERVICES)
def test_what_would_be_sent_can_be_looked_at_and_is_what_is_sent(service: str) -> None:
    request = Request(system="Be short.", messages=(Message(role="user", text=LONG + '\n"Say ready."'),), most_tokens=9)
    with LLMServer(Step()) as server:
        backend = backend_at(server, service)
        shown, sent = backend.body(request), backend.sent(request)
        backend.ask(request)
    assert server.bodies == [{**shown, "stream": True}]
    assert json.loads(sent) == server.bodies[0]
    assert len(sent) == len(server.seen[0].raw)  # the SDKs order the keys otherwise


@pytest.mark.parametrize("service", SERVICES)
def test_no_more_is_asked_for_than_a_model_can_give(service: str) -> None:
    with LLMServer(Step()) as server:
        backend = backend_at(server, service)
        backend.ask(Request(system="", messages=REQUEST.messages, most_tokens=10**9))
    assert server.bodies[0]["max_tokens"] == backend.capability.most_output


# --- what fails -----------------------------------------------------------------------------------

RATE = {"type": "rate_limit_error", "message": "Slow down."}
FAILURES: dict[str, tuple[int, dict[str, Any], dict[str, str], str, bool]] = {
    "bad request": (400, {"type": "invalid_request_error", "message": "No."}, {}, "bad request", False),
    "key": (401, {"type": "authentication_error", "message": "No."}, {}, "key", False),
    "billing": (402, {"type": "billing_error", "message": "No."}, {}, "spend limit", False),
    "permission": (403, {"type": "permission_error", "message": "No."}, {}, "key", False),
    "model": (404, {"type": "not_found_error", "message": "model: x"}, {}, "unknown model", False),
    "request timeout": (408, {"type": "timeout_error", "message": "No."}, {}, "server", True),
    "conflict": (409, {"type": "conflict_error", "message": "No."}, {}, "server", True),
    "size": (413, {"type": "request_too_large", "message": "No."}, {}, "too large", False),
    "length": (400, {"type": "invalid_request_error", "message": "prompt is too long: 9 > 8"}, {}, "too large", False),
    "rate": (429, RATE, {"retry-after": "1"}, "rate limit", True),
    "endless rate": (429, RATE, {"retry-after": "inf"}, "rate limit", False),
    "server": (500, {"type": "api_error", "message": "No."}, {}, "server", True),
    "not to be asked again": (
        500,
        {"type": "api_error", "message": "No."},
        {"x-should-retry": "false"},
        "server",
        False,
    ),
    "gateway": (502, {"type": "api_error", "message": "No."}, {}, "server", True),
    "overloaded": (529, {"type": "overloaded_error", "message": "No."}, {}, "overloaded", True),
}


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("case", FAILURES)
def test_failures_are_of_the_kind_that_the_sdk_finds_and_one_request_each(service: str, case: str) -> None:
    status, error, headers, code, may_retry = FAILURES[case]
    step = Step(status=status, error=error, headers=headers)
    with LLMServer(step, step) as server:
        failed = failure_of(backend_at(server, service))
        with sdk_at(server, service, max_retries=0) as client, pytest.raises(Exception, match=r".") as from_sdk:
            ask_sdk(client, service, streamed=False)
    assert (failed.code, failed.may_retry, failed.status) == (code, may_retry, status)
    assert getattr(from_sdk.value, "status_code") == status  # noqa: B009 - SDKs' classes differ
    assert len(server.seen) == 2
    assert failed.__cause__ is None
    assert failed.__context__ is None  # errors of an SDK hold the request, and with it the key


@pytest.mark.parametrize(
    ("service", "error", "told"),
    [
        (
            "anthropic",
            SPEND_LIMIT_ANTHROPIC,
            "Provider says the monthly spend limit is reached (429, no retry-after).",
        ),
        ("openai", QUOTA_OPENAI, "Provider says the end of what is paid is reached (429, insufficient_quota)."),
        (
            "openai",
            {"message": "No.", "type": "insufficient_quota", "code": "project_spend_limit_exceeded"},
            "Provider says the spend limit is reached (429, project_spend_limit_exceeded).",
        ),
    ],
)
def test_a_spend_limit_is_no_rate_that_passes(service: str, error: dict[str, Any], told: str) -> None:
    with LLMServer(Step(status=429, error=error)) as server:
        failed = failure_of(backend_at(server, service))
    assert (failed.code, failed.may_retry) == ("spend limit", False)
    assert str(failed) == told
    assert len(server.seen) == 1


def test_a_spend_limit_of_the_users_own_is_one_too() -> None:
    error = {"type": "invalid_request_error", "message": "You have reached your specified API usage limits."}
    with LLMServer(Step(status=400, error=error)) as server:
        failed = failure_of(backend_at(server, "anthropic"))
    assert (failed.code, failed.may_retry) == ("spend limit", False)
    assert str(failed) == "Provider says the spend limit is reached (400)."


@pytest.mark.parametrize("service", SERVICES)
def test_a_wait_is_read_however_it_is_written(service: str) -> None:
    dates = {"retry-after": "Tue, 24 Nov 2026 10:00:07 GMT", "date": "Tue, 24 Nov 2026 10:00:00 GMT"}
    waits = [({"retry-after": "1"}, 1.0), ({"retry-after-ms": "250"}, 0.25), (dates, 7.0)]
    steps = [Step(status=429, error=RATE, headers=headers) for headers, _ in waits]
    with LLMServer(*steps) as server:
        backend = backend_at(server, service)
        found = [failure_of(backend).after_s for _ in waits]
    assert found == [after_s for _, after_s in waits]


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("cut", [0, 40, 700])
@pytest.mark.parametrize("clean", [True, False])
def test_a_stream_that_ends_early_is_an_error_and_no_answer(service: str, cut: int, clean: bool) -> None:
    with LLMServer(Step(text=LONG, pieces=4, cut=cut, clean_end=clean)) as server:
        failed = failure_of(backend_at(server, service))
    assert (failed.code, failed.may_retry, failed.status) == ("connection", True, None)
    assert str(failed) == (
        f"The connection to 127.0.0.1:{server.port} was lost before the answer was whole; nothing of it is used."
    )


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize(("kind", "code"), [("overloaded_error", "overloaded"), ("api_error", "server")])
def test_an_error_in_the_middle_of_a_stream_is_one(service: str, kind: str, code: str) -> None:
    midway = {"type": kind, "message": "It went wrong.", "code": kind}
    with LLMServer(Step(text="half of an answer", midway=midway)) as server:
        failed = failure_of(backend_at(server, service))
    assert (failed.code, failed.may_retry, failed.status) == (code, True, None)
    assert "in the middle of the answer" in str(failed)


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("how", ["silent", "breathing"])
def test_a_time_limit_holds_also_against_signs_of_life(service: str, how: str) -> None:
    step = Step(waits=threading.Event()) if how == "silent" else Step(breathes=True)
    with LLMServer(step) as server:
        failed = failure_of(backend_at(server, service, timeout_s=0.5))
    assert (failed.code, failed.may_retry) == ("timeout", True)
    assert str(failed) == (
        f"No whole answer from 127.0.0.1:{server.port} within 0.5 s; the connection was shut. "
        "Give it more time, or ask for less."
    )


@pytest.mark.parametrize("service", SERVICES)
def test_a_server_that_is_not_there_is_a_connection_that_failed(service: str) -> None:
    with LLMServer() as server:
        backend = backend_at(server, service)
    failed = failure_of(backend)
    assert (failed.code, failed.may_retry) == ("connection", True)
    assert (
        str(failed)
        == f"127.0.0.1:{server.port} cannot be reached ([Errno 111] Connection refused). Is the server running?"
    )


@pytest.mark.parametrize("service", SERVICES)
def test_a_page_of_something_else_is_no_answer(service: str) -> None:
    with LLMServer(Step(body=b"<html>Sign in</html>", headers={"content-type": "text/html"})) as server:
        failed = failure_of(backend_at(server, service))
    assert (failed.code, failed.may_retry) == ("bad request", False)
    assert str(failed) == (
        "127.0.0.1 answered with text/html, and not with a stream: no service of this kind is there. "
        "Check the base URL."
    )


@pytest.mark.parametrize("service", SERVICES)
def test_a_question_that_is_too_large_is_told_so(service: str) -> None:
    large = Request(system="", messages=(Message(role="user", text="x" * 50_000),), most_tokens=10)
    with LLMServer(Step(), most_bytes=50_000) as server:
        failed = failure_of(backend_at(server, service), large)
    assert (failed.code, failed.may_retry, failed.status) == ("too large", False, 413)
    assert str(failed) == (
        "Provider says that the question is too long (413, request_too_large): Request exceeds the maximum size. "
        "Send fewer files, or ask a model that takes more."
    )


@pytest.mark.parametrize("service", SERVICES)
def test_nothing_is_sent_on_by_a_redirect(service: str) -> None:
    with LLMServer(Step()) as other:
        step = Step(status=307, headers={"location": f"{other.url}/v1/messages"}, body=b"")
        with LLMServer(step) as server:
            failed = failure_of(backend_at(server, service))
    assert (failed.code, failed.may_retry) == ("bad request", False)
    assert "They are not sent there" in str(failed)
    assert not other.seen


# --- what is mended -------------------------------------------------------------------------------


def test_a_field_that_is_called_otherwise_is_mended_once_and_remembered() -> None:
    with LLMServer(Step(), Step(), Step(), limit_field="max_completion_tokens") as server:
        backend = backend_at(server, "openai")
        assert backend.ask(REQUEST).text == backend.ask(REQUEST).text == "ready"
    assert [("max_tokens" in body, "max_completion_tokens" in body) for body in server.bodies] == [
        (True, False),
        (False, True),
        (False, True),
    ]


@pytest.mark.parametrize("service", SERVICES)
def test_a_limit_that_is_too_large_is_lowered_to_what_the_service_names(service: str) -> None:
    long = Request(system="", messages=REQUEST.messages, most_tokens=4_000)
    with LLMServer(Step(), Step(), most_output=1_024) as server:
        assert backend_at(server, service).ask(long).text == "ready"
    assert [body["max_tokens"] for body in server.bodies] == [4_000, 1_024]


def test_what_a_second_try_does_not_mend_is_told() -> None:
    with LLMServer(Step(), Step(), limit_field="most_words") as server:
        failed = failure_of(backend_at(server, "openai"))
    assert len(server.seen) == 2
    assert failed.code == "bad request"
    assert "Unsupported parameter: 'max_completion_tokens'" in str(failed)


def test_a_model_that_knows_no_schema_is_told_it_in_words() -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    asked = Request(system="Plan.", messages=REQUEST.messages, most_tokens=50, schema=schema)
    with LLMServer(Step(), Step(), knows_schema=False) as server:
        backend = backend_at(server, "openai", context=8_000)
        backend.ask(asked)
        environment = {"ETUDE_API_KEY": KEY}
        knowing = type(backend)(
            "gpt-5", base_url=server.url, environment=environment, capability=capability_of("openai", "gpt-5")
        )
        with pytest.raises(BackendError, match="No step"):
            knowing.ask(asked)
    in_words, held, in_words_again = server.bodies
    assert "response_format" not in in_words
    assert '"properties"' in in_words["messages"][0]["content"]
    assert held["response_format"]["json_schema"]["schema"] == schema
    assert "response_format" not in in_words_again
    assert '"properties"' in in_words_again["messages"][0]["content"]


# --- names, keys and what is missing --------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "gpt-5", "openai:", "openai:@http://127.0.0.1:1", "gemini:x", "openai:x@"])
def test_a_name_that_is_none_is_told_what_names_look_like(name: str) -> None:
    with pytest.raises(ConfigError, match="Names look like these: anthropic:claude-sonnet-5-5, openai:gpt-5"):
        backend_of(name, environment={})


def test_an_address_may_stand_in_the_name_or_in_the_environment() -> None:
    named = backend_of("openai:qwen3@http://127.0.0.1:11434/v1", environment={})
    told = backend_of("openai:qwen3", environment={"OPENAI_BASE_URL": "http://127.0.0.1:11434"})
    assert isinstance(named, Service)
    assert isinstance(told, Service)
    assert named.base_url == told.base_url == "http://127.0.0.1:11434/v1"
    assert (named.name, named.host) == ("openai:qwen3", "127.0.0.1:11434")
    assert backend_of("anthropic:claude-opus-5", environment={}).host == "api.anthropic.com"
    with pytest.raises(ConfigError, match="Leave one of them out"):
        backend_of("openai:x@http://127.0.0.1:1/v1", base_url="http://127.0.0.1:2/v1", environment={})


@pytest.mark.parametrize("url", ["ftp://127.0.0.1", "127.0.0.1:11434", "http://", "http://[", "http://h:port/"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match=r"http://127.0.0.1:11434/v1"):
        backend_of("openai:x", base_url=url, environment={})


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigError, match="ETUDE_API_KEY") as refused:
        backend_of("openai:x", base_url=f"https://me:{KEY}@llm.example/v1", environment={})
    assert KEY not in str(refused.value)


@pytest.mark.parametrize(("service", "variable"), [("anthropic", "ANTHROPIC_API_KEY"), ("openai", "OPENAI_API_KEY")])
def test_without_a_key_nothing_is_sent(service: str, variable: str) -> None:
    backend = backend_of(f"{service}:a-model", environment={})
    with pytest.raises(BackendError) as missing:
        check_ready(backend)
    assert missing.value.code == "key"
    assert str(missing.value) == (
        f"No key for api.{service}.com: the environment variable {variable} (or, for another address, ETUDE_API_KEY) "
        "is not set. Keys are taken from the environment only. Nothing was sent."
    )


def test_a_service_s_key_goes_to_nobody_else() -> None:
    elsewhere = backend_of("openai:x@https://llm.example/v1", environment={"OPENAI_API_KEY": KEY})
    with pytest.raises(BackendError) as refused:
        elsewhere.ask(REQUEST)
    assert str(refused.value) == (
        "No key for llm.example: the environment variable ETUDE_API_KEY is not set. OPENAI_API_KEY is not sent to it: "
        "that key belongs to openai.com. Keys are taken from the environment only. Nothing was sent."
    )
    with LLMServer(Step()) as server:
        backend_of("openai:x", base_url=server.url, environment={"OPENAI_API_KEY": KEY}).ask(REQUEST)
    assert KEY not in repr(server.seen)


@pytest.mark.parametrize("service", SERVICES)
def test_a_key_is_in_nothing_that_is_kept_even_if_it_is_said_back(service: str) -> None:
    loud = {"type": "authentication_error", "message": f"The key {KEY} is wrong."}
    with LLMServer(Step(text=f"Your key is {KEY}.", pieces=1), Step(status=401, error=loud)) as server:
        backend = backend_at(server, service)
        reply, failed = backend.ask(REQUEST), failure_of(backend)
    assert KEY in repr(server.seen)  # it was sent, so it could have leaked
    kept = [repr(reply), str(failed), repr(failed), repr(vars(failed)), repr(backend), repr(backend.body(REQUEST))]
    assert not any(KEY in one for one in kept)
    assert reply.raw is not None
    assert KEY.encode() not in reply.raw
    assert reply.text == "Your key is (removed)."
    assert failed.__context__ is None


@pytest.mark.parametrize("service", SERVICES)
def test_no_other_key_of_the_environment_is_sent_along(service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    others = ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "HTTP_TOKEN")
    for name in others:
        monkeypatch.setenv(name, f"another-key-{name}")
    with LLMServer(Step()) as server:
        backend_at(server, service).ask(REQUEST)
    assert server.seen[0].headers["authorization"] == f"Bearer {KEY}"
    assert "another-key" not in repr(server.seen)


@pytest.mark.parametrize("service", SERVICES)
def test_what_stands_for_a_key_where_none_is_needed_is_not_taken_out_of_answers(service: str) -> None:
    with LLMServer(Step(text="Start lm-studio first.", pieces=1)) as server:
        backend = backend_of(f"{service}:x", base_url=server.url, environment={"ETUDE_API_KEY": "lm-studio"})
        assert backend.ask(REQUEST).text == "Start lm-studio first."
    assert server.seen[0].headers["authorization"] == "Bearer lm-studio"


def test_without_its_sdk_a_service_says_what_to_install_and_what_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(BackendError) as missing:
        backend_of("anthropic:claude-opus-5", environment={"ANTHROPIC_API_KEY": KEY}).ask(REQUEST)
    assert missing.value.code == "not installed"
    assert str(missing.value) == (
        "anthropic:claude-opus-5 needs the package 'anthropic', which is not installed. pip install 'etude[mage]', or "
        "use command:... (a program of yours) or manual:FOLDER (files); these work without it."
    )


def test_programs_and_files_work_without_the_extra(tmp_path: Path) -> None:
    (tmp_path / "1.md").write_text("ready")
    code = f"""
import pkgutil, sys
for name in ("anthropic", "openai", "httpx2"):
    sys.modules[name] = None
import etude.mage
for found in pkgutil.walk_packages(etude.mage.__path__, "etude.mage."):
    if "probe" not in found.name:  # that is run within the user's own program
        __import__(found.name)
from etude.mage.asking.asker import SMALL
from etude.mage.backends.naming import backend_of
print(backend_of("scripted:{tmp_path}").ask(SMALL).text)
print(backend_of("command:cat").ask(SMALL).text)
by_hand = backend_of("manual:{tmp_path}/chat")
answer = by_hand.paths(SMALL)[1]
answer.parent.mkdir()
answer.write_text("by hand")
print(by_hand.ask(SMALL).text)
print(backend_of("openai:gpt-5", environment={{}}).host)

from etude.mage.rules.writing import write
from etude.mage.tree import Tree
from etude.mage.variants import Variant
from etude.mage.witnesses import SettingValue
setting = SettingValue(name="CARRIED", value=False)
variant = Variant(name="v", intent="", witnesses=(setting,), files=("a.py",), settings={{"CARRIED": False}})
print(write(variant, Tree({{"a.py": b"CARRIED = True\\nprint(CARRIED)\\n"}}))[0].text)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    told = ["ready", SMALL.messages[0].text, "", "by hand", "api.openai.com", "CARRIED = False"]
    assert done.stdout.splitlines() == [*told, ""]


@pytest.mark.parametrize(
    ("service", "model", "context", "most_output", "known"),
    [
        ("anthropic", "claude-3-5-sonnet-20241022", 200_000, 8_192, True),
        ("anthropic", "claude-opus-4-1-20250805", 200_000, 32_000, True),
        ("anthropic", "claude-sonnet-4-5-20250929", 200_000, 64_000, True),
        ("anthropic", "claude-opus-4-6", 1_000_000, 128_000, True),
        ("anthropic", "claude-opus-5-5", 1_000_000, 128_000, True),
        ("anthropic", "somebody-else", 200_000, 8_192, False),
        ("openai", "gpt-4o-mini", 128_000, 16_384, True),
        ("openai", "gpt-5", 400_000, 128_000, True),
        ("openai", "o3-mini", 200_000, 100_000, True),
        ("openai", "somebody-else", 128_000, 16_384, False),
    ],
)
def test_what_a_model_can_do_is_looked_up(
    service: str, model: str, context: int, most_output: int, known: bool
) -> None:
    found = capability_of(service, model)
    assert (found.context, found.most_output, found.known) == (context, most_output, known)


def test_a_model_behind_another_address_is_taken_for_a_small_one_unless_somebody_knows() -> None:
    name = "openai:gpt-5@http://127.0.0.1:1/v1"
    assumed = backend_of(name, environment={})
    told = backend_of(name, environment={}, context=131_072, most_output=9_000)
    assert isinstance(assumed, Service)
    assert isinstance(told, Service)
    assert (assumed.capability.context, assumed.capability.known, assumed.capability.edits) == (8_192, False, "whole")
    assert (told.capability.context, told.capability.most_output, told.capability.known) == (131_072, 9_000, True)
    with pytest.raises(ConfigError, match="context=0 is no number of tokens"):
        backend_of(name, environment={}, context=0)
