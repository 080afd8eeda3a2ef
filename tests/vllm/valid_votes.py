"""A model whose answers are valid votes whatever it writes, so that no vote is asked for again."""

from __future__ import annotations

import json
from dataclasses import replace

from trajmill.stages.models.base import ChatRequest, Completion
from trajmill.stages.models.wrapped import WrappedModel

VOTE = json.dumps({"reason": "seen", "correct": True, "redundant_steps": [], "first_error_step": None})


class ValidVotesModel(WrappedModel):
    """A `ChatModel` that asks another one for a few tokens and puts a vote in the place of each answer."""

    max_tokens = 16

    async def complete(self, request: ChatRequest) -> Completion:
        """Ask the model."""
        short = replace(request, answer_schema="", max_tokens=self.max_tokens)
        completion = await super().complete(short)
        return completion._replace(text=VOTE, others=(VOTE,) * len(completion.others))
