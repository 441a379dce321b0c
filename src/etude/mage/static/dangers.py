"""What a change newly reaches for: other modules, ways to run code, the system, places outside of the folder.

This is no boundary: the sandbox is one. It is what a reader would stumble over, found before anything runs; what the
base does itself is not looked at. Names are followed through ``import ... as``, and no further.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from etude.mage.sources.walking import dotted, imported, last_part, root_of, walk
from etude.mage.static.policy import Broken, Change, Rule

MODULES: Final = frozenset(
    {
        # network
        *("socket", "ssl", "http", "urllib", "urllib3", "requests", "httpx", "aiohttp", "ftplib", "smtplib", "imaplib"),
        *("poplib", "telnetlib", "paramiko", "websocket", "websockets", "xmlrpc", "socketserver", "asyncio", "boto3"),
        *("s3fs", "gcsfs", "fsspec", "huggingface_hub", "kagglehub", "kaggle", "gdown", "wget", "pycurl", "webbrowser"),
        *("wandb", "mlflow", "comet_ml", "neptune", "openai", "anthropic", "torch.hub", "torch.distributed.rpc"),
        # processes
        *("subprocess", "multiprocessing", "pty", "signal", "concurrent", "threading", "_thread", "resource", "psutil"),
        *("sched", "atexit", "faulthandler"),
        # loaders and what looks into a running program
        *("importlib", "imp", "runpy", "pkgutil", "zipimport", "pickle", "cPickle", "_pickle", "dill", "cloudpickle"),
        *(
            "marshal",
            "shelve",
            "code",
            "codeop",
            "ctypes",
            "cffi",
            "builtins",
            "gc",
            "inspect",
            "site",
            "pip",
            "joblib",
        ),
        *("torch.utils.cpp_extension", "setuptools", "ensurepip", "dis", "bdb", "pdb", "trace", "sysconfig", "etude"),
    }
)
"""Modules that no ablation needs anew."""
BARE: Final = frozenset(
    {"eval", "exec", "compile", "__import__", "globals", "breakpoint", "__builtins__", "__loader__", "exit", "quit"}
)
DOTTED: Final = re.compile(
    r"^os\.(?:system|popen|exec\w*|spawn\w*|posix_spawn\w*|fork\w*|kill\w*|_exit|abort|environ\w*|getenv\w*|putenv|"
    r"unsetenv|remove|unlink|rmdir|removedirs|rename\w*|replace|chmod|chown|link|symlink|chdir|chroot|setuid|open|pipe|"
    r"dup2?|getppid|setsid|walk|scandir|listdir|register_at_fork)(?:$|\.)"
    r"|^shutil\.|^sys\.(?:modules|path\w*|meta_path|settrace|setprofile|_getframe|exit|addaudithook|_current_frames|"
    r"setrecursionlimit|stdout|stderr)(?:$|\.)"
    r"|^torch\.(?:load|hub|ops\.load_library|classes\.load_library|serialization)(?:$|\.)|^pandas\.read_pickle$"
    r"|^tempfile\.|^pathlib\.Path\.home$"
)
INNER: Final = frozenset(
    {
        *("__subclasses__", "__globals__", "__builtins__", "__code__", "__reduce__", "__reduce_ex__", "__mro__"),
        *(
            "__bases__",
            "__loader__",
            "__spec__",
            "_backward_hooks",
            "_forward_hooks",
            "f_globals",
            "f_back",
            "tb_frame",
        ),
    }
)
"""Attributes by which code gets at what it was not given."""
HIDDEN: Final = frozenset({"os", "sys", "builtins", "subprocess", "importlib", "shutil", "socket", "ctypes", "pickle"})
"""Modules that others hold: ``torch.os`` is ``os``."""
WRITERS: Final = frozenset(
    {
        *("write_text", "write_bytes", "write", "writelines", "dump", "mkdir", "makedirs", "touch", "memmap", "tofile"),
        *("to_csv", "to_parquet", "to_json", "to_pickle", "savez", "savetxt", "savefig", "save_pretrained"),
    }
)
_OUTSIDE: Final = re.compile(r"^/[\w.@-]+(?:/|$)|^~|(?:^|[\\/])\.\.(?:[\\/]|$)|^[A-Za-z]:[\\/]")
_URL: Final = re.compile(r"^(?:https?|ftps?|s3|gs|ssh|git|hdfs|wss?)://", re.IGNORECASE)


def find_dangers(change: Change) -> Iterator[Broken]:
    """Yield what a changed source reaches for, and did not before."""
    if not change.python:
        return
    before = Counter((rule, what) for rule, what, _, _ in _reached(change.old))
    for rule, what, line, why in _reached(change.new):
        if before[rule, what] > 0:
            before[rule, what] -= 1
            continue
        yield Broken(
            rule,
            f"{change.path}, line {line}: {why} `{what}`, which the base does not. An ablation needs none of it.",
            expected=f"no new `{what}`",
            found=f"`{what}` in line {line}",
        )


def new_writes(change: Change) -> Iterator[Broken]:
    """Yield what a changed source newly writes into files."""
    if not change.python:
        return
    before = Counter(what for what, _ in _written(change.old))
    for what, line in _written(change.new):
        if before[what] > 0:
            before[what] -= 1
        else:
            yield Broken(
                Rule.WRITES,
                f"{change.path}, line {line}: it writes a file where the base does not: `{what}`. Leave what is "
                "written as it is.",
                expected="what the base writes",
                found=what,
            )


def _reached(tree: ast.Module) -> Iterator[tuple[Rule, str, int, str]]:
    names = imported(tree)
    documented = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    inner = {id(one) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for one in node.values[1:]}
    for _, node in walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from _imports(node)
        elif isinstance(node, ast.Name | ast.Attribute):
            yield from _named(node, names)
        elif isinstance(node, ast.Call):
            yield from _call(node, names)
        elif isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Delete):
            yield from _sets(node, names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented | inner:
            if _URL.search(node.value):
                yield Rule.OUTSIDE, node.value, node.lineno, "it names the address"
            elif _OUTSIDE.search(node.value):
                yield Rule.OUTSIDE, node.value, node.lineno, "it names a place outside of the folder:"


def _imports(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[Rule, str, int, str]]:
    if isinstance(node, ast.Import):
        modules = [one.name for one in node.names]
    elif node.level:
        return
    else:
        modules = [node.module or "", *(f"{node.module}.{one.name}" for one in node.names)]
    for module in modules:
        if any(module == one or module.startswith(f"{one}.") for one in MODULES):
            yield Rule.IMPORTS, module, node.lineno, "it imports"
            return


def _named(node: ast.Name | ast.Attribute, names: dict[str, str]) -> Iterator[tuple[Rule, str, int, str]]:
    name = dotted(node, names)
    bare = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and name in BARE
    whole = isinstance(node, ast.Attribute) or node.id in names  # a variable that is called `os` is none of ours
    inside = (
        isinstance(node, ast.Attribute) and node.attr in HIDDEN and isinstance(node.value, ast.Name | ast.Attribute)
    )
    if bare or (whole and DOTTED.search(name)) or (inside and root_of(node) in names):
        yield Rule.CALLS, name, node.lineno, "it uses"
    elif isinstance(node, ast.Attribute) and node.attr in INNER:
        yield Rule.CALLS, node.attr, node.lineno, "it reaches into"


def _call(node: ast.Call, names: dict[str, str]) -> Iterator[tuple[Rule, str, int, str]]:
    callee = dotted(node.func, names)
    first = node.args[0] if node.args else None
    if callee in ("getattr", "setattr", "delattr", "vars") and isinstance(first, ast.Name) and first.id in names:
        literal = len(node.args) > 1 and isinstance(node.args[1], ast.Constant)
        if callee in ("setattr", "delattr"):
            yield Rule.FOREIGN, ast.unparse(node), node.lineno, "it sets"
        elif not literal:
            yield Rule.CALLS, ast.unparse(node), node.lineno, "it looks up by a name that is not written there"
    for one in node.keywords:
        if one.arg in ("allow_pickle", "download", "trust_remote_code", "trust_repo") and not (
            isinstance(one.value, ast.Constant) and not one.value.value
        ):
            yield Rule.CALLS, f"{last_part(callee)}({one.arg}=...)", node.lineno, "it asks for"


def _sets(
    node: ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Delete, names: dict[str, str]
) -> Iterator[tuple[Rule, str, int, str]]:
    for target in node.targets if isinstance(node, ast.Assign | ast.Delete) else [node.target]:
        for one in target.elts if isinstance(target, ast.Tuple | ast.List) else [target]:
            place = one.value if isinstance(one, ast.Subscript) else one
            if isinstance(place, ast.Attribute) and root_of(place) in names:
                yield Rule.FOREIGN, dotted(place, names), one.lineno, "it sets"


def _written(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for _, node in walk(tree):
        if not isinstance(node, ast.Call):
            continue
        callee = last_part(dotted(node.func, {}))
        values = [*node.args, *(one.value for one in node.keywords if one.arg == "mode")]
        modes = [one.value for one in values if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        opens = callee == "open" and any(re.fullmatch(r"[rbt]*[wax+][wbt+]*", mode) for mode in modes)
        if opens or callee in WRITERS or dotted(node.func, {}) in ("torch.save", "np.save", "numpy.save"):
            yield ast.unparse(node), node.lineno
