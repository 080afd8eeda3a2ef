"""Converts completions to JSON and back, for the request cache."""

from __future__ import annotations

import json
from typing import Final

from pydantic import TypeAdapter

from trajmill.stages.models.base import MOST_TOKENS, Completion

_COMPLETION: Final = TypeAdapter(Completion)


def completion_to_json(completion: Completion) -> str:
    """Compact ASCII JSON: an array in the order of the completion's fields."""
    return json.dumps(completion, separators=(",", ":"))


def completion_from_json(text: str) -> Completion:
    """The completion that `completion_to_json` wrote. Raises ValueError for another text."""
    try:
        completion = _COMPLETION.validate_python(json.loads(text))
    except RecursionError:
        raise ValueError("nested too deeply") from None
    for count in (completion.input_tokens, completion.output_tokens):
        if not 0 <= count <= MOST_TOKENS:
            raise ValueError(f"{count} is no number of tokens")
    return completion
