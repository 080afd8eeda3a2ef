"""The policy's servers get its adapter or its weights before it acts, and refuse in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flows.serving.stand_in_vllm import stand_in
from tests.flows.serving.test_model_server import free_port
from trajmill.flows.serving.model_server import ModelServer, load_adapter, served, served_models, unload_adapter
from trajmill.flows.serving.models_ready import RefusedPolicyError, policy_server, serve_policy
from trajmill.flows.stage import AwaitedError
from trajmill.schemas.errors import BadInputError, TrajmillError
from trajmill.stages.models.openai_api.spec import OpenAiSpec

pytestmark = pytest.mark.slow


def adapter(folder: Path, name: str) -> Path:
    path = folder / name
    path.mkdir()
    (path / "adapter_config.json").write_text("{}")
    return path


def endpoint(folder: Path) -> OpenAiSpec:
    """A policy whose server trajmill starts."""
    return OpenAiSpec(model="policy-7b", serve=stand_in(folder, free_port(), "--enable-lora"))


def test_a_new_version_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    spec = endpoint(tmp_path)
    (address,) = spec.addresses
    with policy_server("policy", tmp_path):
        serve_policy(spec, "policy-7b", None, None)
        assert served_models(address) == frozenset({"policy-7b"})
        new = adapter(tmp_path, "v1")
        for _ in range(2):
            serve_policy(spec, "v1", None, new)
            assert served_models(address) == frozenset({"policy-7b", "v1"})
        for _ in range(2):
            unload_adapter(address, "v1")
        assert served_models(address) == frozenset({"policy-7b"})
        with pytest.raises(RefusedPolicyError, match=r"\A[^\n]*the rank 64 is greater than max_lora_rank 8\Z"):
            serve_policy(spec, "broken", None, adapter(tmp_path, "broken"))

        weights = tmp_path / "weights"
        weights.mkdir()
        serve_policy(spec, "v2", weights, None)
        assert served_models(address) == frozenset({"v2"}), "whole weights need a server of their own"
        serve_policy(spec, "policy-7b", None, None)
        assert served_models(address) == frozenset({"policy-7b"})
    with pytest.raises(TrajmillError, match="does not answer"):
        serve_policy(spec, "policy-7b", None, None)


def test_whole_weights_for_somebody_elses_server_are_waited_for(tmp_path: Path) -> None:
    spec = endpoint(tmp_path)
    with policy_server("policy", tmp_path):
        serve_policy(spec, "policy-7b", None, None)
        elsewhere = spec.model_copy(update={"serve": None, "urls": spec.addresses})
        what = r"awaiting a policy: .* does not serve v2, but policy-7b; load (\S+) into it .* --served-model-name v2`"
        with pytest.raises(AwaitedError, match=rf"\A{what}[^\n]*run the same command again\Z"):
            serve_policy(elsewhere, "v2", tmp_path, None)
        with pytest.raises(RefusedPolicyError, match=r"does not serve v2, but policy-7b\Z"):
            serve_policy(elsewhere, "v2", None, None)


def test_a_server_that_takes_no_adapter_and_what_is_none(tmp_path: Path) -> None:
    policy, v1 = ModelServer("policy", "policy-7b", stand_in(tmp_path, free_port())), adapter(tmp_path, "v1")
    message = "cannot load the LoRA adapter v1: start it with --enable-lora"
    with served([policy], tmp_path), pytest.raises(BadInputError, match=message):
        load_adapter(policy.address, "v1", v1)
    with pytest.raises(TrajmillError, match="does not answer"):
        load_adapter(policy.address, "v1", v1)
    with pytest.raises(BadInputError, match=r"is no LoRA adapter: it has no adapter_config.json"):
        load_adapter(policy.address, "none", tmp_path)
