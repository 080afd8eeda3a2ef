"""What a configuration names and does not define."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from flows.config import Config
from flows.config_models import EMBEDDED
from flows.config_section import KeyPath


class Missing(NamedTuple):
    """A mistake that only shows when the whole configuration is known."""

    keys: KeyPath
    message: str


def missing_endpoints(config: Config) -> list[Missing]:
    """Roles whose endpoint is not defined, and endpoints without an address."""
    known = ", ".join([EMBEDDED, *config.endpoints])
    found = [
        Missing(keys, f"{'.'.join(keys)}: there is no [endpoints.{name}]; there are {known}")
        for keys, name in mapped(config)
        if name != EMBEDDED and name not in config.endpoints
    ]
    for name, endpoint in config.endpoints.items():
        keys = ("endpoints", name)
        if name == EMBEDDED:
            found.append(Missing(keys, f'endpoints.{name}: "{EMBEDDED}" is the name of what comes with trajmill'))
        elif endpoint.kind == "openai_api" and not endpoint.addresses:
            found.append(Missing(keys, f"endpoints.{name}.urls is missing: the base address of its server"))
    return found


def mapped(config: Config) -> Iterator[tuple[KeyPath, str]]:
    """Each role as the keys that lead to it, with the name of its endpoint."""
    models = config.models
    for role in ("policy", "writer", "describer"):
        yield ("models", role), getattr(models, role)
    yield ("models", "critic", "step"), models.critic.step
    for channel in ("text", "multimodal"):
        for name in getattr(models.critic, channel):
            yield ("models", "critic", channel), name
