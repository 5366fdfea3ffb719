"""Presets of Prometheus 2's tables: what is printed, and what can be run of them."""

from __future__ import annotations

from typing import Any

import pytest

from adjudge.benchmarks.base import RatedResponse, named_benchmarks
from adjudge.criteria.named import named_criteria
from adjudge.errors import ConfigError
from adjudge.experiments import ablate
from adjudge.experiments.tables import Job, TablePreset, load_table, plan_jobs, table_presets
from adjudge.experiments.tables import lacking_data as lacking
from adjudge.registry import judges
from adjudge.runs.config import checked_fields
from adjudge.schema import Source

#: Name of a table -> its models and its figures to a model, and one whole row of arXiv 2405.01535.
PAPER: dict[str, tuple[int, int, str, str]] = {
    "prometheus-direct": (
        11, 8, "prometheus-2-8x7b", "0.685 0.635 0.665 0.614 0.659 0.626 0.555 0.898",
    ),
    "prometheus-pairwise": (
        11, 6, "prometheus-2-7b", "74.66% 50.45% 70.78% 54.96% 75.07% 93.25%",
    ),
    "prometheus-consistency": (6, 4, "prometheus-2-8x7b", "4.07 10.29 13.44 96.75%"),
    "prometheus-reference": (
        6, 6, "gpt-4-1106", "0.554 0.599 +0.045 0.616 0.679 +0.063",
    ),
}  # fmt: skip


def printed(table: str) -> dict[str, dict[str, str]]:
    preset = load_table(table)
    names = [column.name for column in preset.columns]
    return {row.name: dict(zip(names, row.printed, strict=True)) for row in preset.rows}


def test_there_are_four_tables_beside_those_of_ablate() -> None:
    assert table_presets() == sorted(PAPER)
    assert not set(table_presets()) & set(ablate.presets())


@pytest.mark.parametrize("name", PAPER)
def test_figures_are_those_of_the_paper(name: str) -> None:
    n_rows, n_columns, model, figures = PAPER[name]
    found = printed(name)
    assert len(found) == n_rows
    assert {len(row) for row in found.values()} == {n_columns}
    assert " ".join(found[model].values()) == figures


@pytest.mark.parametrize("name", PAPER)
def test_every_table_is_of_known_benchmarks_judges_and_options(name: str) -> None:
    preset = load_table(name)
    for column in preset.columns:
        assert bool(column.benchmark) != bool(column.instead)
        assert bool(column.instead) == bool(column.why)
        assert set(column.judges) <= set(preset.judges)
        if column.benchmark:
            kind = named_benchmarks()[column.benchmark].kind
            assert kind == {"pearson": "scores", "accuracy": "pairs"}[preset.measure]
            assert bool(column.gold) == (kind == "scores")
            assert len(column.judges) in (1, 2)
    for key, judge in preset.judges.items():
        kind = judges.load(judge.judge)
        checked_fields(kind, preset.options(key, {}), what="option", but=kind.not_options)
    if preset.measure == "accuracy":
        assert preset.pair_criterion in named_criteria("instruction")


def test_models_have_one_name_in_all_tables() -> None:
    labels: dict[str, set[str]] = {}
    for name in table_presets():
        for row in load_table(name).rows:
            labels.setdefault(row.name, set()).add(row.label)
    assert {name: len(said) for name, said in labels.items() if len(said) > 1} == {
        "gpt-4-1106": 2,  # with -Preview in two tables
        "mistral-instruct-7b": 2,  # Mistral-7B, of transitivity
    }


def test_as_published_three_runs_are_averaged_and_what_is_written_counts() -> None:
    options = load_table("prometheus-direct").options("scores", {})
    assert options == {"runs": "3", "score_mode": "text", "retries": "5"}
    pairs = load_table("prometheus-pairwise").options("as pairs", {})
    assert (pairs["use_reference"], pairs["orders"]) == ("false", "one")


# --- where the paper disagrees with itself ------------------------------------------------------


def test_accuracies_are_shares_of_pairs_but_where_a_note_says_so() -> None:
    # 221 pairs, 1,392 with and 1,019 without ties, 2,000 pairs.
    sizes = {"HHH, total": 221, "Auto-J Eval, with ties": 1392, "Auto-J Eval, without ties": 1019,
             "Preference Bench": 2000}  # fmt: skip
    off = set()
    right: dict[tuple[str, str], int] = {}
    for model, row in printed("prometheus-pairwise").items():
        for column, n in sizes.items():
            if row[column] == "–":
                continue
            value = float(row[column].removesuffix("%"))
            right[model, column] = round(value * n / 100)
            if f"{100 * right[model, column] / n:.2f}%" != row[column]:
                off.add((model, column))
    assert off == {
        ("pair-rm", "Auto-J Eval, without ties"),
        ("ultra-rm-13b", "Auto-J Eval, without ties"),
        ("ultra-rm-13b", "Preference Bench"),
    }
    counts = [
        tuple(right.get((model, f"Auto-J Eval, {ties} ties")) for ties in ("with", "without"))
        for model in ("prometheus-2-7b", "prometheus-2-8x7b", "gpt-4-1106", "gpt-3.5-turbo-0613")
    ]
    assert counts == [(765, 765), (813, 815), (735, 847), (640, 735)]
    same = {
        model
        for model, _ in right
        if right.get((model, "Auto-J Eval, with ties"))
        == right.get((model, "Auto-J Eval, without ties"))
    }
    assert same == {"mixtral-instruct-8x7b", "prometheus-2-7b", "claude-3-opus"}
    notes = {row.name: row.note for row in load_table("prometheus-pairwise").rows if row.note}
    assert set(notes) == {"mixtral-instruct-8x7b", "pair-rm", "ultra-rm-13b", "prometheus-2-8x7b",
                          "gpt-4-1106"}  # fmt: skip
    assert "815 of 1,019" in notes["prometheus-2-8x7b"]
    assert f"{(77.38 + 71.42 + 73.55) / 3:.2f} but 74.56" in notes["mixtral-instruct-8x7b"]


def test_averages_of_the_notes() -> None:
    notes = {row.name: row.note for row in load_table("prometheus-direct").rows}
    row = printed("prometheus-direct")["prometheus-2-7b"]
    vicuna, bench, flask = (
        float(row[f"{name}, GPT-4"]) for name in ("Vicuna Bench", "MT Bench", "FLASK")
    )
    assert f"would be {(vicuna + bench + flask) / 3:.3f}" in notes["prometheus-2-7b"]
    assert f"of {(vicuna + bench + 0.659) / 3:.3f} there" in notes["prometheus-2-7b"]


def test_differences_are_right_and_disagreements_between_tables_have_notes() -> None:
    direct, notes = printed("prometheus-direct"), load_table("prometheus-reference").rows
    for row in notes:
        figures = printed("prometheus-reference")[row.name]
        for bench in ("BiGGen Bench", "FLASK"):
            gap = float(figures[f"{bench}, with"]) - float(figures[f"{bench}, without"])
            assert f"{gap:+.3f}" == figures[f"{bench}, difference"]
        other = direct[row.name]["FLASK, humans"]
        assert bool(row.note) == (figures["FLASK, with"] != other)
        assert not row.note or row.note.endswith(other)


# --- what can be run ----------------------------------------------------------------------------


def scored(**gold: float) -> RatedResponse:
    source = Source(id="s", text="A question.")
    return RatedResponse(id="s/m", source=source, system="m", response="An answer.", gold=gold)


def plan(preset: TablePreset, models: list[str], lacking: dict[str, str]) -> list[tuple[Any, ...]]:
    return [tuple(job) for job in plan_jobs(preset, models, lacking)]


def test_what_is_not_here_is_not_planned() -> None:
    preset = load_table("prometheus-direct")
    data = {"vicuna-bench": [scored(rubric=1.0)], "flask": [scored(rubric=1.0)]}
    unread = {"mt-bench": "fetch it", "feedback-bench": "fetch that"}
    without = lacking(preset, data, unread)
    assert without == {
        "MT Bench, GPT-4": "fetch it",
        "FLASK, GPT-4": "no item of flask has the gold 'gpt4'",
        "Feedback Bench, GPT-4-0613": "fetch that",
    }
    assert plan(preset, ["a", "b"], without) == [
        ("a", "vicuna-bench", "scores"),
        ("a", "flask", "scores"),
        ("b", "vicuna-bench", "scores"),
        ("b", "flask", "scores"),
    ]


def test_columns_of_one_benchmark_share_their_runs() -> None:
    preset = load_table("prometheus-reference")
    flask = [scored(rubric=1.0, gpt4=2.0)]
    data = {"biggen-bench": flask, "flask": flask}
    assert lacking(preset, data, {}) == {}
    assert plan_jobs(preset, ["m"], {}) == [
        Job("m", "biggen-bench", "without reference"),
        Job("m", "biggen-bench", "with reference"),
        Job("m", "flask", "without reference"),
        Job("m", "flask", "with reference"),
    ]
    pairs = load_table("prometheus-pairwise")
    assert len(plan(pairs, ["m"], {})) == len(pairs.benchmarks) == 4
    consistency = load_table("prometheus-consistency")
    assert len(plan(consistency, ["m"], {})) == 2 * len(consistency.benchmarks) == 6


def test_options_go_to_the_judges_that_have_them() -> None:
    preset = load_table("prometheus-consistency")
    given = {"runs": "2", "tie_margin": "0.5", "resolve": "first", "score_mode": "logprobs"}
    preset.check_options(given)
    assert preset.options("by scores", given) == {
        "score_mode": "logprobs", "retries": "5", "runs": "2", "tie_margin": "0.5",
    }  # fmt: skip
    assert preset.options("as pairs", given) == {
        "score_mode": "logprobs", "retries": "5", "use_reference": "false", "runs": "2",
        "resolve": "first", "orders": "one",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("table", "given", "message"),
    [
        ("prometheus-reference", {"use_reference": "true"}, "sets the option 'use_reference'"),
        ("prometheus-pairwise", {"orders": "both"}, "prometheus-pairwise sets the option 'orders'"),
        ("prometheus-pairwise", {"tie_margin": "1"}, "unknown option of prometheus-pairwise"),
        ("prometheus-direct", {"run": "1"}, "did you mean 'runs'"),
        ("prometheus-direct", {"seed": "1"}, "unknown option of prometheus-direct 'seed'"),
    ],
)
def test_options_that_cannot_be_set(table: str, given: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_table(table).check_options(given)


def test_an_unknown_table() -> None:
    with pytest.raises(ConfigError, match="did you mean 'prometheus-direct'"):
        load_table("prometheus-drect")
