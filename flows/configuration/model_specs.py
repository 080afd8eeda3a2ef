"""The models of a configuration as pipelines take them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.models import EMBEDDED, EndpointSection
from trajmill.pipelines.models import Endpoint
from trajmill.schemas.coordinates import CoordinateFrame, native_frame
from trajmill.schemas.geometry import Size
from trajmill.stages.models.kinds import MODELS
from trajmill.stages.models.spec import ModelSpec

REQUEST_CACHE = "request-cache"
"""Folder of the request cache within a warehouse; it may be deleted at any time."""


def model_of(config: Config, name: str) -> Endpoint:
    """The model of an endpoint that the configuration defines."""
    return Endpoint(_spec(config.endpoints[name]), config.run.root / REQUEST_CACHE)


def models_of(config: Config, names: Iterable[str]) -> tuple[Endpoint, ...]:
    """The models of some endpoints; what is embedded is none."""
    return tuple(model_of(config, name) for name in names if name != EMBEDDED)


def policy_frame(config: Config) -> Callable[[Size], CoordinateFrame]:
    """How the policy's positions relate to a screen of a size."""
    policy = config.models.policy
    return native_frame if policy == EMBEDDED else model_of(config, policy).frame


def _spec(endpoint: EndpointSection) -> ModelSpec:
    spec = MODELS.spec_class(endpoint.kind)
    given = endpoint.model_dump(include=set(spec.model_fields))
    made = spec.model_validate(given)
    assert isinstance(made, ModelSpec)
    return made
