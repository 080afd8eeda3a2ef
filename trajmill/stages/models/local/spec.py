"""The base of the specs of models with a folder of weights."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import ClassVar, Self

from trajmill.schemas.errors import BadInputError
from trajmill.stages.models.base import ChatModel
from trajmill.stages.models.local.folder import folder_version, model_folder
from trajmill.stages.models.spec import ModelSpec


class FolderSpec(ModelSpec):
    """A model whose weights are loaded into this process."""

    takes_adapters: ClassVar[bool] = True

    model: Path
    """Folder of the model in Hugging Face's layout."""
    adapter: Path | None = None
    """Folder of a LoRA adapter for these weights, in PEFT's layout."""

    @property
    def version(self) -> str:
        """Name of the folder of the adapter, or of the model without one, and a hash of its contents.

        Reads all its weights once.

        Raises:
            BadInputError: there is no model in the folder.
        """
        return folder_version(self.adapter or model_folder(self.model))

    @property
    def weights_folder(self) -> Path:
        """Folder of the model."""
        return self.model

    @property
    def adapter_folder(self) -> Path | None:
        """Folder of the LoRA adapter, None without one."""
        return self.adapter

    def with_version(self, version: str, folder: Path | None, adapter: Path | None = None) -> Self:
        """The same endpoint with other weights, or with another adapter on them.

        Raises:
            BadInputError: no folder is known.
        """
        if folder is None:
            raise BadInputError(f"the folder of {version} is not known, and a model in this process needs one")
        return self.model_copy(update={"model": folder, "adapter": adapter})

    @abstractmethod
    def load(self) -> ChatModel:
        """Load the model.

        Raises:
            BadInputError: the folder holds no model that can be loaded here.
        """

    def connect(self, variables: Mapping[str, str]) -> ChatModel:
        """The model; closing it does not unload it, so a later call in this process gets it at once."""
        from trajmill.stages.models.wrapped.kept_loaded import KeptLoadedModel

        return KeptLoadedModel(_loaded(type(self), self.model_dump_json()))


@lru_cache(maxsize=2)
def _loaded(spec_class: type[FolderSpec], spec: str) -> ChatModel:
    """Load the model of a spec once, and keep the two models that were asked last.

    A round asks its policy and its critic in turns; the memory of the versions before the policy must become free. The
    spec is passed as text, because a spec with a table has no hash.
    """
    return spec_class.model_validate_json(spec).load()
