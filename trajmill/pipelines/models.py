"""Gives workers their models: a spec describes each model, and a worker opens it once."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from trajmill.schemas.coordinates import CoordinateFrame
from trajmill.schemas.geometry import Size
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.stages.models.base import ChatModel, ContextBudget
from trajmill.stages.models.spec import ModelSpec


@dataclass(frozen=True)
class Endpoint:
    """One model behind one or several roles."""

    spec: ModelSpec
    request_cache: Path | None = None
    """Folder of the request cache; None caches nothing."""
    version: str = ""
    """The version that rows of its answers store; the model's own if empty."""

    @property
    def budget(self) -> ContextBudget:
        """Most that a critic shows the model in one request."""
        return self.spec.context_budget

    def frame(self, screen: Size) -> CoordinateFrame:
        """The coordinate frame of the model's texts for a screen size."""
        return self.spec.frame(screen)

    def connect(self) -> ChatModel:
        """The model; weights are loaded once into this process.

        Raises:
            BadInputError: the variable of the key is not set, or the model cannot be loaded.
        """
        return self.spec.open(os.environ, self.request_cache, version=self.version)

    def open(self, origin: Origin, sink: Callable[[ModelCall], None]) -> ChatModel:
        """The model, with a row for each call given to `sink`."""
        from trajmill.stages.models.wrapped import Accounting

        return self.spec.open(os.environ, self.request_cache, Accounting(origin, sink))


class OpenEndpoints:
    """Opens each endpoint once, records its calls, and closes all endpoints at the end."""

    def __init__(self, origin: Origin, sink: Callable[[ModelCall], None]) -> None:
        """Open endpoints as they are asked for.

        Args:
            origin: the common columns of the rows of model calls.
            sink: gets a row for each call to a model.
        """
        self._origin = origin
        self._sink = sink
        self._open: list[tuple[Endpoint, ChatModel]] = []
        self._closing = AsyncExitStack()

    def model(self, endpoint: Endpoint) -> ChatModel:
        """The model of an endpoint.

        Raises:
            BadInputError: it cannot be connected.
        """
        known = next((model for other, model in self._open if other == endpoint), None)
        if known is not None:
            return known
        model = endpoint.open(self._origin, self._sink)
        self._open.append((endpoint, model))
        self._closing.push_async_callback(model.close)
        return model

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._closing.__aexit__(kind, error, trace)
