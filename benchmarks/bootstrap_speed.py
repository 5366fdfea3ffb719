"""Resampling against a loop: 1,000 bootstraps of sample-level correlations on a 16 x 100 matrix.

The other side is nlpstats where it is installed, else scipy in the same kind of loop; both get the
same resamples in the same run, and the largest difference of their values is printed. Then the
seconds of 10,000 permutations of the paired test for 4 criteria. With ADJUDGE_DATA, gold is
SummEval's; the judges are made from it, by rounding with noise.

    pip install nlpstats
    ADJUDGE_DATA=... python benchmarks/bootstrap_speed.py
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from adjudge.stats.correlation import Coefficient
from adjudge.stats.inference import permutation_test
from adjudge.stats.resampling import resampled_correlations

Floats = npt.NDArray[np.float64]
Loop = Callable[[Floats, Floats], float]

BOOTSTRAPS = 1_000
PERMUTATIONS = 10_000
COEFFICIENTS: dict[Coefficient, str] = {"spearman": "spearman", "kendall_tau_b": "kendall"}


def load_gold(rng: np.random.Generator) -> tuple[str, dict[str, Floats]]:
    """Return where gold is from, and a matrix of 16 systems x 100 sources per criterion."""
    names = ["coherence", "consistency", "fluency", "relevance"]
    folder = os.environ.get("ADJUDGE_DATA")
    if not folder:
        drawn = {name: rng.integers(3, 16, (16, 100)) / 3 for name in names}
        return "synthetic thirds", drawn
    path = Path(folder) / "summeval" / "summeval_bartscore.json"
    sources = json.loads(path.read_text("utf-8")).values()
    systems = sorted(next(iter(sources))["sys_summs"])
    return "SummEval", {
        name: np.array([[s["sys_summs"][m]["scores"][name] for s in sources] for m in systems])
        for name in names
    }


def judge(gold: Floats, rng: np.random.Generator) -> Floats:
    """Return scores that follow gold, with ties."""
    return np.asarray(np.round(gold + rng.normal(size=gold.shape), 1))


def loops() -> tuple[str, dict[str, Loop]]:
    """Return the other side's name and its sample-level correlations."""
    if importlib.util.find_spec("nlpstats"):
        correlate: Any = importlib.import_module("nlpstats.correlations.correlations").correlate
        return "nlpstats", {
            name: lambda x, y, name=name: float(correlate(x, y, "input", name))  # type: ignore[misc]
            for name in COEFFICIENTS.values()
        }
    stats: Any = importlib.import_module("scipy.stats")
    functions = {"spearman": stats.spearmanr, "kendall": stats.kendalltau}

    def looped(function: Any) -> Loop:
        return lambda x, y: float(
            np.nanmean([function(x[:, n], y[:, n]).statistic for n in range(x.shape[1])])
        )

    return "a scipy loop", {name: looped(function) for name, function in functions.items()}


def compare_bootstraps(prediction: Floats, gold: Floats, rng: np.random.Generator) -> None:
    """Print the ratio of seconds and the largest difference, per coefficient."""
    n_systems, n_sources = gold.shape
    rows = rng.integers(0, n_systems, (BOOTSTRAPS, n_systems))
    columns = rng.integers(0, n_sources, (BOOTSTRAPS, n_sources))
    systems = np.array([np.bincount(drawn, minlength=n_systems) for drawn in rows])
    sources = np.array([np.bincount(drawn, minlength=n_sources) for drawn in columns])
    other, correlations = loops()
    for coefficient, name in COEFFICIENTS.items():
        started = time.perf_counter()
        ours = resampled_correlations(prediction, gold, systems, sources, coefficient=coefficient)
        taken = time.perf_counter() - started
        started = time.perf_counter()
        theirs = [
            correlations[name](prediction[np.ix_(row, column)], gold[np.ix_(row, column)])
            for row, column in zip(rows, columns, strict=True)
        ]
        looped = time.perf_counter() - started
        print(
            f"{coefficient}, {BOOTSTRAPS:,} bootstraps: adjudge {taken:.3f} s,"
            f" {other} {looped:.2f} s: {looped / taken:.0f} times as fast;"
            f" largest difference {np.abs(ours - theirs).max():.1e}"
        )


def time_permutations(gold: dict[str, Floats], rng: np.random.Generator) -> None:
    """Print the seconds of the paired permutation test, per coefficient and design."""
    judges = {name: (judge(scores, rng), judge(scores, rng)) for name, scores in gold.items()}
    coefficients: tuple[Coefficient, ...] = ("pearson", *COEFFICIENTS)
    for coefficient in coefficients:
        started = time.perf_counter()
        for name, (a, b) in judges.items():
            permutation_test(
                a, b, gold[name], rng=rng, n_resamples=PERMUTATIONS, coefficient=coefficient
            )
        taken = time.perf_counter() - started
        print(f"{coefficient}, {PERMUTATIONS:,} permutations x {len(gold)} criteria: {taken:.2f} s")


def main() -> None:
    """Measure and print."""
    warnings.simplefilter("ignore")  # scipy's, at constant groups
    rng = np.random.default_rng(0)
    name, gold = load_gold(rng)
    print(f"gold: {name}, {len(os.sched_getaffinity(0))} cores")
    compare_bootstraps(judge(gold["consistency"], rng), gold["consistency"], rng)
    time_permutations(gold, rng)


if __name__ == "__main__":
    main()
