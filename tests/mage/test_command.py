"""Programs: what they get, what counts as an answer, and that nothing of them is left when their time is over."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from etude.core.errors import BackendError, ConfigError
from etude.mage.backends.command import Command, end_with_descendants
from etude.mage.backends.naming import backend_of
from etude.mage.backends.protocol import Message, Request, StopReason

REQUEST = Request(system="Rules.", messages=(Message(role="user", text="Größe?"),), most_tokens=100)
KEY = "a-secret-of-the-tests-123"


def program(text: str, **options: float) -> Command:
    environment = {**os.environ, "SOME_KEY": KEY}
    return Command([sys.executable, "-c", text], environment=environment, **options)


def failure_of(backend: Command) -> BackendError:
    with pytest.raises(BackendError) as failed:
        backend.ask(REQUEST)
    return failed.value


def test_the_question_comes_in_and_the_answer_goes_out() -> None:
    reply = program("import sys; print(sys.stdin.read().upper(), end='')").ask(REQUEST)
    assert reply.text == "RULES.\n\nGRÖSSE?\n"
    assert reply.stop is StopReason.COMPLETE
    assert reply.usage.input is None


def test_a_conversation_says_who_said_what() -> None:
    talk = (*REQUEST.messages, Message(role="assistant", text="Ten."), Message(role="user", text="Sure?"))
    reply = program("import sys; print(sys.stdin.read(), end='')").ask(
        Request(system="", messages=talk, most_tokens=9, schema={"type": "object"})
    )
    form, question, answer, again = reply.text.split("===")[0::2][0], *reply.text.split("===")[2::2]
    assert '"type": "object"' in form
    assert (question.strip(), answer.strip(), again.strip()) == ("Größe?", "Ten.", "Sure?")


def test_more_than_a_pipe_holds_is_no_trouble() -> None:
    long = Request(system="", messages=(Message(role="user", text="x" * 300_000),), most_tokens=9)
    assert program("print('y' * 300_000, end='')").ask(long).text == "y" * 300_000


def test_another_exit_code_is_a_failure_and_its_words_are_told_without_secrets() -> None:
    failed = failure_of(program(f"import sys; print('half'); sys.exit('no model for {KEY}')"))
    assert (failed.code, failed.may_retry) == ("server", False)
    assert str(failed) == (
        f"{sys.executable} ended with exit code 1; what it printed is not used. It says: no model for (removed)"
    )


def test_a_secret_that_is_printed_is_not_kept() -> None:
    reply = program("import os; print(os.environ['SOME_KEY'], end='')").ask(REQUEST)
    assert (reply.text, reply.raw) == ("(removed)", b"(removed)")


def test_when_its_time_is_over_it_is_ended() -> None:
    failed = failure_of(program("import time; print('ha', flush=True); time.sleep(600)", timeout_s=0.2))
    assert (failed.code, failed.may_retry) == ("timeout", True)
    assert str(failed) == f"{sys.executable} did not end within 0.2 s, and was ended. Give it more time."


def test_what_it_started_ends_with_it_even_in_a_session_of_its_own(tmp_path: Path) -> None:
    told = tmp_path / "told"
    os.mkfifo(told)
    grandchild = f"import time; told = open({str(told)!r}, 'w', 1); print('begun', file=told); time.sleep(600); "
    grandchild += "print('not ended', file=told)"
    started = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {grandchild!r}], "
    started += "start_new_session=True); time.sleep(600)"
    process = subprocess.Popen([sys.executable, "-c", started], start_new_session=True)
    with told.open() as heard:
        assert heard.readline() == "begun\n"
        end_with_descendants(process)
        assert heard.read() == ""  # whoever could write is gone
    assert process.returncode == -signal.SIGKILL


def test_a_program_that_is_not_there_is_told_before_it_is_asked() -> None:
    backend = backend_of("command:no-such-program -m x", environment={"PATH": "/usr/bin"})
    with pytest.raises(BackendError) as missing:
        backend.ask(REQUEST)
    assert missing.value.code == "not installed"
    assert str(missing.value) == "There is no program 'no-such-program'. Install it, or give its whole path."


def test_no_shell_reads_the_command() -> None:
    echo = f"{shlex.quote(sys.executable)} -c 'import sys; print(sys.argv[1:])' '$HOME; ls' a"
    reply = backend_of(f"command:{echo}", environment=dict(os.environ)).ask(REQUEST)
    assert reply.text == "['$HOME; ls', 'a']\n"
    with pytest.raises(ConfigError, match="cannot be read as a command"):
        backend_of("command:llm 'half", environment={})
