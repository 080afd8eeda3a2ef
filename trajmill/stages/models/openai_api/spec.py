from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, NonNegativeFloat, PositiveFloat, PositiveInt

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.secrets import Secrets
from trajmill.schemas.spec import OPERATIONAL, Spec
from trajmill.stages.models.spec import ModelSpec

if TYPE_CHECKING:
    from trajmill.stages.models.openai_api.model import OpenAiModel


def _server_address(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise ValueError("should be addresses of servers, such as http://gpu-1:8000/v1")
    return url


ServerAddress = Annotated[str, AfterValidator(_server_address)]
"""Base address of a server; refused where the configuration is read, before anything waits for the server."""


class ModelServerSpec(Spec):
    """A vLLM server on this machine, started before the rounds and stopped after them."""

    python: Path
    """Python of the environment of vLLM, which must not be trajmill's own environment."""
    model: str = ""
    """Folder of the weights, or their name on the Hugging Face hub; the endpoint's `model` if empty."""
    port: Annotated[int, Field(ge=1, le=65535)] = 8000
    """Local port. If a healthy server with this model already runs there, it is used, and is not stopped."""
    arguments: tuple[str, ...] = ()
    """Further arguments of `vllm serve`, one word each, e.g. `["--max-model-len", "32768"]`."""
    environment: dict[str, str] = {}
    """Environment variables of the server, beside those of trajmill itself."""
    ready_seconds: PositiveFloat = 600.0
    """Longest silence of its log until it is ready; after it the server counts as hung."""


class OpenAiSpec(ModelSpec):
    """A model on vLLM servers, or on other servers with OpenAI's protocol."""

    gives_tokens: ClassVar[bool] = True
    takes_adapters: ClassVar[bool] = True

    kind: Literal["openai_api"] = "openai_api"
    """vLLM servers or other servers with OpenAI's protocol."""
    model: Annotated[str, Field(min_length=1)]
    """The model's name on its server; each row stores it as the version."""
    urls: Annotated[tuple[ServerAddress, ...], OPERATIONAL] = ()
    """Base addresses of servers with this model, e.g. `http://gpu-1:8000/v1`; requests go to the least busy one."""
    api_key_variable: Annotated[str, OPERATIONAL] = ""
    """Environment variable with the key; if empty, no key is sent."""
    several_answers: Annotated[bool, OPERATIONAL] = True
    """Whether one request may ask for several answers (`n`), as vLLM allows; votes on the same screenshots are then one
    request. Set it to false for servers that refuse this."""
    attempts: Annotated[PositiveInt, OPERATIONAL] = 4
    """How often a request is sent before it counts as failed."""
    connect_seconds: Annotated[PositiveFloat, OPERATIONAL] = 5.0
    """Time limit for a connection."""
    read_seconds: Annotated[PositiveFloat, OPERATIONAL] = 120.0
    """Longest silence of a server. Answers are not streamed, so a server is silent while it generates."""
    total_seconds: Annotated[PositiveFloat, OPERATIONAL] = 300.0
    """Time limit of one attempt, from the connection to the last byte of the answer; waiting in the queue does not
    count."""
    first_wait_seconds: Annotated[PositiveFloat, OPERATIONAL] = 0.5
    """Wait before the second attempt; it is doubled before each further one."""
    longest_wait_seconds: Annotated[PositiveFloat, OPERATIONAL] = 60.0
    """Longest wait between two attempts; a server that requests a longer one (`Retry-After`) fails the call."""
    probe_seconds: Annotated[PositiveFloat, OPERATIONAL] = 10.0
    """Seconds between two health checks of a dead server."""
    input_price: NonNegativeFloat = 0.0
    """Price of a million input tokens."""
    output_price: NonNegativeFloat = 0.0
    """Price of a million output tokens."""
    adapter: Annotated[Path | None, OPERATIONAL] = None
    """Folder of a LoRA adapter that is loaded into the servers before the rounds, under the name `model`."""
    weights: Annotated[Path | None, OPERATIONAL] = None
    """Folder of the weights that its servers serve, for a recipe of `[train]` that trains them. Optional if
    `serve.model` or `model` is that folder."""
    serve: Annotated[ModelServerSpec | None, OPERATIONAL] = None
    """If given, trajmill starts the server itself."""

    @property
    def version(self) -> str:
        return self.model

    @property
    def adapter_folder(self) -> Path | None:
        return self.adapter

    @property
    def weights_folder(self) -> Path | None:
        """Folder of the weights, if one is named and is there."""
        served = self.serve.model if self.serve else ""
        named = (self.weights, Path(served) if served else None, Path(self.model))
        return next((folder for folder in named if folder is not None and (folder / "config.json").is_file()), None)

    def with_version(self, version: str, folder: Path | None, adapter: Path | None = None) -> Self:
        return self.model_copy(update={"model": version})

    @property
    def addresses(self) -> tuple[str, ...]:
        """Base addresses of its servers, including the server that trajmill starts."""
        own = () if self.serve is None else (f"http://127.0.0.1:{self.serve.port}/v1",)
        return (*self.urls, *own)

    def connect(self, variables: Mapping[str, str]) -> OpenAiModel:
        from trajmill.stages.models.openai_api.model import OpenAiModel

        if not self.addresses:
            raise BadInputError(f"no address of a server with model {self.model!r}: name one in urls")
        key = self.api_key(variables)
        return OpenAiModel(self, key, Secrets.of(variables, key, urls=self.addresses))

    def api_key(self, variables: Mapping[str, str]) -> str:
        if not self.api_key_variable:
            return ""
        if self.api_key_variable not in variables:
            address = self.addresses[0]
            raise BadInputError(f"{self.api_key_variable} is not set: export the API key of {address} in it")
        return variables[self.api_key_variable].strip()
