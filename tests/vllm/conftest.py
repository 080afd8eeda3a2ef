from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.flows.serving.process_groups import is_gone, living
from tests.flows.serving.test_model_server import free_port, is_deserted
from tests.stages.models.transformers_local.tiny_vlm import build_tiny_vlm
from tests.vllm.tiny_server import MODEL, tiny_server
from trajmill.flows.serving.model_server import ModelServer, ask_server, served

ENVIRONMENT = Path(__file__).parents[2] / ".venv-vllm"


class TinyServer(NamedTuple):
    """A vLLM server of the tests' own."""

    address: str
    weights: Path

    def requests(self) -> int:
        """Requests that it has answered so far, by its own count."""
        metrics = ask_server(self.address.removesuffix("/v1") + "/metrics").text
        counts = [
            line.rsplit(" ", 1)[1] for line in metrics.splitlines() if line.startswith("vllm:request_success_total{")
        ]
        return round(sum(map(float, counts)))


@pytest.fixture(scope="session")
def vllm_python() -> Path:
    """Python of the environment that vLLM is installed in."""
    if not (ENVIRONMENT / "installed").exists():
        pytest.skip("vLLM is not there: `make vllm-env` installs it")
    return ENVIRONMENT / "bin" / "python"


@pytest.fixture(scope="package")
def server(vllm_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TinyServer]:
    """A running server of a tiny model; when its tests are done, nothing may be left of it."""
    folder = tmp_path_factory.mktemp("vllm")
    port = free_port()
    weights = build_tiny_vlm(folder / "model")
    section = tiny_server(vllm_python, weights, port)
    server = ModelServer("tiny", MODEL, section)
    with served([server], folder) as keepers:
        group = keepers["tiny"]
        assert len(living(group)) > 2
        yield TinyServer(server.address, weights)
    assert is_gone(group)
    assert is_deserted(port)
