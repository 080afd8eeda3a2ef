from __future__ import annotations

from typing import Literal

from pydantic import PositiveInt

from trajmill.stages.models.base import ChatModel
from trajmill.stages.models.local.folder import FolderSpec


class TransformersSpec(FolderSpec):
    """A model that transformers runs in this process, on a GPU or a CPU."""

    kind: Literal["transformers_local"] = "transformers_local"
    """A Hugging Face folder that transformers runs in this process."""
    max_batch: PositiveInt = 16
    """Most samples in one batch; the memory must be large enough."""

    def load(self) -> ChatModel:
        from trajmill.stages.models.transformers_local.model import TransformersModel

        return TransformersModel(self)
