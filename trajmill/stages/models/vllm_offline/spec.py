from __future__ import annotations

from typing import Annotated, Literal

from trajmill.schemas.spec import OPERATIONAL
from trajmill.stages.models.base import ChatModel
from trajmill.stages.models.local.folder import FolderSpec

EngineValue = bool | int | float | str


class VllmSpec(FolderSpec):
    """A model that vLLM runs in this process, on its GPU."""

    kind: Literal["vllm_offline"] = "vllm_offline"
    """vLLM in this process, on its GPU."""
    engine: Annotated[dict[str, EngineValue | dict[str, EngineValue]], OPERATIONAL] = {}
    """Engine arguments of vLLM by their Python names, e.g. `{ tensor_parallel_size = 2 }`."""

    def load(self) -> ChatModel:
        from trajmill.stages.models.vllm_offline.model import VllmModel

        return VllmModel(self)
