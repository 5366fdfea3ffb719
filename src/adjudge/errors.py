"""The exceptions that adjudge raises.

::

    AdjudgeError
    ├── ConfigError    a retry cannot help: a wrong name, option, model or prompt
    ├── DataError      a file's content is wrong: names the file, line and field
    ├── EngineError    a model failed to answer; `retryable` says whether a retry may help
    ├── BudgetError    what may be spent is spent: what was answered is kept
    └── StoreError     a store cannot be read or written

Every message says what was got, what is allowed and what to do.
"""

from __future__ import annotations

from pathlib import Path


class AdjudgeError(Exception):
    """Base of all errors that adjudge raises on purpose."""


class ConfigError(AdjudgeError):
    """What was asked for cannot be done as asked; a retry cannot help."""


class DataError(AdjudgeError):
    """A file holds something that cannot be used.

    Parameters
    ----------
    message
        What is wrong and what to do.
    path, line, field
        Where: the file, the line (from 1) and the column, as far as known.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | Path | None = None,
        line: int | None = None,
        field: str | None = None,
    ) -> None:
        self.path, self.line, self.field = path, line, field
        where = [
            part
            for part in (
                None if path is None else str(path),
                None if line is None else f"line {line}",
                None if field is None else f"column {field!r}",
            )
            if part is not None
        ]
        super().__init__(f"{', '.join(where)}: {message}" if where else message)


class EngineError(AdjudgeError):
    """An engine could not answer.

    Parameters
    ----------
    message
        What failed.
    retryable
        Whether the same request may succeed later.
    hint
        What to do about it.
    """

    def __init__(self, message: str, *, retryable: bool = False, hint: str = "") -> None:
        self.retryable, self.hint = retryable, hint
        super().__init__(f"{message}; {hint}" if hint else message)


class BudgetError(AdjudgeError):
    """The tokens or the money that a command may spend are spent."""


class StoreError(AdjudgeError):
    """A store cannot be opened, read or written."""
