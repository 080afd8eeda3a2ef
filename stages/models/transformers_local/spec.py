"""The spec of a Hugging Face model that transformers runs in this process."""

from __future__ import annotations

from typing import Literal

from pydantic import PositiveInt

from trajmill.stages.models.base import ChatModel
from trajmill.stages.models.local.spec import FolderSpec


class TransformersSpec(FolderSpec):
    """A model that transformers runs in this process, on its GPU or without one."""

    kind: Literal["transformers_local"] = "transformers_local"
    """A Hugging Face folder in this process."""
    max_batch: PositiveInt = 16
    """Most samples that are computed at once; memory bounds it."""

    def load(self) -> ChatModel:
        """The model with its weights.

        Raises:
            BadInputError: the folder holds no model that can be loaded here, or the family is not the model's.
        """
        from trajmill.stages.models.transformers_local.model import TransformersModel

        return TransformersModel(self)
