"""Secrets: which they are, and that they go however they are spelled."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etude.mage.scrubbing import REMOVED, scrub, secrets_of

SECRET = 'sk/"quoted"+and=long'


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "HF_TOKEN", "DB_PASSWORD", "GITHUBTOKEN", "aws_secret_access_key"])
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
    ],
)
def test_others_and_paths_and_words_hold_none(name: str, value: str) -> None:
    assert secrets_of({name: value}) == ()


def test_a_password_in_an_address_is_a_secret_and_the_address_is_none() -> None:
    assert secrets_of({"HTTPS_PROXY": "http://me:pass-of-the-proxy@proxy:3128"}) == ("pass-of-the-proxy",)


@pytest.mark.parametrize("spelled", [SECRET, json.dumps(SECRET)[1:-1], quote(SECRET, safe="")])
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
