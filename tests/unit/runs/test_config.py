"""Configurations from files and flags."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
from rich.text import Text

from adjudge.errors import ConfigError
from adjudge.runs import config
from adjudge.runs.config import RunConfig
from adjudge.runs.config import load_config as load_any_config

Write = Callable[[str], Path]


def load_config(path: Path | str | None, flags: dict[str, Any]) -> RunConfig:
    return load_any_config(path, flags, RunConfig)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return what writes a configuration and gives its path."""

    def written(text: str) -> Path:
        path = tmp_path / "run.toml"
        path.write_text(text, "utf-8")
        return path

    return written


def test_nothing_given_means_the_defaults() -> None:
    assert load_config(None, {}) == RunConfig()
    assert load_config("", {}) == RunConfig()


def test_an_empty_file_means_the_defaults(write: Write) -> None:
    assert load_config(write(""), {}) == RunConfig()


def test_a_file_may_give_every_field(write: Write) -> None:
    path = write(
        """
        judge = "direct"
        criterion = ["coherence", "own.toml:wit"]
        task = "story"
        model = "some.gguf"
        store = "some.db"
        out = "scores.csv"
        limit = 5
        seed = 7
        prompts = "own"
        option = ["rungs=5"]
        ladder_model = "other.gguf"
        ladders = "ladders.jsonl"
        truncate_source = 900
        prices = "prices.toml"
        max_cost = 2.5
        max_tokens = 100000
        min_score = 3
        min_gold = 4.5
        """
    )
    expected = RunConfig(
        judge="direct",
        criterion=("coherence", "own.toml:wit"),
        task="story",
        model="some.gguf",
        store="some.db",
        out="scores.csv",
        limit=5,
        seed=7,
        prompts="own",
        option=("rungs=5",),
        ladder_model="other.gguf",
        ladders="ladders.jsonl",
        truncate_source=900,
        prices="prices.toml",
        max_cost=2.5,
        max_tokens=100000,
        min_score=3.0,
        min_gold=4.5,
    )
    assert load_config(path, {}) == expected
    changed = [
        name for name, value in asdict(RunConfig()).items() if asdict(expected)[name] != value
    ]
    assert changed == [each.name for each in fields(RunConfig)]


def test_a_single_criterion_needs_no_list(write: Write) -> None:
    assert load_config(write('criterion = "wit"\n'), {}).criterion == ("wit",)


def test_a_flag_overrides_the_file(write: Write) -> None:
    path = write('judge = "direct"\nlimit = 5\ncriterion = ["a", "b"]\n')
    config = load_config(path, {"limit": 2, "criterion": ["c"]})
    assert (config.judge, config.limit, config.criterion) == ("direct", 2, ("c",))


def test_a_flag_that_is_none_was_not_given(write: Write) -> None:
    assert load_config(write("limit = 5\n"), {"limit": None}).limit == 5


def test_a_flag_that_is_zero_was_given(write: Write) -> None:
    config = load_config(write('limit = 5\nout = "a.csv"\n'), {"limit": 0, "out": ""})
    assert (config.limit, config.out) == (0, "")


def test_flags_may_be_text() -> None:
    assert load_config(None, {"seed": "12"}).seed == 12


def test_an_unknown_key_names_the_file_and_the_nearest(write: Write) -> None:
    path = write('judg = "direct"\n')
    with pytest.raises(
        ConfigError,
        match=rf"^{re.escape(str(path))}: unknown key 'judg': did you mean 'judge'\? Available: ",
    ):
        load_config(path, {})


def test_a_table_is_an_unknown_key(write: Write) -> None:
    with pytest.raises(ConfigError, match=r"'run': .*Available: criterion, judge"):
        load_config(write("[run]\nseed = 1\n"), {})


def test_an_unknown_flag_is_told_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"unknown flag 'limits': did you mean 'limit'\?"):
        load_config(None, {"limits": 3})


@pytest.mark.parametrize(
    ("line", "name", "problem", "value"),
    [
        ('limit = "many"', "limit", "valid integer", "'many'"),
        ("limit = 1.5", "limit", "valid integer", "1.5"),
        ("judge = 3", "judge", "valid string", "3"),
        ("criterion = 3", "criterion", "valid tuple", "3"),
        ("criterion = [3]", "criterion", "valid string", "[3]"),
        ('option = "a=b"', "option", "valid tuple", "'a=b'"),
        ("seed = [1]", "seed", "valid integer", "[1]"),
        ("seed = true", "seed", "valid integer", "True"),
    ],
)
def test_a_value_of_the_wrong_type_names_file_key_and_value(
    write: Write, line: str, name: str, problem: str, value: str
) -> None:
    path = write(line + "\n")
    place = rf"^{re.escape(str(path))}: key '{name}': .*{problem}.*, not {re.escape(value)}$"
    with pytest.raises(ConfigError, match=place):
        load_config(path, {})


def test_a_flag_of_the_wrong_type_is_told_as_a_flag(write: Write) -> None:
    with pytest.raises(ConfigError, match=r"^flag 'limit': .*valid integer.*, not 'many'$"):
        load_config(write("limit = 5\n"), {"limit": "many"})


def test_a_file_is_checked_even_where_a_flag_overrides_it(write: Write) -> None:
    with pytest.raises(ConfigError, match=r"run\.toml: key 'limit'"):
        load_config(write('limit = "many"\n'), {"limit": 5})


@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"limit = \n", "Invalid value"), (b'out = "\xff"\n', "'utf-8' codec can't decode")],
)
def test_a_file_that_is_not_toml_is_told(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "run.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=rf"run\.toml' cannot be read: .*{problem}"):
        load_config(path, {})


@pytest.mark.parametrize(("name", "problem"), [("none.toml", "No such file"), ("", "directory")])
def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, name: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=f"the configuration .* cannot be read: .*{problem}"):
        load_config(tmp_path / name, {})


def test_options_are_split_at_their_first_equals_sign() -> None:
    config = RunConfig(option=("rungs=5", "labels = a=b ", "empty="))
    assert config.options() == {"rungs": "5", "labels": "a=b", "empty": ""}


@pytest.mark.parametrize("option", ["rungs", "=5", " =x", ""])
def test_an_option_without_name_or_equals_sign_is_told(option: str) -> None:
    message = f"a judge's option is given as NAME=VALUE, not {option!r}"
    with pytest.raises(ConfigError, match=re.escape(message)):
        RunConfig(option=(option,)).options()


def test_an_option_given_twice_is_told() -> None:
    with pytest.raises(ConfigError, match="a judge's option 'rungs' is given more than once"):
        RunConfig(option=("rungs=5", "rungs =5")).options()


def test_every_field_has_a_help_text() -> None:
    assert all(each.metadata["help"].strip() for each in fields(RunConfig))


def test_a_model_with_options_and_no_name_is_not_split_at_an_option() -> None:
    with pytest.raises(ConfigError, match=r"given as NAME=VALUE, not .m\.gguf#ctx=512"):
        config.named_values(["m.gguf#ctx=512"], what="a model")
    found = config.named_values(["mine=m.gguf#ctx=512"], what="a model")
    assert found == {"mine": "m.gguf#ctx=512"}


def test_no_help_text_holds_what_would_be_read_as_markup() -> None:
    kinds = [
        each
        for each in vars(config).values()
        if is_dataclass(each) and each.__module__ == config.__name__
    ]
    assert len(kinds) > 5
    for kind in kinds:
        for each in fields(kind):
            about = each.metadata["help"]
            assert Text.from_markup(about).plain == about, (kind, each.name)
