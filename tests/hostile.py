"""An ablation that calls everything it can by texts that would do something if they were read as HTML."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from etude.testing.written import Written, write_study

TEXTS: Final = (
    "</td></table></script><script>window.ran = 1</script>",
    '<img src=x onerror="window.ran = 2">',
    "\" onmouseover=\"window.ran = 3\" ' onfocus='window.ran = 4' autofocus tabindex=0 x='",
    '<a href="javascript:window.ran = 5">javascript:window.ran = 5</a>',
    '</text></svg><svg onload="window.ran = 6"><foreignObject><iframe srcdoc="<script>parent.ran = 7</script>">',
    "&lt;b&gt; <style>body{display:none}</style> <base href=//evil.example> <!-- ${window.ran = 8} {{1}}",
)
"""Tags, ends of tags, ends of attributes, addresses, and what was escaped once already."""

METRIC: Final = '<b onclick="window.ran = 9">accuracy'


def write_hostile_ablation(folder: Path) -> Path:
    """Write an ablation whose arms, components, plans, workers' reasons and metric are called so."""
    names = ["base", *(f"without {text}" for text in TEXTS)]
    trials = [
        Written(
            value=0.9 - 0.1 * (nth % 2) + seed / 1000,
            seed=seed,
            arm=name,
            curve=[0.1, 0.2],
            state="failed" if nth and seed == nth else "finished",
            reason=f"{TEXTS[nth - 1]} is why",
        )
        for seed in range(8)
        for nth, name in enumerate(names)
    ]
    arms = [
        {"name": name, "taken": [name], "changes": [name], "says": [f"{name} is said"], "rung": name} for name in names
    ]
    question = {"arms": arms, "policy": TEXTS[0], "trials": len(trials)}
    return write_study(folder, trials, verb="ablate", metrics={METRIC: "max"}, question=question)


def taken_for_html(page: Any) -> list[str]:
    """Return what on a page none of ours has made, and what has run."""
    found: list[str] = page.evaluate(
        """() => {
          const all = [...document.querySelectorAll("body > :not(script), body > :not(script) *")];
          const evil = /^(script|img|iframe|foreignobject|style|base|b)$/i;
          const tags = all.filter((one) => evil.test(one.tagName) && !one.matches(".threats b"));
          const calls = all.flatMap((one) => [...one.attributes].filter(({ name }) => name.startsWith("on")));
          const links = all.filter((one) => one.getAttribute("href")?.startsWith("javascript:"));
          const ran = window.ran === undefined ? [] : [`ran: ${window.ran}`];
          return [...tags.map((one) => one.outerHTML), ...calls.map(({ name }) => name),
            ...links.map((one) => one.outerHTML), ...ran];
        }"""
    )
    return found
