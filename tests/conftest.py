"""Fixtures that several kinds of tests share."""

from __future__ import annotations

import importlib.util
import os
import socket
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from adjudge.engines.models import cached_path
from tests.tiny_gguf import write_tiny_model
from tests.tiny_hf import write_tiny_bert, write_tiny_llama

if TYPE_CHECKING:
    from adjudge.engines.hf import HfEngine
    from adjudge.engines.llama import LlamaEngine

MODEL, ENCODER = "smollm2-135m", "all-minilm-l6-v2"
#: Begins the reason of every skip that an installation would prevent.
MISSING = "not installed"
settings.register_profile("tests", deadline=None, database=None, max_examples=60, derandomize=True)
#: New examples at every call: pytest --hypothesis-profile=search
settings.register_profile("search", deadline=None, database=None, max_examples=3000)
settings.load_profile("tests")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the flag of `make test-all`."""
    parser.addoption(
        "--no-missing-backends",
        action="store_true",
        help="fail tests that would be skipped because something is not installed",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn such skips into failures where the flag is given."""
    report = yield
    if report.skipped and item.config.getoption("--no-missing-backends"):
        reason = str(report.longrepr)
        if MISSING in reason:
            report.outcome = "failed"
            report.longrepr = f"skipped, but nothing may be missing: {reason}"
    return report


@pytest.fixture(autouse=True)
def _no_network(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forbid connections to anything but sockets of this machine's file system."""
    connect = socket.socket.connect
    loopback = "loopback" in request.fixturenames

    def guarded(self: socket.socket, address: Any) -> None:
        internet = self.family in (socket.AF_INET, socket.AF_INET6)
        if internet and not (loopback and address[0] == "127.0.0.1"):
            raise AssertionError(f"a test opened a network connection to {address}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)


@pytest.fixture
def loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test connect to servers of its own on 127.0.0.1, past any proxy."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture(scope="session")
def embedded_model() -> Path:
    """The file of the embedded model."""
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip(f"{MISSING}: xllamacpp; pip install 'adjudge[llama]'")
    path = cached_path(MODEL)
    if not path.exists():
        pytest.skip(f"{MISSING}: {MODEL}; adjudge models pull {MODEL}")
    return path


@pytest.fixture(scope="session")
def tiny_model(embedded_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model that answers at once."""
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    write_tiny_model(embedded_model, path, context=4096)
    return path


@pytest.fixture(scope="session")
def tiny(tiny_model: Path) -> Iterator[LlamaEngine]:
    """An engine on the random model, one thread."""
    from adjudge.engines.llama import LlamaEngine

    engine = LlamaEngine(tiny_model, threads=1)
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def transformers() -> None:
    """Skip a test where transformers is not installed."""
    for package in ("torch", "transformers"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{MISSING}: {package}; pip install 'adjudge[hf]'")


@pytest.fixture(scope="session")
def tiny_hf_folder(transformers: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random causal model of transformers, with a chat template."""
    folder = tmp_path_factory.mktemp("hf") / "tiny-llama"
    write_tiny_llama(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_hf(tiny_hf_folder: Path) -> HfEngine:
    """An engine on that model, one thread."""
    from adjudge.engines.hf import HfEngine

    return HfEngine(tiny_hf_folder, device="cpu", threads=1)


@pytest.fixture(scope="session")
def tiny_encoder_folder(transformers: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random encoder of transformers."""
    folder = tmp_path_factory.mktemp("hf") / "tiny-bert"
    write_tiny_bert(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_encoder(tiny_encoder_folder: Path) -> HfEngine:
    """An engine on that encoder, one thread."""
    from adjudge.engines.hf import HfEngine

    return HfEngine(tiny_encoder_folder, device="cpu", threads=1)


@pytest.fixture(scope="session")
def minilm_folder(transformers: None) -> Path:
    """The folder of MiniLM."""
    path = cached_path(ENCODER)
    if not path.exists():
        pytest.skip(f"{MISSING}: {ENCODER}; adjudge models pull {ENCODER}")
    return path


@pytest.fixture(scope="session")
def adjudge_data() -> Path:
    """The folder with benchmark data."""
    folder = os.environ.get("ADJUDGE_DATA")
    if not folder:
        pytest.skip("ADJUDGE_DATA does not name a folder with benchmark data")
    return Path(folder)
