"""Turns names of endpoints into the models that pipelines take."""

from __future__ import annotations

from collections.abc import Iterable

from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.sections import EMBEDDED
from trajmill.pipelines.models import Endpoint
from trajmill.schemas.dialects.families import ANY, Family
from trajmill.warehouse.store.address import local_folder

REQUEST_CACHE = "request-cache"
"""Folder of the request cache within a warehouse; it may be deleted at any time."""


def model_of(config: Config, name: str) -> Endpoint:
    return Endpoint(config.endpoints[name], local_folder(config.run.root) / REQUEST_CACHE)


def models_of(config: Config, names: Iterable[str]) -> tuple[Endpoint, ...]:
    """The models of some endpoints, without the embedded one."""
    return tuple(model_of(config, name) for name in names if name != EMBEDDED)


def policy_family(config: Config) -> Family:
    """How the policy is asked and answers."""
    policy = config.models.policy
    return ANY if policy == EMBEDDED else config.endpoints[policy].vision_family


def policy_gives_tokens(config: Config) -> bool:
    """Whether the policy is asked for the tokens of its replies."""
    policy = config.models.policy
    return config.rl.tokens and policy != EMBEDDED and config.endpoints[policy].gives_tokens
