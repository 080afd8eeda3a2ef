"""Stores policies in a folder: `model.safetensors` and `config.json`, in the layout of Hugging Face."""

from __future__ import annotations

import copy
import hashlib
import json
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from trajmill.schemas.errors import BadInputError
from trajmill.stages.models.embedded.model import EmbeddedModel
from trajmill.stages.models.embedded.policy_network import NetworkShape, PolicyNetwork


def use_one_thread() -> None:
    """Make torch compute on one core in this process.

    More threads would make the small embedded networks slower. With one thread, sums do not depend on the number of
    cores.
    """
    torch.set_num_threads(1)


_WEIGHTS, _CONFIG = "model.safetensors", "config.json"
_MODEL_TYPE = "trajmill_candidate_scorer"


def untrained_network(seed: int, shape: NetworkShape | None = None) -> PolicyNetwork:
    """A network before training; equal seeds give equal weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return PolicyNetwork(shape or NetworkShape())


def network_version(network: PolicyNetwork) -> str:
    digest = hashlib.blake2b(json.dumps(network.shape._asdict(), sort_keys=True).encode(), digest_size=8)
    digest.update(save(_weights(network)))
    return f"embedded-{digest.hexdigest()}"


def save_network(network: PolicyNetwork, folder: Path) -> str:
    """Write a network to `folder`, the configuration last; returns its version."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _WEIGHTS).write_bytes(save(_weights(network), metadata={"format": "pt"}))
    version = network_version(network)
    config = {"model_type": _MODEL_TYPE, "version": version, "shape": network.shape._asdict()}
    (folder / _CONFIG).write_text(json.dumps(config, indent=2) + "\n")
    return version


def is_embedded_policy(folder: Path) -> bool:
    """Whether a folder holds an embedded policy, by what its configuration says."""
    try:
        found = json.loads((folder / _CONFIG).read_text())
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and found.get("model_type") == _MODEL_TYPE


def load_network(folder: Path) -> PolicyNetwork:
    """Read a network.

    Raises:
        BadInputError: the folder holds no complete embedded policy.
    """
    try:
        config = json.loads((folder / _CONFIG).read_text())
        network = PolicyNetwork(NetworkShape(**config["shape"]))
        network.load_state_dict(load_file(folder / _WEIGHTS))
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        raise BadInputError(f"{folder} holds no embedded policy ({type(error).__name__}); train or copy one") from error
    return network


def embedded_model(network: PolicyNetwork) -> EmbeddedModel:
    return EmbeddedModel(copy.deepcopy(network), network_version(network))


def load_embedded_model(folder: Path) -> EmbeddedModel:
    return embedded_model(load_network(folder))


def _weights(network: PolicyNetwork) -> dict[str, Tensor]:
    return {name: tensor.float().contiguous() for name, tensor in network.state_dict().items()}
