"""Finds the elements of a picture with an OmniParser server (paper 2.2.2: OmniParser V2).

The server answers `POST /parse/` with `parsed_content_list`: for each element a box as fractions of the picture.
"""

from __future__ import annotations

import base64
from typing import Annotated

import aiohttp
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


async def detected_boxes(address: str, image: bytes, size: Size) -> list[Box]:
    """Return the boxes that a server finds in a picture, in pixels. Raises ModelFailure for no or another answer."""
    url = f"{address.rstrip('/')}/parse/"
    try:
        limit = aiohttp.ClientTimeout(_SECONDS)
        async with aiohttp.ClientSession(timeout=limit, raise_for_status=True, trust_env=True) as client:
            picture = {"base64_image": base64.b64encode(image).decode()}
            async with client.post(url, json=picture, allow_redirects=False) as answered:
                found = _Answer.model_validate_json(await answered.read()).parsed_content_list
    except (aiohttp.ClientError, TimeoutError) as error:
        raise ModelFailure(f"detector {url}: {type(error).__name__} {error}") from error
    except ValidationError as error:
        raise ModelFailure(f"detector {url}: its answer has no parsed_content_list of boxes") from error
    scale = (size.width, size.height, size.width, size.height)
    return [Box(*(round(edge * side) for edge, side in zip(each.bbox, scale, strict=True))) for each in found]
