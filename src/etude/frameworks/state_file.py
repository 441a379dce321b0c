"""A state in a file: arrays as safetensors, and the rest as JSON in the file's own metadata.

A file is written aside and renamed, so that it is whole or not there, and what is read is what was written: its digest
stands in the journal.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import safetensors

from etude.core.errors import StateError
from etude.frameworks.trees import BESIDE, OF, TAG, WITH, Arrays, put_together

KEY: Final = "etude"
"""What our part of a file's metadata is called."""

NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


def make_ready() -> None:
    """Import what writing takes: in this thread, since others may use a module that another one is still importing."""
    if "torch" in sys.modules:
        import safetensors.torch
    else:
        import safetensors.numpy  # noqa: F401 - with numpy itself


def write(
    path: Path, plain: Any, arrays: Arrays, *, metadata: Mapping[str, str] = NOTHING, beside: Any = None
) -> tuple[str, int]:
    """Write what was taken apart; return the file's digest and its size in bytes.

    Args:
        path: Of the file.
        plain: What JSON can hold.
        arrays: The arrays.
        metadata: What else other tools may read in it. With any, equal states give files that are not equal: the
            library writes it in an order of chance.
        beside: What else goes with the state, as JSON can hold it; None for nothing.

    Raises:
        OSError: It cannot be written; nothing is left of it.
    """
    aside = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        plain = plain if beside is None else {TAG: BESIDE, OF: plain, WITH: beside}
        _save(aside, arrays, {**metadata, KEY: json.dumps(plain)})
        with aside.open("rb+") as file:
            digest = hashlib.file_digest(file, "blake2b").hexdigest()[:32]
            os.fsync(file.fileno())
            size = os.fstat(file.fileno()).st_size
        aside.rename(path)
    except safetensors.SafetensorError as error:  # so it calls a full disk
        aside.unlink(missing_ok=True)
        raise OSError(str(error)) from error
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    return digest, size


def read(path: Path, digest: str | None = None) -> Any:
    """Return the state in a file.

    Args:
        path: Of the file.
        digest: That it had when it was written; None if that is not known.

    Raises:
        StateError: It is not there, or damaged, or none of ours.
    """
    try:
        if digest is not None:
            with path.open("rb") as file:
                found = hashlib.file_digest(file, "blake2b").hexdigest()[:32]
            if found != digest:
                raise StateError(f"{path} is not what was written: it is damaged, or another file has its name.")
        arrays, metadata = _load(path)
        plain = json.loads(metadata[KEY])
    except OSError as error:
        raise StateError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (safetensors.SafetensorError, KeyError, ValueError) as error:
        raise StateError(f"{path} is no saved state of ours ({error}).") from error
    return put_together(plain, arrays)


def read_weights(path: Path) -> Any:
    """Return the weights in a file of ours or of another tool: what a module is called -> name -> array.

    Raises:
        StateError: It is not there, or no safetensors file.
    """
    try:
        arrays, metadata = _load(path)
        return put_together(json.loads(metadata[KEY]), arrays) if KEY in metadata else {"": arrays}
    except OSError as error:
        raise StateError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (safetensors.SafetensorError, ValueError) as error:
        raise StateError(
            f"{path} is no safetensors file ({error}). Save weights with safetensors.torch.save_file(net.state_dict(), "
            "path), or with final.save(path)."
        ) from error


def metadata_of(path: Path) -> Mapping[str, str]:
    """Return what else is written in a safetensors file.

    Raises:
        StateError: It is not there, or no safetensors file.
    """
    try:
        with safetensors.safe_open(path, framework="np") as file:
            return file.metadata() or {}
    except (OSError, safetensors.SafetensorError) as error:
        raise StateError(f"{path} is no safetensors file ({error}).") from error


def beside(path: Path) -> Any:
    """Return what goes with the state in a file, of ours or of another tool; None if nothing does.

    Raises:
        StateError: It is not there, or no safetensors file.
    """
    try:
        plain = json.loads(metadata_of(path).get(KEY, "null"))
    except ValueError as error:
        raise StateError(f"{path} is no saved state of ours ({error}).") from error
    return plain.get(WITH) if isinstance(plain, dict) and plain.get(TAG) == BESIDE else None


def _save(path: Path, arrays: Arrays, metadata: dict[str, str]) -> None:
    if "torch" in sys.modules:
        import torch
        from safetensors.torch import save_file

        tensors = {name: a if torch.is_tensor(a) else torch.from_numpy(a) for name, a in arrays.items()}
        save_file(tensors, path, metadata)
    else:
        from safetensors.numpy import save_file as save_arrays

        save_arrays(arrays, path, metadata)


def _load(path: Path) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    """Return the arrays, as tensors where torch is in use, and the metadata."""
    framework = "pt" if "torch" in sys.modules else "np"
    with safetensors.safe_open(path, framework=framework) as file:
        names = list(file.keys())
        # A copy: what is loaded is a map of the file, which may be removed while training goes on.
        arrays = {name: _own(file.get_tensor(name)) for name in names}
        return arrays, file.metadata() or {}


def _own(array: Any) -> Any:
    return array.clone() if hasattr(array, "clone") else array.copy()
