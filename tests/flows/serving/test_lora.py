from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flows.serving.stand_in_vllm import stand_in
from tests.flows.serving.test_model_server import free_port
from trajmill.flows.serving.model_server import (
    ModelServer,
    load_adapter,
    served,
    served_models,
    unload_adapter,
)
from trajmill.schemas.errors import BadInputError, TrajmillError

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that takes adapters."""
    folder = tmp_path_factory.mktemp("stand-in")
    policy = ModelServer("policy", "policy-7b", stand_in(folder, free_port(), "--enable-lora"))
    with served([policy], folder):
        yield policy.address


def adapter(folder: Path, name: str) -> Path:
    path = folder / name
    path.mkdir()
    (path / "adapter_config.json").write_text("{}")
    return path


def load(address: str, adapter: Path) -> None:
    load_adapter(address, adapter.name, adapter)


def test_an_adapter_takes_the_place_of_its_predecessor(address: str, tmp_path: Path) -> None:
    first, second = adapter(tmp_path, "v1"), adapter(tmp_path, "v2")
    load(address, first)
    assert served_models(address) == frozenset({"policy-7b", "v1"})
    load(address, second)
    assert served_models(address) == frozenset({"policy-7b", "v1", "v2"}), "the old one answers until the new one does"
    unload_adapter(address, "v1")
    assert served_models(address) == frozenset({"policy-7b", "v2"})
    load(address, second)  # the same again, as after a restart
    assert served_models(address) == frozenset({"policy-7b", "v2"})
    unload_adapter(address, "v2")
    unload_adapter(address, "v2")
    assert served_models(address) == frozenset({"policy-7b"})


def test_a_server_that_takes_no_adapter(tmp_path: Path) -> None:
    policy = ModelServer("policy", "policy-7b", stand_in(tmp_path, free_port()))
    with (
        served([policy], tmp_path),
        pytest.raises(BadInputError, match="cannot load the LoRA adapter v1: start it with --enable-lora"),
    ):
        load(policy.address, adapter(tmp_path, "v1"))


def test_without_an_adapter_or_a_server_one_line_says_so(tmp_path: Path) -> None:
    nobody = f"http://127.0.0.1:{free_port()}/v1"
    with pytest.raises(BadInputError, match=r"is no LoRA adapter: it has no adapter_config.json"):
        load(nobody, tmp_path)
    with pytest.raises(TrajmillError, match="does not answer"):
        load(nobody, adapter(tmp_path, "v1"))
