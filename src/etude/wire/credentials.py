"""What a worker elsewhere needs to find its driver, and to be let in: address, certificate and token of one run.

The certificate is made for the run, signs itself, and is the only one that either side goes by. The token is a random
text that a worker says once, over the encrypted line. Neither of them stands on a command line or in a log.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import secrets
import ssl
import stat
import tempfile
from pathlib import Path
from typing import Final

import msgspec

from etude.core.errors import ConfigError

NAME: Final = "etude"
"""Whom a certificate is for: it is pinned, so the host's name plays no part."""

DAYS: Final = 365
"""A study may take long; when its run has ended, nobody has the certificate's key any more."""


class Invitation(msgspec.Struct, frozen=True):
    """What a worker elsewhere needs.

    Attributes:
        hosts: Where the driver can be reached, the best first.
        port: Its port there.
        certificate: The one certificate that the driver shows, in PEM.
        token: What lets a worker in.
    """

    hosts: tuple[str, ...]
    port: int
    certificate: str
    token: str

    def __repr__(self) -> str:
        """Return where it leads, without the secret."""
        return f"Invitation({', '.join(self.hosts)}, port {self.port})"

    def context(self) -> ssl.SSLContext:
        """Return a worker's side of TLS: 1.3, and no other certificate will do."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False
        context.load_verify_locations(cadata=self.certificate)
        return context


class Keys(msgspec.Struct, frozen=True):
    """A driver's certificate and its key, both in PEM, and the token of the run."""

    certificate: str
    key: str
    token: str

    def __repr__(self) -> str:
        """Return no secret."""
        return "Keys(...)"

    def context(self) -> ssl.SSLContext:
        """Return the driver's side of TLS 1.3."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        with tempfile.TemporaryDirectory(prefix="etude-") as folder:  # for us alone, and for this moment
            chain = Path(folder, "chain")
            chain.touch(mode=0o600)
            chain.write_text(self.key + self.certificate)
            context.load_cert_chain(chain)
        return context


def make_keys() -> Keys:
    """Return keys for one run.

    Raises:
        ConfigError: The library that makes certificates is missing.
    """
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError:
        raise ConfigError(
            "Workers on other machines are talked to over TLS, and the library that makes its certificates is missing. "
            "Install it with: pip install 'etude[cluster]'"
        ) from None
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    now = datetime.datetime.now(datetime.UTC)
    usage = dict.fromkeys(
        ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "crl_sign"), False
    )
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))  # clocks differ
        .not_valid_after(now + datetime.timedelta(days=DAYS))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(
            x509.KeyUsage(
                digital_signature=True, key_cert_sign=True, encipher_only=False, decipher_only=False, **usage
            ),
            critical=True,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Keys(
        certificate=certificate.public_bytes(serialization.Encoding.PEM).decode(),
        key=pem.decode(),
        token=secrets.token_urlsafe(32),
    )


def write_invitation(invitation: Invitation, path: Path) -> None:
    """Write an invitation into a file that nobody else can read, over one that is there.

    Raises:
        ConfigError: It cannot be written.
    """
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(invitation)))
        aside.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            aside.unlink()
        raise ConfigError(
            f"The credentials file {path} cannot be written: {error.strerror or error}. Name another place."
        ) from error


def read_invitation(path: Path) -> Invitation:
    """Read an invitation from a file.

    Raises:
        ConfigError: There is none, or others may read it.
    """
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read()
    except OSError as error:
        raise ConfigError(
            f"The credentials file {path} cannot be read: {error.strerror or error}. The driver writes it when its "
            "study starts; copy it from there."
        ) from error
    if stat.S_IMODE(mode) & 0o077:
        raise ConfigError(
            f"The credentials file {path} can be read by others on this machine, and who has it can join the study. "
            f"Run: chmod 600 {path}"
        )
    try:
        return msgspec.json.decode(content, type=Invitation)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is no credentials file: {error}. Copy the one that the driver wrote.") from error
