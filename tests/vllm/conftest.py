from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.flows.runs import changed, small_config
from tests.flows.serving.process_groups import is_gone, living
from tests.flows.serving.test_model_server import free_port
from tests.stages.models.transformers_local.tiny_vlm import build_tiny_vlm
from tests.vllm.tiny_server import MODEL, tiny_server
from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.sections import ModelsSection
from trajmill.flows.serving.kept_server import is_free
from trajmill.flows.serving.model_server import ModelServer, ask_server, served
from trajmill.stages.agents.spec import EndToEndSpec
from trajmill.stages.environments.kinds import SimulatedSpec
from trajmill.stages.models.openai_api.spec import OpenAiSpec

ENVIRONMENT = Path(__file__).parents[2] / ".venv-vllm"


class TinyServer(NamedTuple):
    address: str
    weights: Path

    def requests(self) -> int:
        """Requests that it has answered so far, by its own count."""
        metrics = ask_server(self.address.removesuffix("/v1") + "/metrics").text
        counts = [
            line.rsplit(" ", 1)[1] for line in metrics.splitlines() if line.startswith("vllm:request_success_total{")
        ]
        return round(sum(map(float, counts)))


def config_with(server: TinyServer, root: Path, rounds: int, endpoint: dict[str, Any], **asked: Any) -> Config:
    """Small rounds with the policy on the server; what is asked of queries differs from two for training."""
    queries = {"train": 2, "heldout_slots": 0, "heldout_phrasings": 0, "heldout_app_names": (), "validation": 0}
    tiny = {"model": MODEL, "urls": (server.address,), "family": "qwen2.5-vl", "attempts": 2, **endpoint}
    return changed(
        small_config(root, rounds=rounds),
        queries=queries | asked,
        rollout={"episodes_per_round": 32},
        evaluate={"episodes": 1, "train_sample": 0},
        environment=SimulatedSpec(builtin_apps=("messages",)),  # its tasks are short
        agent=EndToEndSpec(max_tokens=4),  # it has no words to say
        run={"seed": 7},  # of ten seeds, the one whose tasks allow the fewest steps
        models=ModelsSection(policy="tiny"),
        endpoints={"tiny": OpenAiSpec.model_validate(tiny)},
    )


@pytest.fixture(scope="session")
def vllm_python() -> Path:
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
    with served([server], folder) as groups:
        group = groups["tiny"]
        assert len(living(group)) > 2
        yield TinyServer(server.address, weights)
    assert is_gone(group)
    assert is_free(port)
