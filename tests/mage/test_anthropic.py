"""What is particular to Anthropic: what is kept between questions, roles that take turns, and its versions."""

from __future__ import annotations

import pytest
from llm_server import LLMServer, Step

from etude.mage.backends.anthropic_messages import AnthropicMessages
from etude.mage.backends.protocol import Message, Request

SHARED = (
    Message(role="user", text="All files.", shared=True),
    Message(role="user", text="All facts.", shared=True),
    Message(role="user", text="Take conv2 out."),
)


def backend_at(url: str, model: str = "claude-opus-5") -> AnthropicMessages:
    return AnthropicMessages(model, base_url=url, environment={"ETUDE_API_KEY": "a-key-of-the-tests"})


def request_of(*messages: Message) -> Request:
    return Request(system="Rules.", messages=messages, most_tokens=100)


def test_the_end_of_what_all_variants_share_is_marked_and_nothing_else() -> None:
    with LLMServer(Step(), Step()) as server:
        backend_at(server.url).ask(request_of(*SHARED))
        backend_at(server.url).ask(request_of(SHARED[2]))
    (turn,) = server.bodies[0]["messages"]
    assert [block.get("cache_control") for block in turn["content"]] == [None, {"type": "ephemeral"}, None]
    assert "cache_control" not in repr(server.bodies[1])


def test_what_is_shared_is_the_same_for_every_variant_byte_for_byte() -> None:
    other = Message(role="user", text="Take fc1 out.")
    with LLMServer(Step(), Step()) as server:
        backend_at(server.url).ask(request_of(*SHARED))
        backend_at(server.url).ask(request_of(*SHARED[:2], other))
    first, second = (seen.raw for seen in server.seen)
    upto = first.index(b"Take conv2 out.")
    assert first[:upto] == second[:upto]


def test_roles_take_turns_and_empty_messages_are_left_out() -> None:
    talk = (
        *SHARED,
        Message(role="assistant", text=""),
        Message(role="assistant", text="Done."),
        Message(role="user", text="Not quite."),
    )
    with LLMServer(Step()) as server:
        backend_at(server.url).ask(request_of(*talk))
    messages = server.bodies[0]["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert [block["text"] for block in messages[1]["content"]] == ["Done."]


def test_a_schema_is_held_to_by_models_that_can_and_told_to_others() -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    asked = Request(system="", messages=SHARED[:1], most_tokens=10, schema=schema)
    with LLMServer(Step(), Step()) as server:
        backend_at(server.url).ask(asked)
        backend_at(server.url, "claude-3-5-haiku-20241022").ask(asked)
    held, told = server.bodies
    assert held["output_config"] == {"format": {"type": "json_schema", "schema": schema}}
    assert "system" not in held
    assert "output_config" not in told
    assert "has to follow this JSON Schema" in told["system"]


@pytest.mark.parametrize("address", ["{}", "{}/", "{}/v1", "{}/v1/"])
def test_its_address_may_be_written_with_its_version_or_without(address: str) -> None:
    with LLMServer(Step()) as server:
        backend_at(address.format(server.url)).ask(request_of(SHARED[0]))
    assert server.seen[0].path == "/v1/messages"
    assert server.seen[0].headers["anthropic-version"] == "2026-10-21"
    assert server.seen[0].headers["authorization"] == "Bearer a-key-of-the-tests"
