"""What engines there are, and what was found of those that were checked."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from importlib.util import find_spec

from adjudge import registry
from adjudge.engines.base import Engine
from adjudge.exchange import Capability
from adjudge.experiments.engine_check import EngineCheck, LabelCheck, latest
from adjudge.reports.grid import check_style, render_grid

WIDTH = 80
HEADER = ("engine", "runs", "models", "installed", "serves")
CHECKED = ("engine", "model", "serves", "context", "label log-probs", "on labels", "date")
SHORT = {
    Capability.GENERATE: "text",
    Capability.SCORE_LABELS: "labels",
    Capability.SCORE_TEXT: "text log-probs",
    Capability.EMBED: "vectors",
}


def engines_report(style: str) -> str:
    """Return the engines that there are, whether they can be used here, and what they serve.

    Raises
    ------
    ConfigError
        If the style is not known.
    """
    check_style(style)
    rows = []
    for name in registry.engines.targets():
        kind: type[Engine] = registry.engines.load(name)
        rows.append(
            (name, kind.about, kind.references, _installed(kind), _served(kind.capabilities))
        )
    if style != "text":
        return render_grid(HEADER, rows, style)
    return "\n\n".join(_block(row[0], zip(HEADER[1:], row[1:], strict=True)) for row in rows)


def checks_report(checks: Sequence[EngineCheck], style: str) -> str:
    """Return a row for each model that was checked, and one for each engine of which none was.

    Raises
    ------
    ConfigError
        If the style is not known.
    """
    check_style(style)
    rows: list[tuple[str, ...]] = []
    for name in registry.engines.targets():
        mine = [check for check in latest(checks).values() if check.engine == name]
        rows += [_checked(check) for check in mine]
        if not mine:
            rows.append((name, "not run", *("" for _ in CHECKED[2:])))
    return render_grid(CHECKED, rows, style)


def check_report(check: EngineCheck) -> str:
    """Return all that was found of one model."""
    facts = [
        ("serves", ", ".join(check.serves) or "nothing"),
        ("context", f"{check.context_length:,} tokens" if check.context_length else "not known"),
        *check.details.items(),
        *((f"labels of {each.judge}", _label_line(each)) for each in check.labels),
        ("reads", _rate(check.read_rate)),
        ("writes", _rate(check.write_rate)),
        ("judges", ", ".join(check.judges) or "none"),
        *((f"not {name}", f"needs {what}") for name, what in check.lacking.items()),
        *(("problem", problem) for problem in check.problems),
    ]
    signature = "|".join(f"{name}:{value}" for name, value in check.signature.items())
    return f"{_block(check.reference, facts)}\n\n{signature}"


def _checked(check: EngineCheck) -> tuple[str, ...]:
    exact = {each.exact for each in check.labels}
    how = "exact" if exact == {True} else "bounds, where not shown" if exact else "none"
    masses = " ".join(f"{each.judge} {each.coverage:.2f}" for each in check.labels)
    served = ", ".join(SHORT[kind] for kind in Capability if kind in check.serves)
    context = f"{check.context_length:,}" if check.context_length else "?"
    return (
        check.engine,
        check.signature.get("model", "?"),
        served,
        context,
        how,
        masses,
        check.date,
    )


def _label_line(each: LabelCheck) -> str:
    tokens = ", ".join(
        f"{label!r} {n}" for label, n in zip(each.labels, each.n_tokens, strict=True)
    )
    exact = "exact" if each.exact else "some beyond what is shown: bounds"
    return f"tokens {tokens}; {each.coverage:.1%} of the probability on them; {exact}"


def _rate(rate: float | None) -> str:
    return "not timed" if rate is None else f"{rate:,.0f} tokens/s"


def _installed(kind: type[Engine]) -> str:
    if all(find_spec(module) for module in kind.modules):
        return "yes"
    return f"no: pip install 'adjudge[{kind.extra}]'"


def _served(capabilities: frozenset[Capability]) -> str:
    return ", ".join(SHORT[kind] for kind in Capability if kind in capabilities)


def _block(title: str, facts: Iterable[tuple[str, str]]) -> str:
    lines = [title]
    for name, text in facts:
        lines += textwrap.wrap(
            text,
            WIDTH,
            initial_indent=f"  {name:<17} ",
            subsequent_indent=" " * 20,
            break_long_words=False,
        )
    return "\n".join(lines)
