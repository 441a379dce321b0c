"""What is particular to OpenAI's language, and to the many servers that speak it."""

from __future__ import annotations

import pytest
from llm_server import LLMServer, Step

from etude.mage.backends.capabilities import capability_of
from etude.mage.backends.openai_chat import OpenAIChat
from etude.mage.backends.protocol import Message, Request

TALK = (
    Message(role="user", text="All files.", shared=True),
    Message(role="user", text="Take conv2 out."),
    Message(role="assistant", text="Done."),
    Message(role="user", text="Not quite."),
)
REQUEST = Request(system="Rules.", messages=TALK, most_tokens=100)


def backend_at(url: str, model: str = "some-model", *, at_home: bool = False) -> OpenAIChat:
    capability = capability_of("openai", model, own_host=at_home)
    return OpenAIChat(model, base_url=url, environment={}, capability=capability)


def test_roles_take_turns_and_instructions_come_first() -> None:
    with LLMServer(Step()) as server:
        backend_at(server.url).ask(REQUEST)
    assert server.bodies[0]["messages"] == [
        {"role": "system", "content": "Rules."},
        {"role": "user", "content": "All files.\n\nTake conv2 out."},
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "Not quite."},
    ]


def test_a_model_without_a_place_for_instructions_gets_them_in_the_first_message() -> None:
    with LLMServer(Step()) as server:
        backend_at(server.url, "o1-mini", at_home=True).ask(REQUEST)
    first = server.bodies[0]["messages"][0]
    assert first == {"role": "user", "content": "Rules.\n\nAll files.\n\nTake conv2 out."}


def test_the_limit_is_called_as_the_model_wants_it() -> None:
    with LLMServer(Step(), Step()) as server:
        backend_at(server.url).ask(REQUEST)
        backend_at(server.url, "gpt-5", at_home=True).ask(REQUEST)
    local, new = server.bodies
    assert (local["max_tokens"], new["max_completion_tokens"]) == (100, 100)
    assert "max_completion_tokens" not in local
    assert "max_tokens" not in new


@pytest.mark.parametrize("address", ["{}", "{}/", "{}/v1", "{}/v1/"])
def test_its_address_may_be_written_with_its_version_or_without(address: str) -> None:
    with LLMServer(Step()) as server:
        backend_at(address.format(server.url)).ask(REQUEST)
    assert server.seen[0].path == "/v1/chat/completions"


def test_a_server_of_ones_own_needs_no_key() -> None:
    with LLMServer(Step()) as server:
        assert backend_at(server.url).ask(REQUEST).text == "ready"
    assert server.seen[0].headers["authorization"] == "Bearer none"
