"""``make live`` against a server on this machine: what it sends, how much at most, and what it shows.

It was never run against a live service here, and no test does that.
"""

from __future__ import annotations

import json

import pytest
from benchmarks import mage_live
from benchmarks.mage_written import EXAMPLES
from llm_server import LLMServer, Step
from watched_programs import sandbox_of_tests

KEY = "sk-make-live-0123456789abcdef0123456789"
READY = Step("ready", usage=(20, 5, 0, 0))
AUTHORED = EXAMPLES / "mage_cnn" / "authored" / "without-conv2"
FORGOTTEN = Step((AUTHORED / "1.md").read_text(), usage=(2_000, 210, 0, 0))
MENDED = Step((AUTHORED / "2.md").read_text(), usage=(2_500, 220, 0, 0))


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETUDE_API_KEY", KEY)
    monkeypatch.setenv("CI", "true")  # so that nothing here can leave this machine


def live(server: LLMServer, service: str, *options: str) -> int:
    tier = sandbox_of_tests().tier.value
    path = "/v1" if service == "openai" else ""
    return mage_live.main(["--backend", f"{service}:authored@{server.url}{path}", "--sandbox", tier, *options])


@pytest.mark.parametrize(
    ("service", "steps", "options", "found"),
    [
        ("openai", (FORGOTTEN,), ("--short-limit", "0"), ("gave up", "", "first step", 2, 2_020, 215)),
        (
            "anthropic",
            (FORGOTTEN, MENDED),
            ("--repairs", "1", "--short-limit", "0"),
            ("awaiting review", "passed", "short run", 3, 4_520, 435),
        ),
    ],
    ids=["one draft", "a draft and its repair"],
)
@pytest.mark.thorough
def test_what_was_sent_what_came_back_and_how_it_fared_are_shown(
    service: str,
    steps: tuple[Step, ...],
    options: tuple[str, ...],
    found: tuple[str, str, str, int, int, int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("torch")
    with LLMServer(READY, *steps) as server:
        assert live(server, service, "--most-tokens", "1500", *options) == 0
    out, err = capsys.readouterr()
    assert [body.get("max_tokens") or body.get("max_completion_tokens") for body in server.bodies] == [
        64,
        *(1_500 for _ in steps),
    ]
    assert f"To {service}:authored at 127.0.0.1:{server.port}: {1 + len(steps)} questions at most, " in out
    for body in server.bodies:  # all that went out is shown
        last = body["messages"][-1]["content"]
        for text in [last] if isinstance(last, str) else [block["text"] for block in last]:
            assert all(line in out for line in text.splitlines())
    for step in steps:
        assert str(step.text).strip() in out
        assert f"tokens: {step.usage[0]:,} in, {step.usage[1]:,} out" in out
    assert "conv3" in out
    told = json.loads(out.splitlines()[-1])
    names = ("stage", "outcome", "rung", "requests", "tokens_in", "tokens_out")
    assert tuple(told[name] for name in names) == found, err
    assert told["variant"] == "without-conv2"
    assert KEY not in out + err


def test_a_service_that_turns_the_key_down_is_asked_once_and_no_program_is_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    refused = Step(status=401, error={"type": "authentication_error", "message": f"invalid key {KEY}"})
    with LLMServer(refused) as server:
        assert live(server, "anthropic") == 1
    out, err = capsys.readouterr()
    assert len(server.seen) == 1
    assert "══ sent: whether anybody answers; at most 64 tokens back" in out
    assert "401" in err
    assert "baseline" not in err
    assert KEY not in out + err


@pytest.mark.parametrize("backend", ["anthropic:claude-opus-5", "openai:gpt-5", "openai:some@http://192.0.2.1/v1"])
def test_a_ci_asks_this_machine_alone(
    backend: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, KEY)
    assert mage_live.main(["--backend", backend]) == 1
    assert "is not this machine" in capsys.readouterr().err
