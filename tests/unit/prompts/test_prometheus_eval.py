"""Templates of an installed package, read without running it; the package here is made up."""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

import pytest

from adjudge.errors import ConfigError
from adjudge.exchange import Message
from adjudge.prompts.prometheus_eval import installed_prompts
from adjudge.prompts.template import load_prompts
from adjudge.schema import Criterion, Scale

SOURCE = '''raise RuntimeError("this file is not to be run")
import not_there

VERSION = 3
ABS_SYSTEM_PROMPT = "Grade it."
REL_SYSTEM_PROMPT = "Compare " "them."
ABSOLUTE_PROMPT = """#Task: reply "text [RESULT] 1-5" as {{so}}
#Asked: {instruction}
#Reply: {response}
#Best: {reference_answer}
#Rubric: {rubric}
#Feedback: """
ABSOLUTE_PROMPT_WO_REF = """
#Asked: {instruction}
#Reply: {response}
#Rubric: {rubric}
#Feedback:
""".strip()
RELATIVE_PROMPT = (
    "#Asked: {instruction}\\\\n#A: {response_A}\\\\n#B: {response_B}\\\\n"
    "#Best: {reference_answer}\\\\n#Rubric: {rubric}\\\\n#Verdict: "
)
RELATIVE_PROMPT_WO_REF = "#Asked: {instruction} #A: {response_A} #B: {response_B} #On: {rubric}"
UNUSED = ABSOLUTE_PROMPT.upper()
'''.replace("\\\\", "\\")
WIT = Criterion(
    name="wit", title="Wit", description="how funny it is", rubric=("a", "b", "c", "d", "e")
)
RUBRIC = "[how funny it is]\nScore 1: a\nScore 2: b\nScore 3: c\nScore 4: d\nScore 5: e"
ONE = {"source": "Say hi.", "response": "Hi!", "reference": ""}
TWO = {"source": "Say hi.", "first": "Hi!", "second": "No.", "reference": ""}


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, source: str | None = SOURCE) -> None:
    """Put a distribution with this file into a folder, and nothing else of the name in reach."""
    info = folder / "prometheus_eval-9.8.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: prometheus-eval\nVersion: 9.8\n")
    (info / "RECORD").write_text("prometheus_eval/prompts.py,,\n")
    (folder / "prometheus_eval").mkdir()
    if source is not None:
        (folder / "prometheus_eval" / "prompts.py").write_text(source, "utf-8")
    monkeypatch.syspath_prepend(str(folder))


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    install(tmp_path, monkeypatch)
    return tmp_path / "prometheus_eval" / "prompts.py"


def grade(data: dict[str, str], criterion: Criterion = WIT, scale: Scale | None = None) -> str:
    """Return the only message's text, of the absolute templates."""
    prompts = installed_prompts("prometheus-absolute")
    (message,) = prompts.render("grade", data, criterion=criterion, scale=scale or Scale())
    assert message.role == "user"
    return message.content


# --- what is asked ------------------------------------------------------------------------------


@pytest.mark.usefixtures("package")
def test_a_grade_is_one_message_with_the_system_sentence_first() -> None:
    assert grade(ONE | {"reference": "Hello!"}) == (
        'Grade it.\n\n#Task: reply "text [RESULT] 1-5" as {so}\n#Asked: Say hi.\n#Reply: Hi!\n'
        f"#Best: Hello!\n#Rubric: {RUBRIC}\n#Feedback: "
    )


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize("reference", ["", " \n"])
def test_an_empty_reference_takes_the_template_without(reference: str) -> None:
    assert grade(ONE | {"reference": reference}) == (
        f"Grade it.\n\n#Asked: Say hi.\n#Reply: Hi!\n#Rubric: {RUBRIC}\n#Feedback:"
    )


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    "criterion", [WIT, Criterion(name="w", title="W", description="how funny it is")]
)
def test_a_comparison_is_shown_what_is_judged_and_no_scores(criterion: Criterion) -> None:
    prompts = installed_prompts("prometheus-relative")
    with_reference = prompts.render("compare", TWO | {"reference": "Hello!"}, criterion=criterion)
    assert with_reference == (
        Message(
            role="user",
            content="Compare them.\n\n#Asked: Say hi.\n#A: Hi!\n#B: No.\n#Best: Hello!\n"
            "#Rubric: [how funny it is]\n#Verdict: ",
        ),
    )
    without = prompts.render("compare", TWO, criterion=criterion, scale=Scale())
    assert without == (
        Message(
            role="user",
            content="Compare them.\n\n#Asked: Say hi. #A: Hi! #B: No. #On: [how funny it is]",
        ),
    )


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize("text", ["{response}", "{{rubric}}", "}{ {0} {a.b}", r"\1 \g<0>", " a\n"])
def test_texts_stay_texts(text: str) -> None:
    shown = grade({"source": text, "response": text, "reference": text})
    assert f"#Asked: {text}\n#Reply: {text}\n#Best: {text}\n#Rubric: " in shown


@pytest.mark.usefixtures("package")
def test_the_package_is_not_imported() -> None:
    grade(ONE)
    assert not [name for name in sys.modules if name.startswith("prometheus_eval")]


# --- what judges need of prompts ----------------------------------------------------------------


@pytest.mark.parametrize("method", ["prometheus-absolute", "prometheus-relative"])
def test_the_reference_names_version_and_hash_of_the_file(package: Path, method: str) -> None:
    prompts = installed_prompts(method)
    assert (prompts.id, prompts.version) == ("prometheus-eval", "9.8")
    assert prompts.settings == {"max_tokens": 1024}
    digest = hashlib.sha256(package.read_bytes()).hexdigest()
    assert prompts.reference == f"prometheus-eval@9.8#{digest[:8]}"


@pytest.mark.usefixtures("package")
def test_they_are_loaded_in_place_of_a_folder() -> None:
    prompts = load_prompts("prometheus-absolute", "instruction", folder="prometheus-eval")
    assert prompts.reference == installed_prompts("prometheus-absolute").reference


@pytest.mark.usefixtures("package")
def test_a_folder_of_that_name_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "prometheus-eval" / "prometheus-absolute"
    own.mkdir(parents=True)
    (own / "story.toml").write_text('id = "own"\nversion = 1\n')
    monkeypatch.chdir(tmp_path)
    assert load_prompts("prometheus-absolute", "story", folder="prometheus-eval").id == "own"


# --- errors -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("package")
def test_other_methods_have_no_such_prompts() -> None:
    with pytest.raises(
        ConfigError,
        match="prometheus-eval has prompts for prometheus-absolute and prometheus-relative, "
        "not for 'ladder'",
    ):
        load_prompts("ladder", "story", folder="prometheus-eval")


@pytest.mark.usefixtures("package")
def test_an_unknown_task_is_told_here_too() -> None:
    with pytest.raises(ConfigError, match="unknown task 'poem'"):
        load_prompts("prometheus-absolute", "poem", folder="prometheus-eval")


def test_a_missing_package_is_told_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "path", [str(tmp_path)])
        with pytest.raises(
            ConfigError, match="is not installed: pip install --no-deps prometheus-eval "
        ):
            installed_prompts("prometheus-absolute")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (None, "prometheus-eval 9.8 has no file prometheus_eval/prompts.py: install the version"),
        ("A = (", "prometheus-eval 9.8 has a prometheus_eval/prompts.py that is not Python: "),
        ("A = '\0'", "prometheus-eval 9.8 has a prometheus_eval/prompts.py that is not Python: "),
        (
            'ABS_SYSTEM_PROMPT = "a"\nABSOLUTE_PROMPT = make("b").strip()\n',
            "prometheus-eval 9.8 lacks the texts ABSOLUTE_PROMPT, ABSOLUTE_PROMPT_WO_REF: install",
        ),
        (
            SOURCE.replace("UNUSED = ABSOLUTE_PROMPT.upper()", 'ABSOLUTE_PROMPT = "{rubric}"'),
            "prometheus-eval 9.8 has the fields rubric in its ABSOLUTE_PROMPT and not instruction,",
        ),
        (
            SOURCE.replace("#Reply: {response}\n#Rubric", "#Rubric"),
            "has the fields instruction, rubric in its ABSOLUTE_PROMPT_WO_REF and not instruction, "
            "response, rubric: install",
        ),
    ],
)
def test_another_version_of_the_package_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str | None, message: str
) -> None:
    install(tmp_path, monkeypatch, source)
    with pytest.raises(ConfigError, match=re.escape(message)):
        installed_prompts("prometheus-absolute")


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize("scale", ["1-10", "0-5", "1..5", "1,3,5"])
def test_the_templates_ask_for_1_to_5_alone(scale: str) -> None:
    with pytest.raises(
        ConfigError, match=re.escape(f"ask for a score of 1-5, not of the scale {scale}: take")
    ):
        grade(ONE, scale=Scale.of(scale))


@pytest.mark.usefixtures("package")
def test_the_five_scores_may_be_listed() -> None:
    assert grade(ONE, scale=Scale.of("1,2,3,4,5")) == grade(ONE)


@pytest.mark.usefixtures("package")
def test_a_grade_needs_a_rubric_of_the_whole_scale() -> None:
    bare = Criterion(name="wit", title="Wit", description="how funny it is")
    with pytest.raises(ConfigError, match="the criterion 'wit' has none: give it a rubric"):
        grade(ONE, bare)
    four = Criterion(name="wit", title="Wit", description="fun", rubric=("a", "b", "c", "d"))
    with pytest.raises(ConfigError, match="the rubric of 'wit' describes 1, 2, 3 and 4 of"):
        grade(ONE, four)


@pytest.mark.usefixtures("package")
def test_an_unknown_prompt_or_text_is_told() -> None:
    prompts = installed_prompts("prometheus-relative")
    with pytest.raises(ConfigError, match=r"unknown prompt of prometheus-eval@9\.8#\w+ 'grade'"):
        prompts.render("grade", TWO, criterion=WIT)
    with pytest.raises(ConfigError, match="show first, reference, second, source, not reference, "):
        prompts.render("compare", ONE, criterion=WIT)


@pytest.mark.usefixtures("package")
def test_the_templates_allow_no_ties() -> None:
    prompts = installed_prompts("prometheus-relative")
    with pytest.raises(ConfigError, match="ask for A or B and allow no tie: leave ties out"):
        prompts.render("compare", TWO, criterion=WIT, ties=True)
    assert prompts.render("compare", TWO, criterion=WIT, ties=False)
