"""The models of a configuration as pipelines take them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from flows.config import Config
from flows.config_models import EMBEDDED, EndpointSection
from pipelines.models import ModelSpec
from schemas.coordinates import CoordinateFrame, CoordinateSpace, native_frame
from schemas.geometry import Size
from stages.models.images import QWEN2_5_VL, QWEN3_VL

if TYPE_CHECKING:
    from stages.models.openai_api.settings import ApiSettings

REQUEST_CACHE = "request-cache"
"""Folder of the request cache within a warehouse; it may be deleted at any time."""

_BUDGETS = {"qwen2.5-vl": QWEN2_5_VL, "qwen3-vl": QWEN3_VL}
_SPACES = {"qwen2.5-vl": CoordinateSpace.RESIZED_PIXELS, "qwen3-vl": CoordinateSpace.PER_MILLE}


def model_of(config: Config, name: str) -> ModelSpec:
    """The model of an endpoint that the configuration defines."""
    endpoint = config.endpoints[name]
    return ModelSpec(
        kind=endpoint.kind,
        settings=_settings(endpoint),
        api_key_variable=endpoint.api_key_variable,
        cache=config.run.root / REQUEST_CACHE if endpoint.cache else None,
    )


def models_of(config: Config, names: Iterable[str]) -> tuple[ModelSpec, ...]:
    """The models of some endpoints; what is embedded is none."""
    return tuple(model_of(config, name) for name in names if name != EMBEDDED)


def policy_frame(config: Config) -> Callable[[Size], CoordinateFrame]:
    """How the policy's positions relate to a screen of a size."""
    policy = config.models.policy
    return native_frame if policy == EMBEDDED else model_of(config, policy).frame


def _settings(endpoint: EndpointSection) -> ApiSettings:
    from stages.models.openai_api.settings import ApiSettings

    budget = _BUDGETS[endpoint.family]
    return ApiSettings(
        model=endpoint.model if endpoint.kind == "openai_api" else str(Path(endpoint.model)),
        urls=endpoint.urls,
        budget=budget.model_copy(update={"max_pixels": min(endpoint.max_pixels, budget.max_pixels)}),
        space=_SPACES[endpoint.family],
        max_in_flight=endpoint.max_in_flight,
        attempts=endpoint.attempts,
        connect_seconds=endpoint.connect_seconds,
        read_seconds=endpoint.read_seconds,
        total_seconds=endpoint.total_seconds,
        input_price=endpoint.input_price,
        output_price=endpoint.output_price,
    )
