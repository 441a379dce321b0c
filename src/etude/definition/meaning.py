"""What a piece of code means: its syntax tree, without what is free (comments, blank lines, docstrings)."""

from __future__ import annotations

import ast
import hashlib
import types
import warnings


def parsed(text: str) -> ast.Module:
    """Return the syntax tree of a source text, or of a piece of one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of odd escapes in strings, which Python has told already
        try:
            return ast.parse(text)
        except IndentationError:  # a text with less indented strings in it cannot be dedented
            return ast.parse(f"if True:\n{text}")


def compiled(text: str, file: str) -> types.CodeType:
    """Return the code object of a source text; it is never run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return compile(parsed(text), file, "exec", dont_inherit=True)


def meaning(text: str) -> str:
    """Return code as its syntax tree without docstrings, and a value as it is."""
    if "\n" not in text:
        return text
    try:
        tree = parsed(text)
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                has_docstring = ast.get_docstring(node, clean=False) is not None
                node.body = node.body[1:] if has_docstring else node.body
        return _shape(tree)
    except (SyntaxError, ValueError, RecursionError):
        return text


def _shape(node: object) -> str:
    """Return what ``ast.dump`` does, but alike in every Python: fields that are not used are left out."""
    if isinstance(node, ast.Constant):
        return repr(node.value)
    if isinstance(node, ast.AST):
        used = [f"{name}={_shape(value)}" for name, value in ast.iter_fields(node) if value not in (None, [])]
        return f"{type(node).__name__}({', '.join(used)})"
    return f"[{', '.join(map(_shape, node))}]" if isinstance(node, list) else repr(node)


def bytecode(code: types.CodeType) -> str:
    """Return a hash of what a function does, wherever it stands; never its repr, which holds an address."""
    constants = [
        bytecode(constant)
        if isinstance(constant, types.CodeType)
        else repr(sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant)
        for constant in code.co_consts
    ]
    names = (code.co_names, code.co_varnames, code.co_cellvars, code.co_freevars)
    shape = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    told = repr((code.co_code, code.co_exceptiontable, names, shape, constants))
    return f"bytecode {hashlib.sha256(told.encode()).hexdigest()}"
