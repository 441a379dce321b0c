"""The docs are true: their code runs, their pictures are those of the code, their links lead somewhere.

``python tests/test_docs.py`` draws the pictures anew (``make diagram``).
"""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import os
import pkgutil
import re
import runpy
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tests.pages import FENCE, PAGES, REASON, ROOT, TEST, as_script, blocks_of, marked

import etude
from etude.core import lifecycle

ARCHITECTURE = ROOT / "docs" / "architecture.md"
DRAWN = (ARCHITECTURE, ROOT / "docs" / "concepts.md")
"""Pages with the diagram of what can become of a trial."""
FAILURES = ROOT / "docs" / "failures.md"
GLOSSARY = ROOT / "docs" / "glossary.md"

LANGUAGES = {"bash", "console", "diff", "json", "mermaid", "python", "text", "toml", "yaml"}
"""What is in blocks. Commands and files are checked by tests/test_commands_on_pages.py; a picture by its own table."""
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
DIAGRAM = re.compile(r"(```mermaid\n)(stateDiagram-v2\n.*?)(\n```)", re.DOTALL)
NEEDS_TORCH = {"etude.frameworks.torch"}
LOADS_A_TRAINER = {
    *{"etude.frameworks.keras", "etude.frameworks.keras_fit", "etude.frameworks.transformers"},
    *{"etude.frameworks.xgboost", "etude.frameworks.lightgbm"},
}
"""They have no examples, and their libraries take ten seconds to load; tests/frameworks/test_callbacks.py and
tests/frameworks/test_boosting.py do that."""


def anchors(page: str) -> set[str]:
    """Return the names under which the headings of a page can be linked."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def names_of_tests(source: str) -> set[str]:
    """Return the names of the tests in a file, under which a page links them."""
    return set(re.findall(r"^(?:async )?def (test_\w+)", source, re.MULTILINE))


def with_diagram(page: str) -> str:
    """Return the page with the diagram that the lifecycle table gives."""
    return DIAGRAM.sub(lambda found: found[1] + lifecycle.diagram() + found[3], page)


def words() -> list[str]:
    """Return the words that the glossary defines."""
    return re.findall(r"^\*\*(.+?)\*\*", GLOSSARY.read_text(), re.MULTILINE)


def modules() -> list[str]:
    found = [m.name for m in pkgutil.walk_packages(etude.__path__, "etude.")]
    return ["etude", *(name for name in found if not name.endswith("__main__") and name not in LOADS_A_TRAINER)]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def test_the_diagram_of_the_mage_is_its_tables() -> None:
    from etude.mage.loop.states import diagram

    assert diagram() in (ROOT / "docs" / "mage.md").read_text(), "the table has changed: put states.diagram() there"


FOLLOWED = ("start.md", "resume.md", "exports.md")
"""Pages that are run together with their commands, by tests/test_commands_on_pages.py."""


@pytest.mark.parametrize("page", [p for p in PAGES if as_script(p.read_text()) and p.name not in FOLLOWED], ids=name_of)
def test_the_code_on_a_page_runs(page: Path, tmp_path: Path) -> None:
    script = tmp_path / f"{page.stem.lower().replace('-', '_')}_page.py"
    script.write_text(as_script(page.read_text()) + "\n")
    done = subprocess.run(
        [sys.executable, "-W", "error", script.name],
        cwd=tmp_path,
        env={**os.environ, "ETUDE_STUDIES": str(tmp_path / "studies"), "ETUDE_PROGRESS": "0"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, f"{name_of(page)} failed (line numbers are the page's):\n{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    text = page.read_text()
    broken = []
    for target in LINK.findall(FENCE.sub("", text)):
        if "://" in target or target.startswith("mailto:"):
            continue
        file, _, anchor = target.partition("#")
        there = (page.parent / file).resolve() if file else page
        names = names_of_tests if there.suffix == ".py" else anchors
        if not there.exists() or (anchor and anchor not in names(there.read_text())):
            broken.append(target)
    assert not broken, f"{name_of(page)} links to what is not there: {broken}"


def test_everything_that_can_happen_leads_to_a_test_that_shows_it() -> None:
    rows = [line for line in FAILURES.read_text().splitlines() if line.startswith("| ")]
    assert len(rows) > 40
    bare = [row for row in rows if not row.startswith("| what happens") and "](../tests/" not in row]
    assert not bare, f"docs/failures.md says what no test shows: {bare}"


def test_no_two_things_that_can_happen_are_shown_by_the_same_tests() -> None:
    """No check can tell whether a test shows what its row says; but what shows two rows alike tells neither apart."""
    seen: dict[frozenset[str], str] = {}
    for row in FAILURES.read_text().splitlines():
        links = re.findall(r"\[(\w+)\]\((\.\./tests/[^)]+)\)", row)
        if not row.startswith("| ") or not links:
            continue
        assert {kind for kind, _ in links} <= {"p", "v"}, row
        assert len(set(links)) == len(links), f"a link stands twice: {row}"
        whole = [path for kind, path in links if kind == "v" and path.startswith("../tests/study/")]
        assert not whole, f"a v is no whole study: {whole}"
        twin = seen.setdefault(frozenset(path for _, path in links), row)
        assert twin is row, f"two rows of docs/failures.md have the same links:\n{twin}\n{row}"


@pytest.mark.parametrize("file", DRAWN, ids=lambda file: file.name)
def test_the_diagram_in_the_docs_is_the_tables(file: Path) -> None:
    page = file.read_text()
    assert DIAGRAM.search(page), f"{file.name} has no state diagram"
    assert with_diagram(page) == page, "the lifecycle table has changed; run: make diagram"


def test_the_pictures_are_those_of_the_code() -> None:
    drawn = pictures()
    assert {path.name: path.read_text() for path in (ROOT / "docs" / "pictures").iterdir()} == drawn, (
        "run: make diagram"
    )


def pictures() -> dict[str, str]:
    """Return what ``docs/pictures.py`` draws."""
    drawn: dict[str, str] = runpy.run_path(str(ROOT / "docs" / "pictures.py"))["pictures"]()
    return drawn


def test_the_reference_has_each_name_of_the_window_once() -> None:
    pages = [path.read_text() for path in (ROOT / "docs" / "reference").glob("*.md")]
    entries = re.findall(
        r"^\.\. auto(?:class|function|data|exception|module):: (?:etude\.)?(\w+)$", "\n".join(pages), re.MULTILINE
    )
    assert sorted(entries) == sorted([*etude.__all__, "testing"])


PROMISES = runpy.run_path(str(ROOT / "docs" / "_ext" / "promises.py"))


def told_of(docstring: str | None) -> bool:
    """Say whether a docstring tells of arguments, or of the attributes that they become."""
    return re.search(r"^ *(Args|Attributes):$", docstring or "", re.MULTILINE) is not None


def takes_some(made: object) -> bool:
    """Say whether something is called with arguments."""
    return any(name not in {"self", "cls"} for name in inspect.signature(made).parameters)  # type: ignore[arg-type]


def functions_of(cls: type) -> list[str]:
    """Return the public methods that a class writes itself."""
    return [
        name
        for name, found in vars(cls).items()
        if not name.startswith("_") and inspect.isroutine(getattr(cls, name)) and getattr(cls, name).__doc__
    ]


@pytest.mark.parametrize("window", PROMISES["WINDOWS"])
def test_the_reference_tells_of_the_arguments_of_everything_that_has_some(window: str) -> None:
    untold = []
    for name, found in PROMISES["names_of"](window):
        if inspect.isfunction(found) and takes_some(found) and not told_of(found.__doc__):
            untold.append(name)
        if not isinstance(found, type):
            continue
        made = not (PROMISES["is_not_made"](found) or issubclass(found, BaseException))
        if made and takes_some(found) and not told_of(found.__doc__):
            untold.append(name)
        untold += [
            f"{name}.{method}"
            for method in functions_of(found)
            if takes_some(getattr(found, method))
            and not told_of(getattr(found, method).__doc__)
            and PROMISES["promised_by"](found, method) is None
        ]
    assert not untold, f"Args: is missing in {untold}"


def raises(function: object) -> bool:
    """Say whether a function raises something in its own lines."""
    parts = list(ast.parse(textwrap.dedent(inspect.getsource(function))).body)  # type: ignore[arg-type]
    within: list[ast.AST] = list(ast.iter_child_nodes(parts[0]))
    while within:
        part = within.pop()
        if isinstance(part, ast.Raise) and part.exc is not None:
            return True
        if not isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            within += ast.iter_child_nodes(part)
    return False


def called_of(cls: type) -> list[tuple[str, object, str]]:
    """Return what a class writes itself and users call, each with its docstring; that of its making is the class's."""
    found: list[tuple[str, object, str]] = []
    for name, one in vars(cls).items():
        function = one.fget if isinstance(one, property) else getattr(one, "__func__", one)
        if inspect.isfunction(function) and name in ("__init__", "__post_init__"):
            if not PROMISES["is_not_made"](cls) and "<string>" not in function.__code__.co_filename:
                found.append((cls.__name__, function, cls.__doc__ or ""))
        elif inspect.isfunction(function) and not name.startswith("_"):
            found.append((f"{cls.__name__}.{name}", function, function.__doc__ or ""))
    return found


@pytest.mark.parametrize("window", PROMISES["WINDOWS"])
def test_the_reference_tells_of_the_errors_of_everything_that_raises(window: str) -> None:
    found: list[tuple[str, object, str]] = []
    for name, one in PROMISES["names_of"](window):
        if inspect.isfunction(one):
            found.append((name, one, one.__doc__ or ""))
        elif isinstance(one, type):
            found += called_of(one)
    untold = [name for name, function, told in found if raises(function) and "Raises:" not in told]
    assert not untold, f"Raises: is missing in {untold}"


def test_what_carries_out_a_protocol_is_told_of_there() -> None:
    promised_by = PROMISES["promised_by"]
    assert promised_by(etude.ASHA, "decide") == "etude.Stopper.decide"
    assert promised_by(etude.Grid, "size") == "etude.Sampler"  # which need not be there
    assert promised_by(etude.policies.Path, "more") == "etude.policies.Adaptive.more"
    assert promised_by(etude.Stopper, "decide") is None
    assert promised_by(etude.Search, "top") is None


def test_the_glossary_is_sorted_and_names_each_word_once() -> None:
    lowered = [word.lower() for word in words()]
    assert len(lowered) > 20
    assert lowered == sorted(set(lowered))


def test_every_word_of_the_glossary_is_in_use() -> None:
    source = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py")).lower()
    idle = [word for word in words() if not re.search(rf"\b{re.escape(word.lower())}s?\b", source)]
    assert not idle, f"the glossary defines words that the source never uses: {idle}"


@pytest.mark.parametrize("name", modules())
def test_the_examples_in_docstrings_are_true(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name in NEEDS_TORCH:
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0, f"{result.failed} of {result.attempted} examples in {name} are not true; see the output"


def test_blocks_keep_their_line_numbers_and_may_be_left_out_for_a_reason() -> None:
    first, skipped, last = (f"```python\n{code}\n```\n" for code in ("x = 1", "x = 2", "y = x"))
    script = as_script(f"one\n\n{first}<!-- not run: it needs a GPU -->\n\n{skipped}\n{last}")
    assert {n: line for n, line in enumerate(script.splitlines(), start=1) if line} == {4: "x = 1", 13: "y = x"}


@pytest.mark.parametrize("mark", ["not run", "not run:", "not run: ", "run by somebody", "run by tests/test_docs.py"])
def test_a_mark_without_a_reason_or_a_test_is_refused(mark: str) -> None:
    with pytest.raises(AssertionError, match="says why"):
        as_script(f"<!-- {mark} -->\n```python\nx = 1\n```\n")


def test_a_comment_that_is_no_mark_leaves_no_block_out() -> None:
    mark, block = "<!-- not run: it needs a GPU -->\n", "```python\nx = 1\n```\n"
    page = f"{mark}{block}\n<!-- a remark -->\n{block}\n{mark}\nA sentence.\n\n<!-- another -->\n{block}"
    assert as_script(page).split() == ["x", "=", "1"] * 2


@pytest.mark.parametrize("page", [p for p in PAGES if "<!--" in p.read_text()], ids=name_of)
def test_every_mark_stands_above_a_block_that_is_python(page: Path) -> None:
    marks = re.findall(r"^<!-- *((?:not run|run by)\b.*?) *-->$", page.read_text(), re.MULTILINE)
    found = marked(page.read_text())
    assert [mark for mark, _ in found] == marks
    for _, code in found:
        ast.parse(code)


def test_the_test_that_runs_a_block_is_there_and_takes_it_from_the_page() -> None:
    for page in PAGES:
        for mark, code in marked(page.read_text()):
            if REASON.fullmatch(mark):
                continue
            file, test = TEST.fullmatch(mark).groups()  # type: ignore[union-attr]
            source = (ROOT / file).read_text()
            assert test in names_of_tests(source), f"{name_of(page)}: {mark}, which is not there"
            assert "blocks_of(" in source or page.name in source, f"{file} reads no block of {name_of(page)}"
            assert code in blocks_of(file, test)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_python_goes_by_another_name(page: Path) -> None:
    """A block of `text` is not run, so code may not hide in one."""
    for block in FENCE.finditer(page.read_text()):
        assert block[1] in {"", *LANGUAGES}, f"{name_of(page)}: nothing reads blocks of {block[1]!r}"
        if block[1] == "text":
            with pytest.raises(SyntaxError):
                ast.parse(block[2])


if __name__ == "__main__":
    for page in DRAWN:
        page.write_text(with_diagram(page.read_text()))
    for name, drawn in pictures().items():
        (ROOT / "docs" / "pictures" / name).write_text(drawn)
