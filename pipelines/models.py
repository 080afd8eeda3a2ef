"""What a worker needs to reach a model: described by values, connected where it is used.

Clients are imported when a model is connected, since most runs need none.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from schemas.coordinates import CoordinateFrame
from schemas.errors import BadInputError
from schemas.geometry import Size
from schemas.model_call import ModelCall
from schemas.record import Origin
from stages.models.base import ChatModel

if TYPE_CHECKING:
    from stages.models.openai_api.settings import ApiSettings

Kind = Literal["openai_api", "transformers_local", "vllm_offline"]


@dataclass(frozen=True)
class ModelSpec:
    """One model behind one or several roles."""

    kind: Kind
    settings: ApiSettings
    """For a model in this process, `model` is its folder and there are no addresses."""
    api_key_variable: str = ""
    """Environment variable of the worker that holds the key of the server."""
    cache: Path | None = None
    """Folder of the request cache; None asks again for everything."""

    def connect(self) -> ChatModel:
        """The model; weights in this process are loaded once, however often it is asked for.

        Raises:
            BadInputError: the variable of the key is not set, or the model cannot be loaded.
        """
        model = self._model()
        return model if self.cache is None else CachedModel(model, self.cache)

    def open(self, origin: Origin, sink: Callable[[ModelCall], None]) -> ChatModel:
        """The model, with a row for each call given to `sink`."""
        return AccountedModel(self.connect(), origin, sink)

    def frame(self, screen: Size) -> CoordinateFrame:
        """How positions in the model's texts relate to a screen."""
        return self.settings.frame(screen)

    def _model(self) -> ChatModel:
        if self.kind == "openai_api":
            from stages.models.openai_api.model import OpenAiModel

            return OpenAiModel(self.settings.model_copy(update={"api_key": self._api_key()}))
        return _loaded(self.kind, self.settings)

    def _api_key(self) -> str:
        if not self.api_key_variable:
            return ""
        if self.api_key_variable not in os.environ:
            raise BadInputError(
                f"{self.api_key_variable} is not set: export the API key of {self.settings.urls[0]} in it"
            )
        return os.environ[self.api_key_variable]


@cache
def _loaded(kind: Kind, settings: ApiSettings) -> ChatModel:
    if kind == "transformers_local":
        from stages.models.transformers_local import load_local_model

        return load_local_model(settings)
    from stages.models.vllm_offline import load_offline_model

    return load_offline_model(settings)
