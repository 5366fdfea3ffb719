"""What a command may spend: tokens and money, counted reply by reply."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from adjudge.engines.base import Engine
from adjudge.errors import BudgetError, ConfigError
from adjudge.exchange import Reply, Request, Usage
from adjudge.registry import unknown_name


class Price(NamedTuple):
    """What a million tokens cost: of prompts, of prompts' parts from a cache, and written ones."""

    input: float
    output: float
    cached_input: float

    def of(self, usage: Usage) -> float:
        """Return what a call cost."""
        cached = max(0, usage.prompt_tokens - usage.evaluated_tokens)
        fresh = usage.prompt_tokens - cached
        spent = fresh * self.input + cached * self.cached_input
        return (spent + usage.generated_tokens * self.output) / 1e6


@dataclass
class Budget:
    """What may be spent, and what has been; the engines of one command share it.

    Attributes
    ----------
    max_tokens, max_cost
        The most tokens (of prompts and written) and money to spend; 0: any.
    prices
        By model, as its signature names it; None: money is not counted.
    tokens, cost
        Spent so far.
    """

    max_tokens: int = 0
    max_cost: float = 0.0
    prices: Mapping[str, Price] | None = None
    tokens: int = field(default=0, init=False)
    cost: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        if self.max_tokens < 0 or not self.max_cost >= 0:
            raise ConfigError(
                "--max-tokens and --max-cost must be 0 (any) or more, not "
                f"{self.max_tokens} and {self.max_cost:g}"
            )
        if self.max_cost and self.prices is None:
            raise ConfigError("--max-cost needs prices: give a file of them with --prices")

    def metered(self, engine: Engine) -> Engine:
        """Return an engine whose calls count; itself where nothing is to be counted."""
        if not self.max_tokens and self.prices is None:
            return engine
        return MeteredEngine(engine, self)

    def price(self, model: str) -> Price | None:
        """Return the price of a model; None where money is not counted.

        Raises
        ------
        ConfigError
            If the price table has none.
        """
        if self.prices is None:
            return None
        if model not in self.prices:
            raise unknown_name("model in the price table", model, self.prices)
        return self.prices[model]

    def check(self) -> None:
        """Raise BudgetError if all has been spent."""
        for spent, most, flag in (
            (self.tokens, self.max_tokens, "--max-tokens"),
            (self.cost, self.max_cost, "--max-cost"),
        ):
            if most and spent >= most:
                raise BudgetError(
                    f"the budget is spent: {self}, and {flag} is {most:,g}; what was answered is "
                    f"kept: run the same command with a larger {flag} to go on from there"
                )

    def __str__(self) -> str:
        cost = f", {self.cost:,.4f} of money" if self.prices is not None else ""
        return f"{self.tokens:,} tokens{cost}"


class MeteredEngine(Engine):
    """An engine that stops when a budget is spent.

    Requests that are in flight at that moment are let go: what they cost is not counted.

    Parameters
    ----------
    engine
        What runs the model.
    budget
        What may be spent.

    Raises
    ------
    ConfigError
        If there is a price table without one of the engine's models.
    """

    def __init__(self, engine: Engine, budget: Budget) -> None:
        self._engine, self._budget = engine, budget
        self.capabilities = engine.capabilities
        self.context_length = engine.context_length
        for key in ("model", "ladder_model"):
            if key in engine.signature:
                budget.price(engine.signature[key])

    @property
    def signature(self) -> Mapping[str, str]:
        """The engine's own."""
        return self._engine.signature

    def signature_of(self, request: Request) -> Mapping[str, str]:
        """See `Engine.signature_of`."""
        return self._engine.signature_of(request)

    def run(self, requests: Sequence[Request]) -> Iterator[Reply]:
        """Yield the engine's replies until the budget is spent.

        Raises
        ------
        BudgetError
            Once it is, after the reply that spent it.
        """
        self._budget.check()
        asked = {request.id: request for request in requests}
        replies = self._engine.run(requests)
        try:
            for reply in replies:
                self._count(asked[reply.request_id], reply)
                yield reply
                self._budget.check()
        finally:
            close: Any = getattr(replies, "close", None)
            if close:
                close()

    def check(self, request: Request) -> None:
        """See `Engine.check`."""
        self._engine.check(request)

    def prompt_tokens(self, request: Request) -> Sequence[int] | None:
        """See `Engine.prompt_tokens`."""
        return self._engine.prompt_tokens(request)

    @property
    def events(self) -> Mapping[str, int]:
        """The engine's own."""
        return self._engine.events

    def remarks(self) -> list[str]:
        """See `Engine.remarks`; and what has been spent."""
        return [*self._engine.remarks(), f"spent: {self._budget}"]

    def close(self) -> None:
        """Close the engine."""
        self._engine.close()

    def _count(self, request: Request, reply: Reply) -> None:
        usage = reply.usage
        self._budget.tokens += usage.prompt_tokens + usage.generated_tokens
        price = self._budget.price(self._engine.signature_of(request).get("model", ""))
        if price is not None:
            self._budget.cost += price.of(usage)


def read_prices(path: str | Path) -> dict[str, Price]:
    """Return the prices of models from a TOML file.

    A table for each model, with `input` and `output` and perhaps `cached_input` (if not given,
    `input`), per million tokens::

        ["gpt-x-mini"]
        input = 0.15
        output = 0.60
        cached_input = 0.075

    Raises
    ------
    ConfigError
        If the file cannot be read, or a price is missing or no number of 0 or more.
    """
    try:
        tables = tomllib.loads(Path(path).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"the prices {str(path)!r} cannot be read: {error}") from error
    return {model: _price(model, table, path) for model, table in tables.items()}


def _price(model: str, table: object, path: str | Path) -> Price:
    where = f"{path}: the prices of {model!r}"
    if not isinstance(table, dict):
        raise ConfigError(f'{where} are no table: write ["{model}"] with input and output')
    for name in table.keys() - set(Price._fields):
        raise unknown_name("price", name, Price._fields, where=f"{where}: ")
    for name in ("input", "output"):
        if name not in table:
            raise ConfigError(f"{where} lack {name!r}: what a million tokens cost")
    for name, value in table.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
            raise ConfigError(f"{where}: {name} must be a number of 0 or more, not {value!r}")
    priced = {"cached_input": table["input"], **table}
    return Price(**{name: float(priced[name]) for name in Price._fields})
