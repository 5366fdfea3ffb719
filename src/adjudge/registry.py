"""Names of parts that are imported only when asked for."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from adjudge.errors import ConfigError


def unknown_name(
    kind: str, name: str, available: Iterable[str], *, hint: str = "", where: str = ""
) -> ConfigError:
    """Return the error for a name that is not there, with the nearest ones that are.

    >>> str(unknown_name("judge", "lader", ["direct", "ladder"]))
    "unknown judge 'lader': did you mean 'ladder'? Available: direct, ladder"
    """
    names = sorted(available)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    guess = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
    tail = f". {hint}" if hint else ""
    return ConfigError(
        f"{where}unknown {kind} {name!r}: {guess}Available: {', '.join(names) or 'none'}{tail}"
    )


class Registry:
    """Classes by name, imported when first asked for.

    Parameters
    ----------
    kind
        What the names stand for, used in messages ("judge", "engine").
    targets
        Built-in parts: name -> ``"package.module:Class"``.

    Other packages add parts under the entry-point group ``adjudge.<kind>s``.
    """

    def __init__(self, kind: str, targets: Mapping[str, str]) -> None:
        self.kind = kind
        self._targets = dict(targets)
        self._plugins: dict[str, str] | None = None

    def targets(self) -> dict[str, str]:
        """Return name -> target of all parts, built-in ones first."""
        if self._plugins is None:
            found = entry_points(group=f"adjudge.{self.kind}s")
            self._plugins = {
                point.name: point.value for point in found if point.name not in self._targets
            }
        return self._targets | self._plugins

    def load(self, name: str) -> Any:
        """Return the class of that name.

        Raises
        ------
        ConfigError
            If there is no such name; the message lists the nearest.
        """
        targets = self.targets()
        if name not in targets:
            raise unknown_name(self.kind, name, targets)
        module, _, attribute = targets[name].partition(":")
        return getattr(import_module(module), attribute)


judges = Registry(
    "judge",
    {
        "ladder": "adjudge.judges.ladder:LadderJudge",
        "direct": "adjudge.judges.direct:DirectJudge",
        "geval": "adjudge.judges.geval:GEvalJudge",
        "gptscore": "adjudge.judges.gptscore:GPTScoreJudge",
        "bertscore": "adjudge.judges.bertscore:BERTScoreJudge",
        "pairs": "adjudge.judges.pairs:PairsJudge",
        "zepo": "adjudge.judges.zepo:ZepoJudge",
        "prometheus-absolute": "adjudge.judges.absolute:PrometheusAbsoluteJudge",
        "prometheus-relative": "adjudge.judges.relative:PrometheusRelativeJudge",
        "listwise": "adjudge.judges.listwise:ListwiseJudge",
        "checklist": "adjudge.judges.checklist:ChecklistJudge",
    },
)

engines = Registry(
    "engine",
    {
        "llama": "adjudge.engines.llama:LlamaEngine",
        "hf": "adjudge.engines.hf:HfEngine",
        "vllm": "adjudge.engines.vllm_local:VllmEngine",
        "openai": "adjudge.engines.openai_http:OpenAIEngine",
        "replay": "adjudge.engines.replay:ReplayEngine",
    },
)
