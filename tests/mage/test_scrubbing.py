"""Secrets: which they are, and that they go however they are spelled."""

from __future__ import annotations

import json
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etude.mage.scrubbing import REMOVED, scrub, scrub_all, secrets_of

SECRET = 'sk/"quoted"+and=long'


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY",
        "HF_TOKEN",
        "DB_PASSWORD",
        "GITHUBTOKEN",
        "aws_secret_access_key",
        "PROXY_AUTH",
        "SENTRY_DSN",
        "MYSQL_PWD",
    ],
)
def test_a_variable_whose_name_says_so_holds_a_secret(name: str) -> None:
    assert SECRET in secrets_of({name: SECRET})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HOME", SECRET),
        ("TOKEN", "short"),
        ("SSH_KEY", "/home/me/.ssh/id_rsa"),
        ("LLM_KEY", "lm-studio"),
        ("SECRET", "development"),
        ("KEYBOARD_LAYOUT", SECRET),
        ("GIT_AUTHOR_NAME", SECRET),
        ("PWD", "C:\\projects\\one"),
        ("OLDPWD", "../elsewhere"),
        ("PKG", "pkg-config-and-others-2"),
        ("OPTIONS", "skip-all-of-these-tests-1"),
        ("LIBRARY", "sk-learn-and-its-friends"),
    ],
)
def test_others_and_paths_and_words_hold_none(name: str, value: str) -> None:
    assert secrets_of({name: value}) == ()


def test_a_password_in_an_address_is_a_secret_and_the_address_is_none() -> None:
    assert secrets_of({"HTTPS_PROXY": "http://me:pass-of-the-proxy@proxy:3128"}) == ("pass-of-the-proxy",)


@pytest.mark.parametrize(
    "key",
    [
        "sk-ant-api03-0123456789abcdef",
        "ghp_0123456789abcdef0123",
        "github_pat_0123456789abcdef",
        "hf_abcdefghijklmnopqrst",
        "xoxb-0123456789-abcdef",
        "glpat-0123456789abcdefghij",
        "AKIA0123456789ABCDEF",
        "AIza" + "Sy0123456789abcdefghij",
    ],
)
def test_what_is_written_like_a_key_is_one_wherever_it_stands(key: str) -> None:
    for value in (key, f"--with {key} --and more", f"https://{key}@host/x", f"name={key},other=1"):
        assert key in secrets_of({"WHATEVER": value})
        assert key not in scrub(f"it says {key}.", secrets_of({"WHATEVER": value}))


def test_a_password_goes_as_it_is_typed_and_as_it_stands_in_an_address() -> None:
    secrets = secrets_of({"DATABASE_URL": "postgres://me:p%40ss-w%2Frd@host/db"})
    assert scrub("p@ss-w/rd p%40ss-w%2Frd", secrets) == f"{REMOVED} {REMOVED}"


@pytest.mark.parametrize("spelled", [SECRET, json.dumps(SECRET)[1:-1], repr(SECRET)[1:-1], quote(SECRET, safe="")])
def test_a_secret_goes_however_it_is_spelled(spelled: str) -> None:
    assert scrub(f"a {spelled} b", [SECRET]) == f"a {REMOVED} b"
    assert scrub(f"a {spelled} b".encode(), [SECRET]) == f"a {REMOVED} b".encode()


@given(st.text(), st.text(min_size=8, alphabet=st.characters(codec="utf-8", exclude_characters="()")), st.text())
def test_nothing_of_it_is_left(before: str, secret: str, after: str) -> None:
    secrets = secrets_of({"A_KEY": secret})
    assert not any(one in scrub(before + secret + after, secrets) for one in secrets)


def test_the_longest_goes_first_so_that_no_end_of_it_stays() -> None:
    secrets = secrets_of({"A_KEY": "passw0rd", "B_KEY": "passw0rd-and-more"})
    assert scrub("passw0rd-and-more", secrets) == REMOVED


NAMES = st.sampled_from(["A_KEY", "B_TOKEN", "PASSWORD", "C_AUTH", "D_DSN", "PROXY", "OTHER"])
VALUES = st.text(st.characters(codec="utf-8", exclude_characters="()") | st.sampled_from("\udc80\udcff"), max_size=30)


@given(st.dictionaries(NAMES, VALUES | VALUES.map("https://me:{}@host/".format)), st.data())
def test_no_secret_of_an_environment_survives_in_any_spelling(environment: dict[str, str], data: st.DataObject) -> None:
    secrets = secrets_of(environment)
    forms: list[Callable[[str], str]] = [str, lambda one: json.dumps(one)[1:-1], lambda one: repr(one)[1:-1], quoted]
    told = [data.draw(st.sampled_from(forms))(one) for one in secrets]
    text = " and ".join(data.draw(st.permutations([*environment.values(), *told])))
    left = scrub_all({text: [text, (text,)]}, secrets)
    encoded = scrub(text.encode(errors="surrogateescape"), secrets)
    for one in (form(secret) for form in forms for secret in secrets):
        assert one not in scrub(text, secrets)
        assert one.encode(errors="surrogateescape") not in encoded
    assert left == {scrub(text, secrets): [scrub(text, secrets), [scrub(text, secrets)]]}


def quoted(secret: str) -> str:
    return quote(secret, safe="", errors="surrogateescape")
