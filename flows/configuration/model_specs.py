"""The models of a configuration as pipelines take them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.models import EMBEDDED, EndpointSection
from trajmill.pipelines.models import FolderModel, ModelSpec, ServedModel
from trajmill.schemas.coordinates import CoordinateFrame, native_frame
from trajmill.schemas.dialects.families import family_named
from trajmill.schemas.geometry import Size
from trajmill.stages.models.context_budget import budget_of

REQUEST_CACHE = "request-cache"
"""Folder of the request cache within a warehouse; it may be deleted at any time."""


def model_of(config: Config, name: str) -> ModelSpec:
    """The model of an endpoint that the configuration defines."""
    endpoint = config.endpoints[name]
    return ModelSpec(
        family=family_named(endpoint.family).within(endpoint.max_pixels),
        at=_where(endpoint),
        request_cache=config.run.root / REQUEST_CACHE if endpoint.cache else None,
        budget=budget_of(endpoint.context_tokens, endpoint.max_images),
    )


def models_of(config: Config, names: Iterable[str]) -> tuple[ModelSpec, ...]:
    """The models of some endpoints; what is embedded is none."""
    return tuple(model_of(config, name) for name in names if name != EMBEDDED)


def policy_frame(config: Config) -> Callable[[Size], CoordinateFrame]:
    """How the policy's positions relate to a screen of a size."""
    policy = config.models.policy
    return native_frame if policy == EMBEDDED else model_of(config, policy).frame


def _where(endpoint: EndpointSection) -> ServedModel | FolderModel:
    if endpoint.kind != "openai_api":
        return FolderModel(endpoint.kind, Path(endpoint.model), json.dumps(endpoint.engine))
    from trajmill.stages.models.openai_api.settings import ApiSettings

    settings = ApiSettings(
        model=endpoint.model,
        urls=endpoint.addresses,
        max_in_flight=endpoint.max_in_flight,
        attempts=endpoint.attempts,
        connect_seconds=endpoint.connect_seconds,
        read_seconds=endpoint.read_seconds,
        total_seconds=endpoint.total_seconds,
        input_price=endpoint.input_price,
        output_price=endpoint.output_price,
    )
    return ServedModel(settings, endpoint.api_key_variable)
