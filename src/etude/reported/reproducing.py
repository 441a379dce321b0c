"""How a study is run again: what was recorded of its code and its machine, beside what is there now."""

from __future__ import annotations

import ast
import difflib
import shlex
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from etude.analyse.report.facts import Changed
from etude.core.text import count
from etude.store.provenance import runs_of

CODE: Final = ("function ", "class ")
LONGEST_DIFF: Final = 20_000
UNSAID: Final = "not recorded"


def record_of(meta: Mapping[str, Any], *, name: str, seeds: list[int]) -> list[tuple[str, str]]:
    """Return how to run a study again, as label and text."""
    runs = runs_of(meta)
    last = runs[-1] if runs else {}
    git, python = _dict(last.get("git")), _dict(last.get("python"))
    hardware, packages = _dict(last.get("hardware")), _dict(last.get("packages"))
    commit = (
        f"{git['commit']}{', with changes' if git.get('dirty') else ''}" if git.get("commit") else "no git work tree"
    )
    gpus = ", ".join(str(_dict(gpu).get("name")) for gpu in hardware.get("gpus") or [] if isinstance(gpu, Mapping))
    machine = [last.get("host"), hardware.get("cpu"), _count(hardware, "cores_available", "core")]
    machine += [
        f"{hardware['memory_gb']} GB" if hardware.get("memory_gb") else None,
        gpus or None,
        last.get("platform"),
    ]
    told = {
        "experiment": meta.get("experiment") or "not in a file (a notebook)",
        "as a file": _file(meta, name),
        "command": " ".join(map(str, last.get("argv") or [])) or UNSAID,
        "code": f"SHA-256 {meta['code']}" if meta.get("code") else UNSAID,
        "commit": commit,
        "seeds": _seeds(meta, seeds),
        "Étude": packages.get("etude", UNSAID),
        "Python": f"{python.get('implementation', '')} {python.get('version', UNSAID)}".strip(),
        "machine": ", ".join(str(part) for part in machine if part) or UNSAID,
        "threads": str(last["threads"]) if last.get("threads") else "",
        "environment": ", ".join(f"{key}={value}" for key, value in _dict(last.get("environment")).items()),
        "runs": count(len(runs), "run") if len(runs) > 1 else "",
        "started": str(runs[0].get("time") or "") if runs else "",
        "not in the code's digest": "; ".join(map(str, meta.get("unseen") or [])),
    }
    return [(label, text) for label, text in told.items() if text]


def _file(meta: Mapping[str, Any], name: str) -> str:
    """Return the commands that run it again from a file; empty where none can hold it."""
    if not meta.get("experiment") or meta.get("simulated") is not None:
        return ""
    plain = shlex.quote(name)
    file = shlex.quote(f"{name}.yaml")
    return f"etude export {plain} --format yaml -o {file}, then etude run {file}"


def _dict(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _count(of: Mapping[str, Any], key: str, noun: str) -> str | None:
    return count(of[key], noun) if isinstance(of.get(key), int) else None


def _seeds(meta: Mapping[str, Any], seeds: list[int]) -> str:
    asked = (meta.get("question") or {}).get("seed")
    own = ", ".join(map(str, seeds[:20])) + (f", ... ({len(seeds):,} in all)" if len(seeds) > 20 else "")  # noqa: PLR2004
    drawn = f"{asked} for all that is drawn; " if asked is not None else ""
    return f"{drawn}training seeds {own}" if own else f"{drawn}no trial has one yet"


def diff_of(meta: Mapping[str, Any]) -> str:
    """Return the difference to the commit that was recorded last."""
    runs = runs_of(meta)
    return str(_dict(runs[-1].get("git")).get("diff") or "")[:LONGEST_DIFF] if runs else ""


def packages_of(meta: Mapping[str, Any]) -> dict[str, str]:
    """Return the packages that were recorded last."""
    runs = runs_of(meta)
    found = _dict(runs[-1].get("packages")) if runs else {}
    return {str(name): str(version) for name, version in found.items() if name != "error"}


def code_of(meta: Mapping[str, Any], home: Path) -> list[Changed]:
    """Return the functions and classes that were recorded, each beside what is there now.

    What is looked at is the script, and the modules beside it that it imports, these too. They are read, never run.

    Args:
        meta: What was recorded of the study.
        home: The study's folder.
    """
    recorded = {name: text for name, text in (meta.get("definition") or {}).items() if name.startswith(CODE)}
    script = _script(meta, home)
    if script is None:
        return []
    there = _there(script)
    return [
        _beside(name, str(before), there.get(name.partition(" ")[2].rpartition(".")[2], []))
        for name, before in recorded.items()
    ]


def _script(meta: Mapping[str, Any], home: Path) -> Path | None:
    """Return the script of a study, if it is where it was."""
    place = str(meta.get("experiment") or "").rpartition(":")[0]
    if not place:
        return None
    for base in (home / str(meta.get("cwd") or "."), Path.cwd()):
        if (base / place).is_file():
            return base / place
    return None


def _there(script: Path) -> dict[str, list[str]]:
    """Return what functions and classes of a name there are: first those of the script, then of what it imports."""
    found: dict[str, list[str]] = {}
    left = [script]
    for file in left:  # grows as imports are found
        try:
            text = file.read_text(encoding="utf-8")
            tree = ast.parse(text)
        except (OSError, UnicodeDecodeError, SyntaxError, ValueError):
            continue
        for name, source in _definitions(text, tree):
            found.setdefault(name, []).append(source)
        left += [one for one in _imported(tree, file, script.parent) if one not in left]
    return found


def _definitions(text: str, tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the functions and classes of a file by name, decorators included."""
    lines = text.splitlines()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            yield node.name, "\n".join(lines[first - 1 : node.end_lineno])


def _imported(tree: ast.Module, file: Path, folder: Path) -> Iterator[Path]:
    """Yield the files below a folder that a file of it imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names, root = [alias.name for alias in node.names], folder
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            names = [module, *(f"{module}.{alias.name}".lstrip(".") for alias in node.names)]
            root = file.parents[node.level - 1] if 0 < node.level <= len(file.parents) else folder
        else:
            continue
        for name in filter(None, names):
            place = root.joinpath(*name.split("."))
            yield from (one for one in (place.with_suffix(".py"), place / "__init__.py") if one.is_file())


def _beside(name: str, before: str, now: Sequence[str]) -> Changed:
    """Return how what was recorded compares with what there is of its name."""
    if not now:
        return Changed(name, "not found")
    was, *are = (textwrap.dedent(text).strip("\n").splitlines() for text in (before, *now))
    if [line.rstrip() for line in was] in [[line.rstrip() for line in one] for one in are]:
        return Changed(name, "same")
    diff = "\n".join(difflib.unified_diff(was, are[0], "as recorded", "now", lineterm=""))
    return Changed(name, "changed", diff[:LONGEST_DIFF])
