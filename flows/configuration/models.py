"""Which model stands behind which role, and how it is reached."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from trajmill.flows.configuration.tables import KeyPath
from trajmill.schemas.spec import OPERATIONAL, Spec
from trajmill.stages.models.openai_api.spec import ModelServerSpec

EMBEDDED = "embedded"
"""The endpoint that needs no configuration: the policy network, state critics, grammar and line writers of trajmill."""

POLICY_ROLE: KeyPath = ("models", "policy")
"""The role that acts. Which model it is decides no run: a policy changes within one."""

EndpointNames = Annotated[tuple[str, ...], Field(min_length=1)]


class EndpointSection(Spec):
    """A model that roles can be mapped to: `[endpoints.NAME]`."""

    kind: Literal["openai_api", "transformers_local", "vllm_offline"] = "openai_api"
    """`openai_api`: a vLLM server or any other that speaks OpenAI's protocol; `transformers_local`: a Hugging Face
    folder in this process; `vllm_offline`: vLLM in this process, on its GPU."""
    model: Annotated[str, Field(min_length=1)]
    """The model's name on its server, or its folder."""
    urls: Annotated[tuple[str, ...], OPERATIONAL] = ()
    """Base addresses of servers with this model, e.g. `http://gpu-1:8000/v1`; the least busy one is asked."""
    api_key_variable: Annotated[str, OPERATIONAL] = ""
    """Environment variable that holds the key; none is sent if empty."""
    family: Literal["qwen2.5-vl", "qwen3-vl", "gui-owl", "gui-owl-1.5", "ui-tars", "any"] = "any"
    """Decides how a policy is spoken to and read: system message, layout of the messages, names of actions, sizes of
    images, coordinates (see models.md); `any`: as the embedded policy, with images as they are."""
    max_pixels: PositiveInt = 3_211_264
    """Most pixels of an image as it is sent."""
    context_tokens: Annotated[int, Field(ge=4096)] = 32_000
    """Longest request with its answer that the model takes. Critics are shown as much of a trajectory as three quarters
    of it hold, and are told what was left out."""
    max_images: Annotated[int, Field(ge=2)] = 24
    """Most images in one request: as many as the server allows, e.g. by vLLM's `--limit-mm-per-prompt`."""
    max_in_flight: Annotated[PositiveInt, OPERATIONAL] = 64
    """Most requests under way at once; fewer when a server says that it is busy."""
    attempts: Annotated[PositiveInt, OPERATIONAL] = 4
    """How often a request is sent before it counts as failed."""
    connect_seconds: Annotated[PositiveFloat, OPERATIONAL] = 5.0
    """Time limit for a connection."""
    read_seconds: Annotated[PositiveFloat, OPERATIONAL] = 120.0
    """Longest silence of a server."""
    total_seconds: Annotated[PositiveFloat, OPERATIONAL] = 300.0
    """Time limit of one attempt, from the connection to the last byte of the answer."""
    input_price: NonNegativeFloat = 0.0
    """Price of a million input tokens."""
    output_price: NonNegativeFloat = 0.0
    """Price of a million output tokens."""
    cache: Annotated[bool, OPERATIONAL] = True
    """Whether answers are kept and found again by the request; those of a sampled policy never are."""
    adapter: Annotated[Path | None, OPERATIONAL] = None
    """Folder of a LoRA adapter that is loaded into the servers before the rounds, under the name `model`."""
    engine: Annotated[dict[str, bool | int | float | str], OPERATIONAL] = {}
    """Engine arguments of `vllm_offline` by their Python names, e.g. `{ tensor_parallel_size = 2 }`."""
    serve: Annotated[ModelServerSpec | None, OPERATIONAL] = None
    """Lets trajmill start the server itself."""

    @property
    def addresses(self) -> tuple[str, ...]:
        """Base addresses of its servers, that of the one which trajmill starts included."""
        own = () if self.serve is None else (f"http://127.0.0.1:{self.serve.port}/v1",)
        return (*self.urls, *own)


class CriticRoles(Spec):
    """The models that judge."""

    step: str = EMBEDDED
    """Judges each step."""
    text: EndpointNames = (EMBEDDED,)
    """Vote in the text channel; several are an ensemble."""
    multimodal: EndpointNames = (EMBEDDED,)
    """Vote in the multimodal channel; several are an ensemble."""


class PromptsSection(Spec):
    """Prompt files of your own, in place of those that come with trajmill (see models.md)."""

    critic_step: Path | None = None
    """For `models.critic.step`."""
    critic_text: Path | None = None
    """For `models.critic.text`."""
    critic_multimodal: Path | None = None
    """For `models.critic.multimodal`."""
    describer_screen: Path | None = None
    """For captions of screens without an accessibility tree, by `models.describer`."""
    describer_step: Path | None = None
    """For what came of a step, which guidance is written from, by `models.describer`."""
    writer_guidance: Path | None = None
    """For guidance."""
    writer_synthesise: Path | None = None
    """For the explicit instruction that leads along a path."""
    writer_refine: tuple[Path, ...] = ()
    """For what a person would say instead, in training: a file for each manner, none of which may ask a question."""
    writer_refine_heldout: tuple[Path, ...] = ()
    """The same for the manners that training never sees: questions."""
    writer_curriculum: Path | None = None
    """For tasks proposed from the success so far."""
    writer_screen: Path | None = None
    """For tasks proposed from a start screen."""
    writer_selection: Path | None = None
    """For `pathways.second_opinion`."""


class ModelsSection(Spec):
    """The endpoint behind each role: `embedded`, or the NAME of an `[endpoints.NAME]`."""

    policy: str = EMBEDDED
    """Acts."""
    writer: str = EMBEDDED
    """Writes instructions and guidance."""
    describer: str = EMBEDDED
    """Describes for guidance what came of a step."""
    critic: CriticRoles = CriticRoles()

    def roles(self) -> Iterator[tuple[KeyPath, str]]:
        """Each role as the keys that lead to it, with the name of its endpoint; an ensemble has several."""
        yield POLICY_ROLE, self.policy
        yield ("models", "writer"), self.writer
        yield ("models", "describer"), self.describer
        yield ("models", "critic", "step"), self.critic.step
        for channel in ("text", "multimodal"):
            for name in getattr(self.critic, channel):
                yield ("models", "critic", channel), name
