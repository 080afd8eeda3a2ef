"""The spec of a Hugging Face model that transformers runs in this process."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import PositiveInt

from trajmill.stages.models.base import ChatModel
from trajmill.stages.models.local.folder import folder_version
from trajmill.stages.models.local.spec import FolderSpec


class TransformersSpec(FolderSpec):
    """A model that transformers runs in this process, on a GPU or a CPU."""

    takes_adapters: ClassVar[bool] = True

    kind: Literal["transformers_local"] = "transformers_local"
    """A Hugging Face folder that transformers runs in this process."""
    max_batch: PositiveInt = 16
    """Most samples in one batch; the memory must be large enough."""
    adapter: Path | None = None
    """Folder of a LoRA adapter for these weights, in PEFT's layout."""

    @property
    def version(self) -> str:
        """Name of the folder of the adapter, or of the model without one, and a hash of its contents."""
        return super().version if self.adapter is None else folder_version(self.adapter)

    @property
    def adapter_folder(self) -> Path | None:
        """Folder of the LoRA adapter, None without one."""
        return self.adapter

    def with_version(self, version: str, folder: Path | None, adapter: Path | None = None) -> Self:
        """The same endpoint with other weights, or with another adapter on them.

        Raises:
            BadInputError: no folder is known.
        """
        return super().with_version(version, folder).model_copy(update={"adapter": adapter})

    def load(self) -> ChatModel:
        """Load the model.

        Raises:
            BadInputError: the folder holds no model that can be loaded here, or the family is not the model's.
        """
        from trajmill.stages.models.transformers_local.model import TransformersModel

        return TransformersModel(self)
