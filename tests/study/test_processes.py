"""Warm processes: what is loaded before the fork works after it."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import pytest
from support import run_script, write_script

import etude

MIX = """
    import numpy as np
    import scipy.linalg
    import torch
    from sklearn.cluster import KMeans
    from sklearn.datasets import load_digits
    from sklearn.ensemble import HistGradientBoostingClassifier

    images, labels = (part[:200] for part in load_digits(return_X_y=True))

    def use_all_pools():
        a = np.random.default_rng(0).normal(size=(100, 100))
        scipy.linalg.svdvals(a @ a.T)                                      # OpenBLAS: numpy's and scipy's
        KMeans(2, n_init=1, random_state=0).fit(images)                    # OpenMP: scikit-learn's
        HistGradientBoostingClassifier(max_iter=1).fit(images, labels)     # OpenMP again
        net = torch.nn.Sequential(torch.nn.Conv2d(1, 8, 3), torch.nn.Flatten(), torch.nn.Linear(288, 10))
        net(torch.ones(8, 1, 8, 8)).square().mean().backward()             # OpenMP: torch's own

    use_all_pools()  # once where the module is imported: before the fork
"""


@pytest.mark.thorough
def test_thread_pools_that_were_used_before_the_fork_do_not_hang_the_children(tmp_path: Path) -> None:
    write_script(tmp_path, MIX, "mix.py")
    script = write_script(
        tmp_path,
        """
        import etude, mix, threadpoolctl, torch

        def train(x: int, run):
            mix.use_all_pools()
            pools = sorted({p["num_threads"] for p in threadpoolctl.threadpool_info()})
            return {"score": 1.0, "threads": pools, "torch": torch.get_num_threads()}

        search = etude.Experiment(train, metric="score", mode="max").tune(
            {"x": etude.integers(0, 1000)}, trials=2, workers=1, sampler="random", timeout_s=100,
        )
        print(search.counts(), [(t.metrics["threads"], t.metrics["torch"]) for t in search.trials])
        assert search._handle.study.notes == [], "forked, not spawned"
        """,
    )
    done = run_script(script, OMP_WAIT_POLICY="passive")
    cores = len(os.sched_getaffinity(0))
    assert done.stdout == f"{{'finished': 2}} {[([cores], cores)] * 2}\n", done.stderr
    assert done.returncode == 0, done.stderr


def test_a_thread_that_starts_at_import_means_spawn_and_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "threaded.py").write_text(
        textwrap.dedent(
            """
            import threading
            threading.Thread(target=threading.Event().wait, daemon=True).start()
            def value(): return 4.0
            """
        )
    )
    script = write_script(
        tmp_path,
        """
        import etude, os, threaded
        def train(x: int, run):
            run.report(score=1.0)
            print("in a spawned child")
            return {"score": threaded.value(), "pid": os.getpid()}
        live = etude.Experiment(train, metric="score", mode="max").tune(
            {"x": etude.integers(0, 1000)}, trials=3, workers=2, sampler="random", wait=False)
        search = live.wait()
        print(search.counts(), len({t.metrics["pid"] for t in search.trials}), search.best.log.read_text().strip())
        print(live._handle.study.notes)
        """,
    )
    done = run_script(script)
    first, notes = done.stdout.splitlines()
    assert first == "{'finished': 3} 3 in a spawned child", done.stderr
    assert notes == (
        "['Attempts are spawned, which is slower than a fork: 1 thread(s) were started while your modules "
        "were imported.']"
    )


def test_the_thread_of_arrows_allocator_does_not_mean_spawn(tmp_path: Path) -> None:
    script = write_script(
        tmp_path,
        """
        import etude, pyarrow
        from pathlib import Path
        def threads():
            return sorted((task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir())
        def train(x: int):
            pool = pyarrow.jemalloc_memory_pool()
            kept = [pyarrow.allocate_buffer(102_400, memory_pool=pool) for _ in range(20)]
            size = pool.bytes_allocated()
            kept.clear()
            pool.release_unused()
            return {"score": float(size), "left": pool.bytes_allocated()}
        live = etude.Experiment(train, metric="score", mode="max").tune(
            {"x": etude.integers(0, 1000)}, trials=3, workers=2, sampler="random", wait=False)
        search = live.wait()
        print("jemalloc_bg_thd" in threads(), live._handle.study.notes)
        print(search.counts(), {(t.value, t.metrics["left"]) for t in search.trials})
        """,
    )
    done = run_script(script)
    assert done.stdout == "True []\n{'finished': 3} {(2048000.0, 0)}\n", done.stderr


def test_a_second_study_finds_the_workers_warm_and_the_users_modules_fresh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib

    module = tmp_path / "settings_of_mine.py"
    module.write_text("VALUE = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    settings = importlib.import_module("settings_of_mine")

    def train(x: int):
        import os

        return {"score": settings.VALUE, "warm": os.getppid()}

    experiment = etude.Experiment(train, metric="score", mode="max")
    first = experiment.tune({"x": [1]}, trials=1, workers=1).best
    module.write_text("VALUE = 200\n")
    importlib.reload(settings)
    second = experiment.tune({"x": [1]}, trials=1, workers=1).best
    assert (first.value, second.value) == (1.0, 200.0)


def test_a_child_gets_the_threads_that_are_its_share() -> None:
    def train(x: int):
        return {"score": 1.0, "threads": os.environ["OMP_NUM_THREADS"]}

    experiment = etude.Experiment(train, metric="score", mode="max")
    cores = len(os.sched_getaffinity(0))
    for workers in (1, 2, 5):
        search = experiment.tune({"x": [1]}, trials=1, workers=workers, name=f"w{workers}")
        assert search.best.metrics["threads"] == str(max(1, cores // workers))
