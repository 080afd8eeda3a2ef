"""What a client of an OpenAI-compatible server needs to know."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, SecretStr

from trajmill.schemas.coordinates import CoordinateSpace
from trajmill.schemas.pixel_budget import ANY_SIZE, PixelBudget
from trajmill.schemas.record import Record


class ApiSettings(Record):
    """Servers that serve one model, and the bounds of a call."""

    urls: tuple[Annotated[str, Field(pattern=r"^https?://\S+$")], ...] = Field(min_length=1)
    """Base URLs up to and including `/v1`; all serve the same weights."""
    model: str = Field(min_length=1)
    """Name by which the servers know the model; it stands as its version on each row."""
    api_key: SecretStr = SecretStr("")
    """Sent as a bearer token; empty for a server that asks for none."""
    budget: PixelBudget = ANY_SIZE
    """Sizes of pictures that the model takes."""
    space: CoordinateSpace = CoordinateSpace.RESIZED_PIXELS
    """How the model writes a position on the screen."""
    max_in_flight: int = Field(default=64, gt=0)
    """Most requests at one server at a time; fewer for a while after it said that it is busy."""
    connect_seconds: float = Field(default=10.0, gt=0)
    """Until a server accepts the connection."""
    read_seconds: float = Field(default=300.0, gt=0)
    """Longest silence. Answers are not streamed, so that a server is silent for as long as it generates."""
    total_seconds: float = Field(default=600.0, gt=0)
    """Of one attempt, from the connection to the last byte of the answer; waiting for a turn does not count."""
    attempts: int = Field(default=5, gt=0)
    """Requests at most for one call, the first included."""
    first_wait_seconds: float = Field(default=0.5, gt=0)
    """Before the second attempt, and doubled before each further one."""
    longest_wait_seconds: float = Field(default=60.0, gt=0)
    """Bound of a wait; a server that asks for a longer one (`Retry-After`) fails the call."""
    probe_seconds: float = Field(default=10.0, gt=0)
    """How long a dead server is left alone before it is asked whether it is back."""
    input_price: float = Field(default=0.0, ge=0)
    """Of a million prompt tokens, in the currency of the configuration."""
    output_price: float = Field(default=0.0, ge=0)
    """Of a million generated tokens."""
