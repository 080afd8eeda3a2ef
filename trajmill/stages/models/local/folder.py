"""Models with a folder of weights: the checks and the version of the folder, their specs, and their base."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Annotated, ClassVar, Final, Generic, Literal, Self, TypeVar

from pydantic import PositiveInt

from trajmill.schemas.coordinates import CoordinateFrame
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.geometry import Size
from trajmill.schemas.spec import OPERATIONAL
from trajmill.stages.models.base import ChatModel
from trajmill.stages.models.spec import ModelSpec

_DECIDING: Final = frozenset({".safetensors", ".json", ".jinja", ".txt", ".model"})
"""Suffixes of files that decide answers: weights, settings, chat template, vocabulary."""


def model_folder(folder: Path) -> Path:
    """Check a folder without loading it. Raises BadInputError if it is none, or has no safetensors weights.

    Pickled weights are never loaded, because they can run code.
    """
    if not (folder / "config.json").is_file():
        raise BadInputError(f"{folder}: no model folder in Hugging Face's layout (config.json is missing)")
    if not any(folder.glob("*.safetensors")):
        raise BadInputError(f"{folder}: no weights in safetensors; convert the model with its save_pretrained")
    return folder


def folder_version(folder: Path) -> str:
    """Return NAME-HASH of a model's folder: equal for equal files in any place. Reads all weights once."""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(path for path in folder.iterdir() if path.suffix in _DECIDING and path.is_file()):
        with path.open("rb") as file:
            digest.update(path.name.encode() + b"\0" + hashlib.file_digest(file, "blake2b").digest())
    return f"{folder.resolve().name}-{digest.hexdigest()}"


class FolderSpec(ModelSpec):
    """A model whose weights are loaded into this process."""

    takes_adapters: ClassVar[bool] = True

    model: Path
    """Folder of the model in Hugging Face's layout."""
    adapter: Path | None = None
    """Folder of a LoRA adapter for these weights, in PEFT's layout."""

    @property
    def version(self) -> str:
        """Version of the folder of the adapter, or else of the model. Raises BadInputError if it has no model."""
        return folder_version(self.adapter or model_folder(self.model))

    @property
    def weights_folder(self) -> Path:
        return self.model

    @property
    def adapter_folder(self) -> Path | None:
        return self.adapter

    def with_version(self, version: str, folder: Path | None, adapter: Path | None = None) -> Self:
        if folder is None:
            raise BadInputError(f"the folder of {version} is not known, and a model in this process needs one")
        return self.model_copy(update={"model": folder, "adapter": adapter})

    @abstractmethod
    def load(self) -> ChatModel: ...

    def connect(self, variables: Mapping[str, str]) -> ChatModel:
        """Return the model; closing it does not unload it, so a later call in this process gets it at once."""
        from trajmill.stages.models.wrapped import KeptLoadedModel

        return KeptLoadedModel(_loaded(type(self), self.model_dump_json()))


@lru_cache(maxsize=2)
def _loaded(spec_class: type[FolderSpec], spec: str) -> ChatModel:
    """Load the model of a spec once, and keep the two models that were asked last.

    A round asks its policy and its critic in turns; the memory of the versions before the policy must become free. The
    spec is passed as text, because a spec with a table has no hash.
    """
    return spec_class.model_validate_json(spec).load()


L = TypeVar("L")


class FolderModel(Generic[L]):
    """The part of a `ChatModel` that does not depend on the library that runs the weights."""

    several_answers = True

    def __init__(self, spec: FolderSpec, load: Callable[[], L]) -> None:
        self.version = spec.version
        self._family = spec.vision_family
        self._load = load
        self._loading = Lock()
        self._held: L | None = load()

    def frame(self, screen: Size) -> CoordinateFrame:
        return self._family.frame(screen)

    def _loaded(self) -> L:
        """Return the weights; load them again if they were freed."""
        with self._loading:
            if self._held is None:
                self._held = self._load()
            return self._held

    def _take_loaded(self) -> L | None:
        """Give up the weights and return them, so that the caller can free them; None if none were loaded."""
        with self._loading:
            held, self._held = self._held, None
            return held


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


class TransformersSpec(FolderSpec):
    """A model that transformers runs in this process, on a GPU or a CPU."""

    kind: Literal["transformers_local"] = "transformers_local"
    """A Hugging Face folder that transformers runs in this process."""
    max_batch: PositiveInt = 16
    """Most samples in one batch; the memory must be large enough."""

    def load(self) -> ChatModel:
        from trajmill.stages.models.transformers_local.model import TransformersModel

        return TransformersModel(self)
