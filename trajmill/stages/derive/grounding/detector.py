"""Asks an OmniParser server which elements a picture shows, and compares boxes (paper 2.2.2: OmniParser V2).

The server answers `POST /parse/` with `parsed_content_list`: for each element a box as fractions of the picture.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Annotated

import httpx
from pydantic import BaseModel, Field, ValidationError

from trajmill.schemas.errors import ModelFailure
from trajmill.schemas.geometry import Box, Size

_SECONDS = 120.0
_MOST_BOXES = 5000
_Fraction = Annotated[float, Field(ge=-0.01, le=1.01)]


class _Element(BaseModel):
    bbox: tuple[_Fraction, _Fraction, _Fraction, _Fraction]


class _Answer(BaseModel):
    parsed_content_list: Annotated[list[_Element], Field(max_length=_MOST_BOXES)]


class OmniParser:
    """A server of OmniParser."""

    def __init__(self, address: str) -> None:
        """Ask the server at `address`, e.g. `http://127.0.0.1:8000`."""
        self._url = f"{address.rstrip('/')}/parse/"

    async def boxes(self, image: bytes, size: Size) -> list[Box]:
        """The boxes that it finds in a picture, in pixels.

        Raises:
            ModelFailure: it cannot be reached, or does not answer as OmniParser does.
        """
        body = {"base64_image": base64.b64encode(image).decode()}
        try:
            async with httpx.AsyncClient(timeout=_SECONDS) as client:
                answered = await client.post(self._url, json=body)
            answered.raise_for_status()
            found = _Answer.model_validate_json(answered.content).parsed_content_list
        except httpx.HTTPError as error:
            raise ModelFailure(f"detector {self._url}: {type(error).__name__} {error}") from error
        except ValidationError as error:
            raise ModelFailure(f"detector {self._url}: its answer has no parsed_content_list of boxes") from error
        return [_in_pixels(element.bbox, size) for element in found]


def overlap(box: Box, others: Iterable[Box]) -> float:
    """The largest intersection over union of a box with other boxes, 0 without any."""
    return max((_intersection_over_union(box, other) for other in others), default=0.0)


def _intersection_over_union(one: Box, other: Box) -> float:
    shared = Box(
        max(one.left, other.left),
        max(one.top, other.top),
        min(one.right, other.right),
        min(one.bottom, other.bottom),
    ).area
    joined = one.area + other.area - shared
    return shared / joined if joined else 0.0


def _in_pixels(box: tuple[float, float, float, float], size: Size) -> Box:
    left, top, right, bottom = box
    return Box(
        round(left * size.width), round(top * size.height), round(right * size.width), round(bottom * size.height)
    )
