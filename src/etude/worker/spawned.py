"""The child again, in an interpreter of its own, for what does not survive a fork."""

from __future__ import annotations

import os
import pickle
import socket
import sys

import msgspec

from etude.core.signature import Signature
from etude.wire.channel import Channel
from etude.wire.messages import Serve, decode_to_worker
from etude.worker import attempt, processes, script_logging
from etude.worker.edits import edited, not_imported

if __name__ == "__main__":
    processes.die_with_parent(os.getppid())
    sock, log, spool, payload = (int(argument) for argument in sys.argv[1:])
    sys.argv[1:] = []
    with open(payload, "rb") as file:
        file.seek(0)
        serve = decode_to_worker(file.read())
    assert isinstance(serve, Serve)
    sys.path[:] = list(serve.path)
    try:
        functions = pickle.loads(serve.functions)  # from our driver alone  # noqa: S301
    finally:
        if why := edited(serve.files, cwd=serve.cwd):  # while this process started; what it imported may not even load
            attempt.give_up(Channel(socket.socket(fileno=sock)), serve, why)
            os._exit(1)
    attempt.install_main(functions)
    attempt.open_streams()
    script_logging.set_up(serve.logging)
    serve = msgspec.structs.replace(serve, files=not_imported(serve.files))
    attempt.main(functions, Signature.read(functions), serve, socket.socket(fileno=sock), log=log, spool=spool)
