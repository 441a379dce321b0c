"""How the documentation site is made of the pages here: ``make docs``."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs" / "_ext"))

from etude.core.version import VERSION  # noqa: E402

project = "Étude"
author = "The Étude developers"
copyright = author  # noqa: A001 - the name that Sphinx reads
version = release = VERSION
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**", "examples/**/*.md", "benchmarks/*.md"]
exclude_patterns = ["docs/_ext/**", "docs/reference/_*", "examples/mage_*/authored/**", "examples/mage_*/papers/**"]
extensions = [
    *["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.graphviz", "sphinx.ext.viewcode"],
    *["diagrams", "folders", "promises", "signatures", "sources"],
]
html_theme = "furo"
html_title = f"Étude {VERSION}"
html_copy_source = False
html_show_sourcelink = False
graphviz_output_format = "svg"

myst_heading_anchors = 6
myst_enable_extensions = ["colon_fence"]
suppress_warnings = ["myst.header"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 66
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
