"""Completions as plain JSON, as the request cache keeps them."""

from __future__ import annotations

import json
from typing import Final

from pydantic import TypeAdapter

from trajmill.stages.models.base import Completion

_COMPLETION: Final = TypeAdapter(Completion)


def completion_to_json(completion: Completion) -> str:
    """Compact ASCII JSON: an array in the order of the completion's fields."""
    return json.dumps(completion, separators=(",", ":"))


def completion_from_json(text: str) -> Completion:
    """What `completion_to_json` was given. Raises ValueError for anything else."""
    try:
        return _COMPLETION.validate_python(json.loads(text))
    except RecursionError:
        raise ValueError("nested too deeply") from None
