"""Budgets: what calls cost by a price table, and where a run stops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from adjudge.engines.base import Engine
from adjudge.engines.metered import Budget, Price, read_prices
from adjudge.errors import BudgetError, ConfigError
from adjudge.exchange import (
    Capability,
    Completion,
    Generate,
    Generated,
    Message,
    Reply,
    Request,
    Usage,
)

PRICES = {"m": Price(input=2.0, output=8.0, cached_input=0.5)}


class Costly(Engine):
    """Every call takes 100 prompt tokens, 40 of them from a cache, and writes 10."""

    capabilities = frozenset({Capability.GENERATE})
    context_length = 77

    def __init__(self) -> None:
        self.answered = 0
        self.left = False

    @property
    def signature(self) -> Mapping[str, str]:
        return {"engine": "costly", "model": "m"}

    def run(self, requests: Sequence[Request]) -> Iterator[Reply]:
        try:
            for request in requests:
                self.answered += 1
                usage = Usage(prompt_tokens=100, evaluated_tokens=60, generated_tokens=10)
                text = Completion(text="x", finish_reason="stop", n_tokens=10)
                yield Generated(request_id=request.id, completions=(text,), usage=usage)
        finally:
            self.left = True


def asked(n: int) -> list[Request]:
    return [
        Generate(messages=(Message(role="user", content=str(i)),), max_tokens=10) for i in range(n)
    ]


def test_a_call_costs_its_fresh_cached_and_written_tokens() -> None:
    budget = Budget(prices=PRICES)
    list(budget.metered(Costly()).run(asked(3)))
    assert budget.tokens == 3 * 110
    assert budget.cost == pytest.approx(3 * (60 * 2.0 + 40 * 0.5 + 10 * 8.0) / 1e6)


@pytest.mark.parametrize(
    ("budget", "n_paid", "flag"),
    [
        (Budget(max_tokens=250), 3, "--max-tokens is 250"),
        (Budget(max_cost=0.0003, prices=PRICES), 2, "--max-cost is 0.0003"),
    ],
)
def test_a_run_stops_after_the_reply_that_spends_the_last(
    budget: Budget, n_paid: int, flag: str
) -> None:
    costly = Costly()
    engine = budget.metered(costly)
    replies = engine.run(asked(9))
    for _ in range(n_paid):
        next(replies)
    with pytest.raises(BudgetError, match=rf"the budget is spent: .* and {flag}"):
        next(replies)
    assert costly.answered == n_paid
    assert costly.left, "what runs the model is told to stop"
    with pytest.raises(BudgetError, match=flag):
        next(engine.run(asked(1)))
    assert costly.answered == n_paid, "nothing is asked once the budget is spent"


def test_engines_of_one_command_share_the_budget() -> None:
    budget = Budget(max_tokens=300)
    list(budget.metered(Costly()).run(asked(2)))
    with pytest.raises(BudgetError, match="330 tokens"):
        list(budget.metered(Costly()).run(asked(2)))


def test_nothing_is_metered_that_nobody_counts() -> None:
    costly = Costly()
    assert Budget().metered(costly) is costly


def test_a_metered_engine_is_otherwise_the_engine() -> None:
    costly = Costly()
    engine = Budget(max_tokens=1).metered(costly)
    assert engine.signature == costly.signature
    assert engine.capabilities == costly.capabilities
    assert engine.context_length == 77
    assert engine.signature_of(asked(1)[0]) == costly.signature
    assert engine.remarks() == ["spent: 0 tokens"]


def test_a_model_without_a_price_is_named() -> None:
    with pytest.raises(ConfigError, match=r"unknown model in the price table 'm'.*: other"):
        Budget(prices={"other": PRICES["m"]}).metered(Costly())


def test_a_most_of_money_needs_prices() -> None:
    with pytest.raises(ConfigError, match="--max-cost needs prices"):
        Budget(max_cost=1.0)


@pytest.mark.parametrize("given", [{"max_tokens": -1}, {"max_cost": -0.1}, {"max_cost": "nan"}])
def test_negative_budgets_are_refused(given: dict[str, float]) -> None:
    given = {name: float(value) for name, value in given.items()}
    with pytest.raises(ConfigError, match=r"must be 0 \(any\) or more"):
        Budget(prices=PRICES, **given)  # type: ignore[arg-type]


def test_prices_are_read(tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_text('["org/m:1"]\ninput = 2\noutput = 8.0\n[n]\ninput=1\noutput=1\ncached_input=0')
    assert read_prices(path) == {"org/m:1": Price(2, 8, 2), "n": Price(1, 1, 0)}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[m]\ninput = 2", "lack 'output'"),
        ("[m]\ninput = 2\noutput = -1", "output must be a number of 0 or more, not -1"),
        ("[m]\ninput = 2\noutput = nan", "output must be a number of 0 or more, not nan"),
        ("[m]\ninput = 2\noutput = true", "output must be a number of 0 or more, not True"),
        ("[m]\ninput = 2\noutput = 1\noutputs = 1", "unknown price 'outputs': did you mean"),
        ("m = 3", "are no table"),
        ("[m", "cannot be read"),
    ],
)
def test_what_is_wrong_with_prices_is_said(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=says):
        read_prices(path)


def test_prices_that_are_not_there_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"the prices .*none.toml' cannot be read"):
        read_prices(tmp_path / "none.toml")
