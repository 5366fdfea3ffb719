"""Plans of many calls: what is counted, what is estimated, and sources that are cut."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

import pytest

from adjudge.api import judge_method
from adjudge.engines.llama import LlamaEngine
from adjudge.engines.routed import RoutedEngine
from adjudge.errors import ConfigError
from adjudge.exchange import Capability, Message, Request, ScoreLabels
from adjudge.judges.direct import DirectJudge
from adjudge.judges.ladder import LadderJudge
from adjudge.prompts.template import load_prompts
from adjudge.reports.tables import plan_lines
from adjudge.runs import plan
from adjudge.runs.plan import plan_run, run_cost
from adjudge.runs.runner import Runner
from adjudge.runs.start import fit
from adjudge.runs.store import Store
from adjudge.runs.truncate import truncate_sources
from adjudge.schema import Item, Question, Source
from tests.scripted import ScriptedEngine, make_item

LADDER = LadderJudge(prompts=load_prompts("ladder", "summarization"), rungs=3)


class WordEngine(ScriptedEngine):
    """Takes each word of a prompt for a token."""

    name = "words"

    def __init__(self) -> None:
        super().__init__(
            lambda request: (
                (0.4, 0.3, 0.3) if isinstance(request, ScoreLabels) else f"text {request.id[:9]}"
            )
        )

    @property
    def signature(self) -> Mapping[str, str]:
        return {"engine": self.name}

    def prompt_tokens(self, request: Request) -> Sequence[int]:
        return [hash(word) % 2**31 for word in request.text.split()]


def items(n_sources: int, n_responses: int) -> Iterator[Item]:
    for i in range(n_sources):
        for k in range(n_responses):
            yield make_item(
                f"Response {k} says a little of what {i} says.",
                item_id=f"{i}/{k}",
                source=" ".join(f"word{i * j % 97}" for j in range(80)),
            )


def test_an_estimate_is_near_the_count(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = WordEngine()
    exact = plan_run(LADDER, items(12, 8), engine, Store())
    monkeypatch.setattr(plan, "EXACT_PROMPTS", 30)
    near = plan_run(LADDER, items(12, 8), engine, Store())
    assert (near.n_items, near.n_calls, near.n_generations) == (96, 12 * 3 + 96 * 3, 36)
    assert near[:3] == exact[:3]
    assert (near.sampled, exact.sampled) == (True, False)
    assert exact.total_tokens
    assert exact.unique_tokens
    assert near.total_tokens == pytest.approx(exact.total_tokens, rel=0.02)
    assert near.unique_tokens == pytest.approx(exact.unique_tokens, rel=0.2)
    assert near.estimated


def test_items_are_taken_one_at_a_time() -> None:
    taken = 0

    def counted() -> Iterator[Item]:
        nonlocal taken
        for item in items(1000, 1):
            taken += 1
            yield item

    judge = DirectJudge(prompts=load_prompts("direct", "summarization"))
    found = plan.planned(judge, counted(), WordEngine(), Store())
    assert len(list(islice(found, 3))) == 3
    assert taken == 3


def test_what_a_finished_run_came_to_counts_stored_replies_too() -> None:
    engine, store = WordEngine(), Store()
    given = list(items(2, 4))
    list(Runner(LADDER, engine, store).run(given))
    assert plan_run(LADDER, given, engine, store).n_calls == 0
    cost = run_cost(LADDER, given, engine, store)
    asked = {request.id: engine.prompt_tokens(request) for request in engine.asked}
    assert cost.total_tokens == sum(map(len, asked.values()))
    prefixes = {tuple(tokens[:i]) for tokens in asked.values() for i in range(1, len(tokens) + 1)}
    assert cost.unique_tokens == len(prefixes)


# --- sources that are cut -----------------------------------------------------------------------


def prompt_length(text: str, engine: LlamaEngine) -> int:
    message = Message(role="user", content=text)
    return len(engine.prompt_tokens(ScoreLabels(messages=(message,), labels=("x",))))


def test_a_source_is_cut_after_the_last_word_that_fits(tiny: LlamaEngine) -> None:
    text = " ".join(f"word-{i}" for i in range(200))
    long, short = make_item(source=text), make_item(source="Short enough.")
    given = [long, short, long]
    found = truncate_sources(given, 100, tiny)
    assert found.n_cut == 1
    assert found.items[1] == short
    kept = found.items[0].source
    assert found.items[2].source == kept
    assert kept.id == long.source.id
    assert text.startswith(kept.text + " ")
    around = prompt_length("", tiny)
    assert prompt_length(kept.text, tiny) - around <= 100
    longer = text[: text.index(" ", len(kept.text) + 1)]
    assert prompt_length(longer, tiny) - around > 100
    assert truncate_sources(given, 0, tiny).items == given


def test_cutting_that_cannot_be_done(tiny: LlamaEngine) -> None:
    with pytest.raises(ConfigError, match="must be 0 \\(off\\) or more tokens, not -1"):
        truncate_sources([make_item()], -1, tiny)
    with pytest.raises(ConfigError, match="does not count tokens"):
        truncate_sources([make_item()], 5, ScriptedEngine(lambda request: "x"))
    with pytest.raises(ConfigError, match="not one word of the source"):
        truncate_sources([make_item(source="x" * 3000)], 1, tiny)


def test_equal_texts_keep_the_ids_of_their_sources(tiny: LlamaEngine) -> None:
    text = " ".join(f"word-{i}" for i in range(200))
    given = [make_item(source=text), make_item(source=text)]
    given[1] = replace(given[1], source=Source(id="other", text=text))
    for limit in (100, 10_000):
        found = truncate_sources(given, limit, tiny).items
        assert [item.source.id for item in found] == [item.source.id for item in given]


def test_two_engines_have_a_prefix_tree_each() -> None:
    writer, predictor = WordEngine(), WordEngine()
    writer.name = "writer"
    engine = RoutedEngine(writer=writer, predictor=predictor)
    given = list(items(3, 4))
    store = Store()
    list(Runner(LADDER, engine, store).run(given))
    cost = run_cost(LADDER, given, engine, store)
    unique = 0
    for each in (writer, predictor):
        tokens = [each.prompt_tokens(request) for request in each.asked]
        unique += len({tuple(t[:i]) for t in tokens for i in range(1, len(t) + 1)})
    assert cost.unique_tokens == unique


@pytest.mark.parametrize("judge", ["prometheus-absolute", "prometheus-relative", "checklist"])
def test_readable_verdicts_are_planned_and_no_retries(judge: str) -> None:
    item = make_item()
    if judge == "prometheus-relative":
        item = replace(item, responses=("one", "other"), systems=())
    questions = (Question(text="Is it short?"), Question(text="Is it true?"))
    item = replace(item, criterion=replace(item.criterion, questions=questions))
    engine = ScriptedEngine(lambda request: "", capabilities=frozenset({Capability.GENERATE}))
    method = fit(judge_method(judge, task="story", options={"retries": 5}), engine)
    plan = plan_run(method, [item], engine, Store())
    assert plan.n_calls == (2 if judge == "checklist" else 1)


def test_the_plan_of_a_sort_says_that_it_is_an_estimate() -> None:
    method = judge_method("pairs", task="story", options={"method": "greedy"})
    item = replace(next(items(1, 1)), responses=("a", "b", "c", "d"), systems=())
    made = plan_run(method, [item], WordEngine(), Store())
    # Two merges of one each and one of two halves: 2 or 3 comparisons of the last, both orders.
    assert 2 * 4 <= made.n_calls <= 2 * 5
    assert made.adaptive
    assert plan_lines(made)[1].startswith("~")
    assert not plan_run(LADDER, items(1, 1), WordEngine(), Store()).adaptive
    texts = plan_run(
        judge_method("gptscore", task="story", options={}), items(1, 2), WordEngine(), Store()
    )
    assert plan_lines(texts)[1] == "2 model calls to make: 2 text scorings"
