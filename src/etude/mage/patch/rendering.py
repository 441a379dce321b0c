"""How a change is written down: by us, for an example, and as we tell models to."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Final

from etude.mage.patch.blocks import Block, Search, Symbol

LANGUAGES: Final = {"py": "python", "pyi": "python", "yaml": "yaml", "yml": "yaml", "toml": "toml", "json": "json"}
WITHOUT_NEWLINE: Final = "without-newline"
"""Says that a text does not end with the end of a line, as texts between fences otherwise do."""
_PLAIN: Final = re.compile(r"[\w./<>-]+", re.ASCII)
_FENCE: Final = re.compile(r"^`+", re.MULTILINE)

MOST_WHOLE: Final = 150
"""So many lines a file may have that a model writes again as a whole, if it gets smaller pieces right, too."""

_BEGIN: Final = """\
Write a few sentences of prose if you like, and the change as fenced blocks. Fences begin at the left edge of a line,
and every fenced block is a change, so put no other code into fences. The line that opens a block names the file, as it
is called in the list of files, and what in it is meant:
"""
_SYMBOL: Final = """\
`file=PATH symbol=NAME`: the function, method or class of that qualified name gets the block as its new source. The
   block holds all of that one definition, with its decorators, and nothing else. Of several definitions of one name say
   which, by `nth=1`, `nth=2`."""
_SEARCH: Final = """\
`file=PATH search`, and directly after it a block that is opened with `replace`: whole lines of the file, as they
   stand there, and what takes their place. The lines must occur exactly once in the file, so take as many as are
   needed. For code outside of functions, imports, and YAML, TOML or JSON. To delete lines, leave the second block
   empty."""
_WHOLE: Final = "`file=PATH whole`: all of the file."
_END: Final = """
All of a block counts: never leave anything out with `...` or a comment such as "rest unchanged". If the text itself
has a line that begins with three backticks, use four or more around it. All blocks are applied together to the files
as they were sent, or none of them; no two may change the same lines.

An example, in which a layer goes and an import comes:

<example>
The layer after `conv` is removed, and `head` gets what `conv` gives.

{example}</example>

If the change cannot be made, write no block, and one line: `CANNOT: ` and the reason."""
_EXAMPLE: Final = """\
```python file=net.py symbol=Net.__init__
def __init__(self, width):
    super().__init__()
    self.conv = nn.Conv2d(3, width, 3)
    self.head = nn.Linear(width, 10)
```

```python file=net.py search
import torch
```

```python replace
import math

import torch
```
"""
_WHOLE_EXAMPLE: Final = """\
```python file=net.py whole
import math

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3)
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        return self.head(self.conv(x).mean((2, 3)))
```
"""

GRAMMAR: Final = f"""\
{_BEGIN}
1. {_SYMBOL} This is the usual way for Python.
2. {_SEARCH}
3. {_WHOLE} Only for new files, and for those of at most {MOST_WHOLE} lines.
{_END.format(example=_EXAMPLE)}"""
"""What a model is told about the form of its answer."""

WHOLE_FIRST: Final = f"""\
{_BEGIN}
1. {_WHOLE} This is the usual way: the file once more, with the change
   and nothing else in it.
2. {_SYMBOL} For a file that is too long to be written again.
3. {_SEARCH}
{_END.format(example=_WHOLE_EXAMPLE)}"""
"""The same, for a small model: one that copies a file better than it names a piece of it."""


def render(blocks: Iterable[Block]) -> str:
    r"""Return blocks as a reply, which ``read_reply`` reads as the same blocks.

    Example:
        >>> print(render([Symbol(file="a.py", name="f", text="def f():\n    return 1\n")]), end="")
        ```python file=a.py symbol=f
        def f():
            return 1
        ```
    """
    return "\n".join(_rendered(block) for block in blocks)


def _rendered(block: Block) -> str:
    suffix = block.file.rpartition(".")[2]
    info = f"{LANGUAGES.get(suffix, 'text')} file={_value(block.file)}"
    if isinstance(block, Symbol):
        nth = f" nth={block.nth}" if block.nth else ""
        return _fenced(f"{info} symbol={_value(block.name)}{nth}", block.text)
    if isinstance(block, Search):
        return _fenced(f"{info} search", block.search) + _fenced(f"{LANGUAGES.get(suffix, 'text')} replace", block.text)
    return _fenced(f"{info} whole", block.text)


def _value(text: str) -> str:
    if _PLAIN.fullmatch(text):
        return text
    return json.dumps(text).replace("`", "\\u0060").replace("\x7f", "\\u007f")


def _fenced(info: str, text: str) -> str:
    fence = "`" * max(3, 1 + max(map(len, _FENCE.findall(text)), default=0))
    if text and not text.endswith("\n"):
        info, text = f"{info} {WITHOUT_NEWLINE}", f"{text}\n"
    return f"{fence}{info}\n{text}{fence}\n"
