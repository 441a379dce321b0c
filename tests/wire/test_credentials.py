"""What lets a worker in: a certificate that is pinned, a token that nobody sees, a file that nobody else reads."""

import asyncio
import datetime
import os
import ssl
import stat
from pathlib import Path

import pytest
from cryptography import x509

from etude.core.errors import ConfigError
from etude.wire.credentials import Invitation, Keys, make_keys, read_invitation, write_invitation


def invitation_of(keys: Keys, port: int = 1) -> Invitation:
    return Invitation(("127.0.0.1",), port, keys.certificate, keys.token)


async def meet(keys: Keys, context: ssl.SSLContext) -> str | None:
    """Return the version of TLS that a client with this context and a server with these keys speak."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=keys.context())
    async with server:
        port = server.sockets[0].getsockname()[1]
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="")
        encrypted: ssl.SSLObject = writer.get_extra_info("ssl_object")
        writer.close()
        return encrypted.version()


def test_both_sides_speak_tls_1_3() -> None:
    keys = make_keys()
    assert asyncio.run(meet(keys, invitation_of(keys).context())) == "TLSv1.3"


def test_the_strictest_rules_for_certificates_are_kept() -> None:
    keys = make_keys()
    context = invitation_of(keys).context()
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    assert asyncio.run(meet(keys, context)) == "TLSv1.3"


def test_another_runs_certificate_will_not_do() -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        asyncio.run(meet(make_keys(), invitation_of(make_keys()).context()))


def test_a_certificate_is_valid_from_a_day_ago_since_clocks_differ() -> None:
    certificate = x509.load_pem_x509_certificate(make_keys().certificate.encode())
    now = datetime.datetime.now(datetime.UTC)
    assert certificate.not_valid_before_utc <= now - datetime.timedelta(hours=23)
    assert certificate.not_valid_after_utc >= now + datetime.timedelta(days=300)


def test_each_run_has_keys_of_its_own() -> None:
    one, other = make_keys(), make_keys()
    assert one.token != other.token
    assert one.certificate != other.certificate
    assert len(one.token) >= 32


def test_nothing_that_is_printed_shows_a_secret() -> None:
    keys = make_keys()
    shown = f"{keys!r} {keys} {invitation_of(keys)!r} {[keys]} {invitation_of(keys)}"
    assert keys.token not in shown
    assert keys.key not in shown
    assert "127.0.0.1" in shown


def test_nobody_else_can_read_the_file_and_it_comes_back_as_it_was(tmp_path: Path) -> None:
    invitation = invitation_of(make_keys(), 8443)
    path = tmp_path / "new" / "credentials.json"
    old_mask = os.umask(0)
    try:
        write_invitation(invitation, path)
    finally:
        os.umask(old_mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_invitation(path) == invitation
    assert os.listdir(path.parent) == ["credentials.json"]


def test_a_file_that_others_can_read_is_refused_with_the_command_that_mends_it(tmp_path: Path) -> None:
    path = tmp_path / "credentials.json"
    write_invitation(invitation_of(make_keys()), path)
    path.chmod(0o640)
    with pytest.raises(ConfigError, match=f"Run: chmod 600 {path}"):
        read_invitation(path)


@pytest.mark.parametrize(("content", "said"), [("{}", "is no credentials file"), ("\udcff", "is no credentials file")])
def test_what_is_no_such_file_is_said_so(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "credentials.json"
    path.touch(mode=0o600)
    path.write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(ConfigError, match=said):
        read_invitation(path)


def test_a_file_that_is_not_there_is_said_where_it_comes_from(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"No such file or directory\. The driver writes it"):
        read_invitation(tmp_path / "none")


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be written: "):
        write_invitation(invitation_of(make_keys()), tmp_path / "file" / "credentials.json")
