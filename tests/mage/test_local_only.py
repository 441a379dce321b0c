"""What may not leave this machine does not: not by name, not by a redirect, not by a proxy."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from llm_server import LLMServer, Step

from etude.core.errors import BackendError
from etude.mage.backends.hosts import is_loopback
from etude.mage.backends.naming import backend_of
from etude.mage.backends.protocol import Message, Request

REQUEST = Request(system="", messages=(Message(role="user", text="Say ready."),), most_tokens=10)
ENVIRONMENT = {"OPENAI_API_KEY": "a-key-of-the-tests", "ANTHROPIC_API_KEY": "a-key-of-the-tests"}


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "[::1]", "::ffff:127.0.0.1"])
def test_numbers_of_this_machine_are_known(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    [
        "10.0.0.1",
        "0.0.0.0",
        "::",
        "169.254.169.254",
        "api.openai.com",
        "127.0.0.1.nip.io",
        "localhost.example",
        "my-mac",
    ],
)
def test_other_hosts_are_not_this_machine_and_their_names_are_not_looked_up(host: str) -> None:
    asked: list[str] = []

    def look_up(name: str) -> list[str]:
        asked.append(name)
        return ["127.0.0.1"]

    assert not is_loopback(host, look_up=look_up)
    assert not asked


def test_localhost_is_this_machine_unless_somebody_says_otherwise() -> None:
    assert is_loopback("localhost", look_up=lambda name: ["127.0.0.1", "::1"])
    assert not is_loopback("LOCALHOST.", look_up=lambda name: ["127.0.0.1", "10.1.2.3"])
    assert not is_loopback("localhost", look_up=lambda name: [])


@pytest.mark.parametrize("name", ["anthropic:claude-opus-5", "openai:gpt-5", "openai:x@http://10.0.0.1:11434/v1"])
def test_another_machine_is_refused_before_anything_is_sent(name: str) -> None:
    with pytest.raises(BackendError) as refused:
        backend_of(name, local_only=True, environment=ENVIRONMENT)
    assert (refused.value.code, refused.value.may_retry) == ("refused host", False)
    assert "is not this machine, and --local-only was asked for. Nothing was sent there." in str(refused.value)


def test_a_variable_that_names_another_machine_is_no_way_out() -> None:
    with pytest.raises(BackendError, match=r"llm\.example is not this machine"):
        backend_of("openai:x", local_only=True, environment={"OPENAI_BASE_URL": "https://llm.example/v1"})


def test_a_program_may_send_things_anywhere_and_is_refused() -> None:
    with pytest.raises(BackendError, match="nobody can know where it sends things") as refused:
        backend_of("command:llm -m x", local_only=True, environment=ENVIRONMENT)
    assert refused.value.code == "refused host"


def test_files_are_no_network(tmp_path: Path) -> None:
    assert backend_of(f"manual:{tmp_path}", local_only=True, environment={}).host == "this machine"


@pytest.mark.parametrize("service", ["anthropic", "openai"])
@pytest.mark.parametrize("target", ["http://10.255.255.1/v1/messages", "https://llm.example/v1"])
def test_a_redirect_to_another_machine_is_not_followed(service: str, target: str) -> None:
    with LLMServer(Step(status=308, headers={"location": target}, body=b"")) as server:
        backend = backend_of(f"{service}:x", base_url=server.url, local_only=True, environment=ENVIRONMENT)
        with pytest.raises(BackendError) as refused:
            backend.ask(REQUEST)
    assert refused.value.code == "refused host"
    assert "(a redirect) is not this machine" in str(refused.value)
    assert len(server.seen) == 1


@pytest.mark.parametrize("service", ["anthropic", "openai"])
@pytest.mark.parametrize("local_only", [True, False])
def test_what_stays_on_this_machine_goes_through_no_proxy(
    service: str, local_only: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LLMServer(Step()) as proxy, LLMServer(Step()) as server:
        for variable in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(variable, proxy.url)
        for variable in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(variable, raising=False)
        backend = backend_of(f"{service}:x", base_url=server.url, local_only=local_only, environment=dict(os.environ))
        assert backend.ask(REQUEST).text == "ready"
    assert (len(proxy.seen), len(server.seen)) == (0, 1)
