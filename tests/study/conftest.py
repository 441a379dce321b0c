"""A server that speaks the protocol of S3, for whoever keeps something there."""

from __future__ import annotations

import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator

import pytest
from support import wait_for

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Run a server that speaks the protocol of S3, with a bucket; give the environment that leads to it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = (tmp_path_factory.mktemp("s3") / "log").open("wb")
    server = subprocess.Popen([sys.executable, "-m", "moto.server", "-p", str(port)], stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}"

    def is_up() -> bool:
        try:
            urllib.request.urlopen(urllib.request.Request(f"{address}/bucket", method="PUT")).close()
        except OSError:
            return False
        return True

    try:
        wait_for(is_up)
        yield {**CREDENTIALS, "AWS_ENDPOINT_URL": address}
    finally:
        server.kill()
        server.wait()
        log.close()
