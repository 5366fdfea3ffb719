"""BERTScore on a scripted engine, and beside the published tool on the same weights."""

from __future__ import annotations

import csv
import importlib
import importlib.util
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjudge import registry
from adjudge.api import BoundJudge, judge_method
from adjudge.errors import ConfigError
from adjudge.exchange import Capability, Embed, Embedded, Reply, Request
from adjudge.formats.responses import ResponseRow
from adjudge.judges.bertscore import USUAL, BERTScoreJudge
from adjudge.reports.tables import summary_lines
from adjudge.runs.plan import plan_run
from adjudge.runs.runner import Runner
from adjudge.runs.start import fit
from adjudge.runs.store import Store
from adjudge.runs.summary import summarize
from adjudge.schema import Item, Judgment, Source, Status
from tests.conftest import MISSING
from tests.scripted import CRITERION, ScriptedEngine, make_item
from tests.tiny_hf import write_tiny_roberta

if TYPE_CHECKING:
    from adjudge.engines.base import Engine
    from adjudge.engines.hf import HfEngine

HALF = 1 / math.sqrt(2)
#: Vectors of one-word tokens; the first and the last token of every text are no words.
WORDS: Mapping[str, tuple[float, ...]] = {
    "[CLS]": (0, 0, 0, 1),
    "[SEP]": (0, 0, 1, 0),
    "x": (2, 0, 0, 0),
    "y": (0, 3, 0, 0),
    "xy": (1, 1, 0, 0),
    "sep": (0, 0, 5, 0),
    "zero": (0, 0, 0, 0),
    ".": (1, 0, 1, 0),
}
LONGEST = 6


def vector_of(word: str) -> Sequence[float]:
    """Return a word's own vector, or one that its letters decide."""
    seed = int.from_bytes(word.encode(), "big")
    drawn: list[float] = np.random.default_rng(seed).normal(size=4).tolist()
    return WORDS.get(word, drawn)


def embed(request: Request) -> Reply:
    """Answer with the vectors of words; of a long text only the beginning fits."""
    assert isinstance(request, Embed)
    words = [word for word in request.content.split() if word != "\u200b"]
    kept = ["[CLS]", *words[: LONGEST - 2], "[SEP]"]
    return Embedded(
        request_id=request.id,
        tokens=tuple(int.from_bytes(word.encode(), "big") for word in kept),
        special=(True, *[False] * (len(kept) - 2), True),
        vectors=np.array([vector_of(word) for word in kept], dtype=np.float32),
        n_cut=max(0, len(words) + 2 - LONGEST),
    )


class NamedEngine(ScriptedEngine):
    """A scripted encoder of a certain name."""

    def __init__(self, model: str) -> None:
        super().__init__(embed, capabilities=frozenset({Capability.EMBED}))
        self.model = model

    @property
    def signature(self) -> Mapping[str, str]:
        return {"engine": "scripted", "model": self.model}


def item(response: str, *references: str, item_id: str = "item") -> Item:
    return replace(make_item(response, item_id=item_id), reference_answers=references)


def judged(judge: BERTScoreJudge, *items: Item, engine: Engine | None = None) -> list[Judgment]:
    engine = engine or NamedEngine("mine")
    events = Runner(fit(judge, engine), engine, Store()).run(items, known=items)
    found = {event.position: event.judgment for event in events if event.judgment is not None}
    return [found[i] for i in range(len(items))]


def parts(judgment: Judgment) -> tuple[float, ...]:
    return tuple(judgment.evidence[name] for name in ("precision", "recall", "f1"))


# --- the score ----------------------------------------------------------------------------------


def test_every_token_takes_its_best_cosine() -> None:
    (judgment,) = judged(BERTScoreJudge(), item("x y", "xy"))
    assert parts(judgment) == pytest.approx((HALF, HALF, HALF))
    (judgment,) = judged(BERTScoreJudge(), item("x xy", "x y"))
    precision, recall = (1 + HALF) / 2, (1 + HALF) / 2
    assert parts(judgment) == pytest.approx((precision, recall, precision))
    (judgment,) = judged(BERTScoreJudge(), item("x", "x y"))
    assert parts(judgment) == pytest.approx((1, 0.5, 2 / 3))
    assert judgment.status is Status.OK
    assert judgment.value == pytest.approx(2 / 3)
    assert judgment.n_calls == 2


def test_special_tokens_have_no_weight_but_can_be_matched() -> None:
    (judgment,) = judged(BERTScoreJudge(), item("sep", "x"))
    assert parts(judgment) == pytest.approx((1, 0, 0))  # [SEP] of the reference has its direction


def test_each_part_takes_its_own_best_reference() -> None:
    several = item("x y", "x", "xy xy", "x y sep sep")
    alone = [judged(BERTScoreJudge(), item("x y", each))[0] for each in several.reference_answers]
    assert [parts(each) for each in alone] == [
        pytest.approx((0.5, 1, 2 / 3)),
        pytest.approx((HALF, HALF, HALF)),
        pytest.approx((1, 1, 1)),
    ]
    for part, wanted in {"f1": HALF, "precision": HALF, "recall": 1}.items():
        judge = BERTScoreJudge(part=part)  # type: ignore[arg-type]
        (judgment,) = judged(judge, item("x y", *several.reference_answers[:2]))
        assert judgment.value == judgment.raw == pytest.approx(wanted)
        assert judgment.evidence["references"] == 2


@given(st.permutations(["x", "y z", "other words here", "x y", "x"]))
def test_the_order_of_references_does_not_matter(references: list[str]) -> None:
    usual = item("x and y", "x", "y z", "other words here", "x y")
    for idf in (False, True):
        judge = BERTScoreJudge(idf=idf)
        (found,) = judged(judge, item("x and y", *references))
        (wanted,) = judged(judge, replace(usual, reference_answers=(*usual.reference_answers, "x")))
        assert parts(found) == pytest.approx(parts(wanted))


TEXTS = st.lists(st.sampled_from(["a", "b", "c", "d", "x", "."]), min_size=1, max_size=4).map(
    " ".join
)


@given(TEXTS, TEXTS)
def test_exchanged_texts_exchange_precision_and_recall(one: str, other: str) -> None:
    there, back = judged(BERTScoreJudge(), item(one, other), item(other, one))
    precision, recall, f1 = parts(back)
    assert parts(there) == pytest.approx((recall, precision, f1), abs=1e-6)


@given(TEXTS)
def test_a_text_matches_itself(text: str) -> None:
    (judgment,) = judged(BERTScoreJudge(), item(f" {text}\n", text))
    assert parts(judgment) == pytest.approx((1, 1, 1), abs=1e-6)


def test_the_source_can_stand_for_a_reference() -> None:
    made = replace(item("x", "y"), source=Source(id="s", text="x y"))
    (judgment,) = judged(BERTScoreJudge(against="source"), made)
    assert parts(judgment) == pytest.approx((1, 0.5, 2 / 3))


# --- idf ----------------------------------------------------------------------------------------


def test_idf_weighs_by_references_as_often_as_they_are_listed() -> None:
    items = [
        item("x y", "x", item_id="1"),
        item("x y", "x y", item_id="2"),
        item("x y", "xy", "x", item_id="3"),
    ]
    engine = NamedEngine("mine")
    judgment = judged(BERTScoreJudge(idf=True), *items, engine=engine)[1]
    # Of the 4 references 3 have x, 1 has y and 1 xy.
    x, y = math.log(5 / 4), math.log(5 / 2)
    assert parts(judgment) == pytest.approx((1, 1, 1))
    judgment = judged(BERTScoreJudge(idf=True), *items)[0]
    precision = x / (x + y)
    assert parts(judgment) == pytest.approx((precision, 1, 2 * precision / (precision + 1)))
    first = [each for each in engine.asked if isinstance(each, Embed)][:3]
    assert [(each.content, each.layer) for each in first] == [("x", 1), ("x y", 1), ("xy", 1)]
    assert engine.batches[0] == 3


def test_a_token_of_no_reference_weighs_most() -> None:
    items = [item("x new", "x", item_id="1"), item("x", "y", item_id="2")]
    x, new = math.log(3 / 2), math.log(3)
    cosine = max(
        0,
        *(
            float(np.dot(vector_of("new"), v) / np.linalg.norm(vector_of("new")))
            for v in ((1, 0, 0, 0), WORDS["[CLS]"], WORDS["[SEP]"])
        ),
    )
    (judgment, _) = judged(BERTScoreJudge(idf=True), *items)
    assert parts(judgment)[0] == pytest.approx((x + new * cosine) / (x + new), abs=1e-6)


def test_a_row_that_several_criteria_judge_counts_once() -> None:
    other = replace(CRITERION, name="fluency")
    items = [item("x y", "x", item_id="1"), item("x y", "x y", item_id="2")]
    twice = [*items, replace(items[0], criterion=other)]
    assert parts(judged(BERTScoreJudge(idf=True), *twice)[0]) == pytest.approx(
        parts(judged(BERTScoreJudge(idf=True), *items)[0])
    )


def test_a_text_of_tokens_that_all_references_have_is_worth_nothing() -> None:
    items = [item(".", "x .", item_id="1"), item("x", "y .", item_id="2")]
    judgment, other = judged(BERTScoreJudge(idf=True), *items)
    assert parts(judgment)[0] == parts(judgment)[2] == judgment.value == 0
    assert judgment.evidence["weightless"] == 1
    assert other.evidence["weightless"] == 0


def test_idf_of_one_reference_is_refused() -> None:
    items = [item("x", "the same", item_id="1"), item("y", "the same ", item_id="2")]
    with pytest.raises(ConfigError, match="have the one reference 'the same': leave idf out"):
        judged(BERTScoreJudge(idf=True), *items)


def test_idf_needs_to_know_all_items() -> None:
    engine = NamedEngine("mine")
    with pytest.raises(ConfigError, match="give them as known"):
        list(Runner(BERTScoreJudge(idf=True), engine, Store()).run([item("x", "y")]))


def test_many_references_are_counted_in_several_batches() -> None:
    items = [item("x", f"x w{i}", item_id=str(i)) for i in range(150)]
    engine = NamedEngine("mine")
    judged(BERTScoreJudge(idf=True), *items, engine=engine)
    assert engine.batches[:3] == [64, 64, 22]


# --- what cannot be scored ----------------------------------------------------------------------


@pytest.mark.parametrize("response", ["", " \n\t"])
def test_an_empty_response_asks_nothing(response: str) -> None:
    engine = NamedEngine("mine")
    (judgment,) = judged(BERTScoreJudge(), item(response, "x"), engine=engine)
    assert (judgment.status, engine.asked) == (Status.EMPTY_RESPONSE, [])


def test_punctuation_is_scored() -> None:
    (judgment,) = judged(BERTScoreJudge(), item(".", "x"))
    assert parts(judgment)[0] == pytest.approx(HALF)


@pytest.mark.parametrize(
    ("made", "status", "why"),
    [
        (item("\u200b", "x"), Status.EMPTY_RESPONSE, "leaves nothing of the response"),
        (item("x", "\u200b"), Status.ENGINE_ERROR, "leaves nothing of the references"),
        (item("zero x", "x"), Status.ENGINE_ERROR, "vectors without a direction"),
    ],
)
def test_texts_without_tokens_or_directions_have_no_score(
    made: Item, status: Status, why: str
) -> None:
    (judgment,) = judged(BERTScoreJudge(), made)
    assert (judgment.status, judgment.value) == (status, None)
    assert why in judgment.evidence["error"]


def test_a_reference_without_tokens_is_left_out() -> None:
    (judgment,) = judged(BERTScoreJudge(), item("x", "\u200b", "x y", " "))
    assert judgment.evidence["references"] == 1
    assert parts(judgment) == pytest.approx((1, 0.5, 2 / 3))


@pytest.mark.parametrize("references", [(), ("", " ")])
def test_an_item_without_a_reference_is_refused(references: tuple[str, ...]) -> None:
    message = r"'lost' has no reference answer .*\(reference_answer, .*\), or use against=source"
    for idf in (False, True):
        with pytest.raises(ConfigError, match=message):
            judged(BERTScoreJudge(idf=idf), item("x", *references, item_id="lost"))


def test_an_empty_source_is_refused() -> None:
    made = replace(item("x", "x"), source=Source(id="s", text=" "))
    with pytest.raises(ConfigError, match="the source of the item 'item' is empty"):
        judged(BERTScoreJudge(against="source"), made)


def test_cut_texts_are_counted_and_told() -> None:
    judgments = judged(
        BERTScoreJudge(),
        item("a b c d e f", "a b c d e", "x", item_id="1"),
        item("x", "y", item_id="2"),
    )
    assert [each.evidence["cut_tokens"] for each in judgments] == [3, 0]
    summary = summarize(judgments)
    assert summary.n_cut == 1
    assert "1 scores are of texts too long for the model, which were cut" in summary_lines(summary)
    assert not any("cut" in line for line in summary_lines(summarize(judgments[1:])))


# --- options ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "layer", "asked", "shown"),
    [
        ("bert-base-uncased", 0, 9, "9"),
        ("google-bert/BERT-base-uncased", 0, 9, "9"),
        ("bert-base-uncased", 8, 8, "8"),
        ("mine", 0, None, "last"),
        ("mine", 3, 3, "3"),
    ],
)
def test_the_layer_follows_the_models_name(
    model: str, layer: int, asked: int | None, shown: str
) -> None:
    engine = NamedEngine(model)
    judge = BERTScoreJudge(layer=layer)
    assert fit(judge, engine).signature["layer"] == shown
    judged(judge, item("x", "y"), engine=engine)
    assert {each.layer for each in engine.asked if isinstance(each, Embed)} == {asked}


@pytest.mark.parametrize(
    ("model", "before"),
    [("FacebookAI/roberta-large", " "), ("distilroberta-base", " "), ("xlm-roberta-base", "")],
)
def test_a_blank_goes_before_texts_for_roberta(model: str, before: str) -> None:
    engine = NamedEngine(model)
    judged(BERTScoreJudge(idf=True), item("x", "y", "x y"), engine=engine)
    contents = {each.content for each in engine.asked if isinstance(each, Embed)}
    assert contents == {f"{before}{text}" for text in ("x", "y", "x y")}
    assert fit(BERTScoreJudge(), engine).signature["blank"] == str(bool(before))


@pytest.mark.parametrize(
    ("part", "baseline"),
    [("f1", 0.35219112), ("precision", 0.35375935), ("recall", 0.3537393)],
)
def test_rescaled_scores_rest_on_the_models_baseline(part: Any, baseline: float) -> None:
    engine = NamedEngine("bert-base-uncased")
    (judgment,) = judged(BERTScoreJudge(rescale=True, part=part), item("x", "x y"), engine=engine)
    raw = {"f1": 2 / 3, "precision": 1, "recall": 0.5}[part]
    assert judgment.raw == pytest.approx(raw)
    assert judgment.value == pytest.approx((raw - baseline) / (1 - baseline))
    assert fit(BERTScoreJudge(rescale=True, part=part), engine).signature["baseline"] == str(
        baseline
    )


def test_a_baseline_of_ones_own() -> None:
    (judgment,) = judged(BERTScoreJudge(rescale=True, baseline=0.5), item("x", "x y"))
    assert judgment.value == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("model", "layer", "what"),
    [
        ("mine", 0, "mine at layer last"),
        ("", 4, "this model at layer 4"),
        ("roberta-large", 16, "roberta-large at layer 16"),
    ],
)
def test_an_unknown_baseline_is_refused(model: str, layer: int, what: str) -> None:
    known = "bert-base-uncased at layer 9, roberta-large at layer 17"
    with pytest.raises(ConfigError, match=f"known for {what}, but for {known}.*baseline=0.83"):
        fit(BERTScoreJudge(rescale=True, layer=layer), NamedEngine(model))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"baseline": 0.8}, "baseline=0.8 is for rescaled scores: add rescale=true"),
        ({"rescale": True, "baseline": 1.0}, "baseline must be from -1 to 0.999"),
        ({"layer": -1}, "layer must be from 0 to 1000"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        BERTScoreJudge(**options)


def test_it_is_made_by_name_and_has_no_prompts(tmp_path: Path) -> None:
    made = judge_method("bertscore", task="story", options={"idf": "true", "part": "recall"})
    assert made == BERTScoreJudge(idf=True, part="recall")
    assert made.needs == {Capability.EMBED}
    assert made.signature == {
        "judge": "bertscore",
        "part": "recall",
        "against": "reference",
        "layer": "last",
        "idf": "True",
        "rescale": "False",
        "baseline": "0.0",
        "blank": "False",
        "prompt": "none",
        "seed": "0",
    }
    with pytest.raises(ConfigError, match="'bertscore' shows no prompts: leave out"):
        judge_method("bertscore", task="story", options={}, prompts=tmp_path)
    with pytest.raises(ConfigError, match="no prompts, so none called 'score'"):
        made.prompts.render("score", {})


def test_all_other_judges_have_prompts() -> None:
    with_prompts = {
        name: registry.judges.load(name).has_prompts for name in registry.judges.targets()
    }
    assert [name for name, has in with_prompts.items() if not has] == ["bertscore"]


def test_a_plan_counts_its_calls_without_making_them() -> None:
    engine = NamedEngine("mine")
    items = [item("a", "x", item_id="1"), item("b", "y", item_id="2"), item("c", "y", item_id="3")]
    judge = fit(BERTScoreJudge(idf=True), engine)
    plan = plan_run(judge, items, engine, Store())
    assert plan.by_kind == {Capability.EMBED: 2 + 3 + 2}
    assert engine.asked == []
    list(Runner(judge, engine, Store()).run(items, known=items))
    assert len(engine.asked) == plan.n_calls


def test_pairs_are_decided_by_both_scores() -> None:
    engine = NamedEngine("bert-base-uncased")
    method = judge_method("bertscore", task="story", options={"idf": "true"}, pairs=True)
    rows = [
        ResponseRow(
            id=name,
            source=Source(id="s", text="source"),
            systems=("m", "n"),
            responses=responses,
            reference_answers=("x y", f"more {name}"),
        )
        for name, responses in {"1": ("x y", "z"), "2": ("a b c d e f g", "x y")}.items()
    ]
    scores = BoundJudge(method, engine, [CRITERION]).score_rows(rows)
    assert [each.value for each in scores.judgments] == [1, -1]
    assert scores.judgments[1].evidence["cut_tokens"] == 3
    assert "|layer:9|" in str(scores.signature)


# --- beside the published tool ------------------------------------------------------------------

#: matplotlib and transformers have warnings of their own, that only the tool calls forth.
theirs = pytest.mark.filterwarnings("ignore")
WORDS_OF_TEXTS = (
    "the a storm house council vote rain who said that nothing will be done before spring , . "
    "Zürich naïve café 12.5 2024 self-driving don't U.S. re-election unbelievably & % #tag"
)


@pytest.fixture(scope="session")
def bert_score() -> Any:
    """The published tool."""
    if importlib.util.find_spec("bert_score") is None:
        pytest.skip(f"{MISSING}: bert_score; pip install 'adjudge[compare]'")
    return importlib.import_module("bert_score")


@pytest.fixture(scope="module")
def minilm(minilm_folder: Path) -> Iterator[HfEngine]:
    """An engine on MiniLM, one thread, as for all that the tool does."""
    from adjudge.engines.hf import HfEngine

    torch = importlib.import_module("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield HfEngine(minilm_folder, device="cpu", threads=1)
    torch.set_num_threads(before)


def pairs_of_texts() -> list[Item]:
    """Return items of several lengths, with one to four references, some of them shared."""
    rng = np.random.default_rng(5)

    def text(n: int) -> str:
        return " ".join(rng.choice(WORDS_OF_TEXTS.split(), n))

    by_hand = [
        item("The council rejected the plan.", "The plan was rejected by the council."),
        item("The council rejected the plan.", "The council rejected the plan."),
        item("...", "The plan was rejected by the council."),
        item("?!", "!?", "..."),
        item("The plan.", "."),
        item("no", "yes"),
        item("  A blank before and a line end after\n", "A blank  before,\tand a line end after "),
        item("ein Fluß, eine Straße", "Ein Fluss und eine Strasse"),
        item("Сегодня идёт дождь", "Завтра будет дождь", "It rains today"),
        item("今天下雨了", "今天没有下雨"),
        item("it rains 🌧️🌧️ today ☂", "it rains today 🙂"),
        item("cafe\u0301 NAI\u0308VE", "café naïve"),
        item("tabs\tand\u00a0hard blanks\u2003too", "tabs and hard blanks too"),
        item("x" * 150, "x" * 90),
        item("https://example.org/a?b=c#d", "see example.org"),
        item("1,234.50 USD (approx.)", "1234.5 dollars", "about 1.2k USD"),
        item(text(600), text(40)),
        item(text(30), text(700), text(12)),
    ]
    shared = [text(15), text(25)]
    drawn = [
        item(text(int(n)), *shared[: i % 3], *(text(int(rng.integers(1, 40))) for _ in range(2)))
        for i, n in enumerate(rng.integers(1, 50, 28))
    ]
    return [replace(each, id=str(i)) for i, each in enumerate([*by_hand, *drawn])]


@theirs
@pytest.mark.parametrize("weights", ["even", "idf"])
@pytest.mark.parametrize("layer", [6, 4])
def test_the_published_tool_gives_the_same(
    bert_score: Any, minilm_folder: Path, minilm: HfEngine, layer: int, weights: str
) -> None:
    items, idf = pairs_of_texts(), weights == "idf"
    assert len(items) >= 40
    wanted = bert_score.score(
        [each.response for each in items],
        [list(each.reference_answers) for each in items],
        model_type=str(minilm_folder),
        num_layers=layer,
        idf=idf,
        nthreads=0,
        device="cpu",
        batch_size=1,  # in a batch, the best cosine of a token becomes 0 where it is below
    )
    judge = BERTScoreJudge(idf=idf, layer=layer if layer < 6 else 0)
    found = judged(judge, *items, engine=minilm)
    for mine, *values in zip(found, *wanted, strict=True):
        assert parts(mine) == pytest.approx([float(value) for value in values], abs=1e-5)
    assert sum(each.evidence["cut_tokens"] > 0 for each in found) == 2


@theirs
def test_with_a_blank_roberta_gives_the_same(bert_score: Any, tmp_path: Path) -> None:
    """The tool has its tokenizer put a blank before texts; here one does so by itself."""
    from adjudge.engines.hf import HfEngine

    for name in ("roberta-base", "with-blanks"):
        write_tiny_roberta(tmp_path / name, positions=60)
        file = tmp_path / name / "tokenizer_config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"model_max_length": 58}))
    file = tmp_path / "with-blanks" / "tokenizer.json"
    before, after = '"add_prefix_space": false', '"add_prefix_space": true'
    assert before in file.read_text()
    file.write_text(file.read_text().replace(before, after))
    items = [item("The better one.", "Better or worse"), item("no", "yes, no")]
    (precision, recall, f1) = bert_score.score(
        [each.response for each in items],
        [each.reference_answer for each in items],
        model_type=str(tmp_path / "with-blanks"),
        num_layers=2,
        device="cpu",
    )
    found = judged(
        BERTScoreJudge(layer=2), *items, engine=HfEngine(tmp_path / "roberta-base", device="cpu")
    )
    for mine, *values in zip(found, precision, recall, f1, strict=True):
        assert parts(mine) == pytest.approx([float(value) for value in values], abs=1e-5)


@theirs
def test_the_tables_of_models_are_the_tools(bert_score: Any) -> None:
    utils = importlib.import_module("bert_score.utils")
    layers = {name.rpartition("/")[2]: layer for name, layer in utils.model2layers.items()}
    assert {name: layers[name] for name in USUAL} == {
        name: usual.layer for name, usual in USUAL.items()
    }
    folder = Path(bert_score.__file__).parent / "rescale_baseline" / "en"
    for name, usual in USUAL.items():
        if usual.baselines is not None:
            rows = list(csv.DictReader((folder / f"{name}.tsv").open()))
            (row,) = [row for row in rows if row["LAYER"] == str(usual.layer)]
            assert usual.baselines == tuple(float(row[part]) for part in "PRF")
