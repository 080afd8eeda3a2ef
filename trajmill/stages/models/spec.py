"""The base of the specs of models, their kinds, and the endpoints that roles name."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Final, Self

from pydantic import Field, PositiveInt

from trajmill.schemas.coordinates import CoordinateFrame
from trajmill.schemas.dialects.families import Family, family_named
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.geometry import Size
from trajmill.schemas.names import known_by
from trajmill.schemas.record import Origin
from trajmill.schemas.spec import OPERATIONAL, Spec
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.stages.models.base import ChatModel, ContextBudget
from trajmill.stages.parts import PartGroup

MODELS: Final = PartGroup(
    "trajmill.models",
    "model",
    {
        "openai_api": "trajmill.stages.models.openai_api.spec:OpenAiSpec",
        "embedded": "trajmill.stages.models.embedded.spec:EmbeddedSpec",
        "transformers_local": "trajmill.stages.models.local.folder:TransformersSpec",
        "vllm_offline": "trajmill.stages.models.local.folder:VllmSpec",
    },
)


class ModelSpec(Spec):
    """A model that roles can use: `[endpoints.NAME]`."""

    gives_tokens: ClassVar[bool] = False
    """Whether it can be asked for the tokens of its replies and their log probabilities."""

    takes_adapters: ClassVar[bool] = False
    """Whether it can act with a LoRA adapter on its weights."""

    kind: str
    """The kind of model."""
    family: Annotated[str, known_by(family_named)] = "any"
    """`qwen2.5-vl`, `qwen3-vl`, `gui-owl`, `gui-owl-1.5`, `ui-tars`, `gui-r1` or `any`. It decides how a policy is
    prompted and parsed: system message, message layout, action names, image sizes, coordinates (see models.md). `any`
    prompts like the embedded policy, with images at their stored size."""
    max_pixels: PositiveInt = 3_211_264
    """Largest number of pixels of an image in a request."""
    screens: Annotated[int, Field(ge=1, le=16)] | None = None
    """Screens in the prompt of a policy: the current one, and the latest before it with the replies to them. By default
    as many as the family is published with; GUI-Owl is served with 1 to 3."""
    context_tokens: Annotated[int, Field(ge=4096)] = 32_000
    """Length of the model's context in tokens, for a request and its answer. A critic fills at most three quarters of
    it with a trajectory, and names what was left out."""
    max_images: Annotated[int, Field(ge=2)] = 24
    """Largest number of images in one request; the server must allow as many, e.g. with vLLM's
    `--limit-mm-per-prompt`."""
    max_in_flight: Annotated[PositiveInt, OPERATIONAL] = 64
    """Largest number of concurrent requests; lowered while a server is busy."""
    cache: Annotated[bool, OPERATIONAL] = True
    """Whether answers are cached by their request; answers of a sampled policy are never cached."""

    @property
    @abstractmethod
    def version(self) -> str: ...

    @property
    def adapter_folder(self) -> Path | None:
        return None

    @property
    def weights_folder(self) -> Path | None:
        """Folder of its weights where it is known, so that a recipe can train them."""
        return None

    def with_version(self, version: str, folder: Path | None, adapter: Path | None = None) -> Self:
        """Return the same endpoint with another version of its model. Raises BadInputError if it cannot be exchanged.

        `version` is its name on a server; `folder`, where known, that of its weights, `adapter` that of a LoRA on them.
        """
        raise BadInputError(f"a model of kind {self.kind!r} cannot be exchanged for {version}")

    @property
    def vision_family(self) -> Family:
        """The family, with images of at most `max_pixels` pixels and `screens` of them."""
        return family_named(self.family).within(self.max_pixels).showing(self.screens)

    @property
    def context_budget(self) -> ContextBudget:
        """How much a critic may show the model: three quarters of the context, as estimates err and answers follow."""
        return ContextBudget(screens=self.max_images, tokens=self.context_tokens * 3 // 4)

    def frame(self, screen: Size) -> CoordinateFrame:
        return self.vision_family.frame(screen)

    @abstractmethod
    def connect(self, variables: Mapping[str, str]) -> ChatModel:
        """Connect to the model, or load it. Raises BadInputError without its key's variable, or if it cannot load."""


@dataclass(frozen=True)
class Endpoint:
    spec: ModelSpec
    request_cache: Path | None = None
    version: str = ""
    """The version that rows of its answers store; the model's own if empty."""

    def open(self, origin: Origin | None = None, sink: Callable[[ModelCall], None] | None = None) -> ChatModel:
        """Return the model with its own version if `sink` gets a row for each call, else with that of the endpoint.

        Raises BadInputError without its key or its weights, or if the folder is no cache.
        """
        from trajmill.stages.models.wrapped import AccountedModel, CachedModel, WrappedModel

        model, version = self.spec.connect(os.environ), "" if sink else self.version
        if self.spec.cache and self.request_cache is not None:
            model = CachedModel(model, self.request_cache, version)
        elif version:
            model = WrappedModel(model, version)
        return AccountedModel(model, origin, sink) if origin and sink else model


class OpenEndpoints(AsyncExitStack):
    """Opens each endpoint once, and closes all endpoints at the end; with `sink`, it gets a row for each call."""

    def __init__(self, origin: Origin | None = None, sink: Callable[[ModelCall], None] | None = None) -> None:
        super().__init__()
        self._origin, self._sink = origin, sink
        self._open: list[tuple[Endpoint, ChatModel]] = []

    def model(self, endpoint: Endpoint) -> ChatModel:
        for other, model in self._open:
            if other == endpoint:
                return model
        model = endpoint.open(self._origin, self._sink)
        self._open.append((endpoint, model))
        self.push_async_callback(model.close)
        return model
