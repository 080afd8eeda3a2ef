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

from pydantic import SecretStr

from trajmill.schemas.coordinates import CoordinateFrame
from trajmill.schemas.dialects.families import Family
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.geometry import Size
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.stages.models.base import ChatModel, ChatRequest, Completion
from trajmill.stages.models.context_budget import USUAL_BUDGET, ContextBudget

if TYPE_CHECKING:
    from trajmill.stages.models.openai_api.model import OpenAiModel
    from trajmill.stages.models.openai_api.settings import ApiSettings


@dataclass(frozen=True)
class ModelSpec:
    """One model behind one or several roles."""

    family: Family
    at: ServedModel | FolderModel
    request_cache: Path | None = None
    """Folder of the request cache; None asks again for everything."""
    budget: ContextBudget = USUAL_BUDGET
    """Most that a critic shows it in one request."""

    def connect(self) -> ChatModel:
        """The model; weights in this process are loaded once, however often it is asked for.

        Raises:
            BadInputError: the variable of the key is not set, or the model cannot be loaded.
        """
        from trajmill.stages.models.wrapped.request_cache import CachedModel

        model = self.at.connect(self.family)
        return model if self.request_cache is None else CachedModel(model, self.request_cache)

    def open(self, origin: Origin, sink: Callable[[ModelCall], None]) -> ChatModel:
        """The model, with a row for each call given to `sink`."""
        from trajmill.stages.models.wrapped.accounting import AccountedModel

        return AccountedModel(self.connect(), origin, sink)

    def frame(self, screen: Size) -> CoordinateFrame:
        """How positions in the model's texts relate to a screen."""
        return self.family.frame(screen)


@dataclass(frozen=True)
class ServedModel:
    """A model on servers that speak OpenAI's protocol."""

    settings: ApiSettings
    """Without the key."""
    api_key_variable: str = ""
    """Environment variable of the worker that holds the key of the servers; empty if they ask for none."""

    def connect(self, family: Family) -> OpenAiModel:
        """A client of the servers."""
        from trajmill.stages.models.openai_api.model import OpenAiModel

        return OpenAiModel(
            self.settings.model_copy(
                update={"api_key": self._api_key(), "budget": family.budget, "space": family.space}
            )
        )

    def _api_key(self) -> SecretStr:
        if self.api_key_variable and self.api_key_variable not in os.environ:
            address = self.settings.urls[0]
            raise BadInputError(f"{self.api_key_variable} is not set: export the API key of {address} in it")
        return SecretStr(os.environ[self.api_key_variable] if self.api_key_variable else "")


@dataclass(frozen=True)
class FolderModel:
    """A model whose weights are loaded into this process."""

    kind: Literal["transformers_local", "vllm_offline"]
    folder: Path
    engine: str = "{}"
    """JSON object of vLLM's engine arguments."""

    def connect(self, family: Family) -> ChatModel:
        """The model, which stays loaded until the process ends."""
        return _Kept(_loaded(self, family))


@cache
def _loaded(at: FolderModel, family: Family) -> ChatModel:
    if at.kind == "transformers_local":
        from trajmill.stages.models.local.settings import LocalSettings
        from trajmill.stages.models.transformers_local.model import TransformersModel

        return TransformersModel(LocalSettings(folder=at.folder, budget=family.budget, space=family.space))
    from trajmill.stages.models.vllm_offline.model import OfflineSettings, VllmModel

    return VllmModel(OfflineSettings(folder=at.folder, budget=family.budget, space=family.space, engine=at.engine))


class _Kept:
    """A model that closing does not unload: the next shard of this worker will want it again."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model

    @property
    def version(self) -> str:
        """Version of the model."""
        return self._model.version

    def frame(self, screen: Size) -> CoordinateFrame:
        """The frame of the model."""
        return self._model.frame(screen)

    async def complete(self, request: ChatRequest) -> Completion:
        """Ask the model."""
        return await self._model.complete(request)

    async def close(self) -> None:
        """Keep the weights."""
