"""The fields of messages: any server that has them can be used with `[environment] kind = "openenv"`."""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
from typing import Annotated, Any, Self

from PIL import Image, UnidentifiedImageError
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator
from pydantic_core import PydanticCustomError

from trajmill.schemas.errors import EnvironmentFailure
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import Observation, ScreenHandle, UIElement

MOST_MESSAGE_BYTES = 100 << 20
"""Longest message that clients accept, as in OpenEnv's own client."""
MOST_REPLY_CHARACTERS = 100_000
_MOST_PIXELS = 64_000_000
_MOST_SCREENSHOT_BYTES = MOST_MESSAGE_BYTES // 2


LogProbability = Annotated[FiniteFloat, Field(ge=-1e30, le=1e-3)]
"""A natural logarithm that a column of 32-bit floats can hold; a rounding error above 0 is allowed."""


class WireAction(BaseModel):
    """One step: exactly one of `reply`, `action` and `stop`, and the model's tokens if they are known."""

    model_config = ConfigDict(extra="forbid")

    reply: str | None = Field(None, description="What the model wrote, in the dialect of its family.")
    action: dict[str, Any] | None = Field(
        None, description='A typed action in pixels of the screenshot, e.g. {"kind": "click", "x": 5, "y": 9}.'
    )
    stop: bool = Field(False, description="End the episode without a step: a limit of the trainer's is reached.")
    input_tokens: int = Field(0, ge=0, le=2**31 - 1, description="Tokens of the prompt.")
    output_tokens: int = Field(0, ge=0, le=2**31 - 1, description="Tokens of the reply.")
    token_ids: list[Annotated[int, Field(ge=0, le=2**31 - 1)]] | None = Field(
        None, description="The tokens of the reply."
    )
    logprobs: list[LogProbability] | None = Field(None, description="Natural logarithms of their probabilities.")

    @model_validator(mode="after")
    def _one_log_probability_a_token(self) -> Self:
        if self.token_ids is not None and self.logprobs is not None and len(self.token_ids) != len(self.logprobs):
            counts = {"logprobs": len(self.logprobs), "tokens": len(self.token_ids)}
            # OpenEnv cannot send the ValueError that other errors of a validator have in their context.
            raise PydanticCustomError("length", "{logprobs} log probabilities for {tokens} tokens", counts)
        return self


class WireElement(BaseModel):
    """One element of the accessibility tree."""

    role: str
    text: str = ""
    bounds: tuple[int, int, int, int] = Field(description="Left, top, right and bottom in pixels.")
    states: list[str] = []
    value: str = ""
    element_id: str = ""


class WireMessage(BaseModel):
    """One message of the prompt for the family's models at this step."""

    role: str
    text: str
    screen_id: str | None = Field(None, description="The screen after the text: this one, or an earlier one.")


class WireScreen(BaseModel):
    """The screen of an environment, and the position in its episode."""

    screenshot: str = Field(description="PNG in base64.")
    screen_id: str = Field("", description="Equal ids show the same; empty where the server has none.")
    elements: list[WireElement] | None = Field(None, description="Accessibility tree, null where there is none.")
    app: str = Field("", description="What is in the foreground.")
    query_id: str = ""
    instruction: str = Field("", description="What the agent is asked to do.")
    platform: str = ""
    step_index: int = Field(0, description="Steps so far.")
    max_steps: int = Field(0, description="Steps after which the episode ends; 0 for no limit.")
    messages: list[WireMessage] = Field([], description="The prompt of the next step.")
    error: str = Field("", description="Why the last reply was no action, or why the episode is void.")
    void: bool = Field(False, description="The episode failed and says nothing about the agent; it has no reward.")


class WireTask(BaseModel):
    """A query in the task list of a server, without start state, goal and path; missing fields get defaults."""

    model_config = ConfigDict(extra="ignore")

    query_id: str
    instruction: str
    platform: str = "web"
    task: str = ""
    apps: list[str] = []
    difficulty: int = 1
    max_steps: int = 20
    split: str = ""
    goal_id: str = Field("", description="Equal for queries with the same goal; empty where the server has none.")


def to_screen(observation: Observation, png: bytes) -> WireScreen:
    """Convert an observation to a message; raises EnvironmentFailure if the screenshot is too large to be sent."""
    if len(png) > _MOST_SCREENSHOT_BYTES:
        raise EnvironmentFailure(f"a screenshot of {len(png):,} bytes; at most {_MOST_SCREENSHOT_BYTES:,} can be sent")
    elements = observation.elements
    return WireScreen(
        screenshot=base64.b64encode(png).decode("ascii"),
        screen_id=observation.screen.screen_id,
        elements=None if elements is None else [WireElement.model_validate(each._asdict()) for each in elements],
        app=observation.app,
    )


def to_observation(screen: WireScreen) -> Observation:
    """Convert a server's message; raises EnvironmentFailure if the screenshot is no image, or too large."""
    png = png_of(screen)
    try:
        with Image.open(io.BytesIO(png)) as image:
            size = Size(*image.size)
    except (UnidentifiedImageError, OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise EnvironmentFailure(f"{len(png)} bytes that are no screenshot") from error
    if size.width * size.height > _MOST_PIXELS:
        raise EnvironmentFailure(f"a screenshot of {size.width} x {size.height} pixels; at most {_MOST_PIXELS:,}")
    elements = None
    if screen.elements is not None:
        elements = tuple(
            UIElement(each.role, each.text, Box(*each.bounds), tuple(each.states), each.value, each.element_id)
            for each in screen.elements
        )
    screen_id = screen.screen_id or hashlib.blake2b(png + repr(elements).encode(), digest_size=12).hexdigest()
    return Observation(ScreenHandle(screen_id, size, lambda: png), elements, screen.app)


def png_of(screen: WireScreen) -> bytes:
    """Decode the screenshot. Raises EnvironmentFailure if it is not base64."""
    try:
        return base64.b64decode(screen.screenshot, validate=True)
    except (binascii.Error, ValueError) as error:
        raise EnvironmentFailure(f"the screenshot is not base64: {error}") from error
