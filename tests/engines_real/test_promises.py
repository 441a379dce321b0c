"""The engines of other people's clusters keep what every engine promises."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from apart import from_others, started
from support import write_script

if sys.platform != "linux":
    pytest.skip("what is left of a script is told by what /proc says", allow_module_level=True)

SCRIPT = """
    import sys
    from etude.engines.named import read_engine
    from etude.testing import check_engine

    if __name__ == "__main__":
        check_engine(lambda: read_engine(sys.argv[1])[0], patience_s=120.0)
"""


@pytest.mark.parametrize(
    ("framework", "engine"),
    [("ray", "ray"), ("pyspark", "spark"), ("pyspark", "spark(master='local-cluster[2,2,1024]')")],
)
def test_it_keeps_what_engines_promise(framework: str, engine: str, tmp_path: Path) -> None:
    pytest.importorskip(framework)
    script = write_script(tmp_path, SCRIPT)
    with from_others() as environment, started(script, engine, environment=environment) as check:
        check.end()
