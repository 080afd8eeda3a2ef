"""Random over what is on screen, with a prior on words shared with the instruction: the loop's starting point."""

from __future__ import annotations

from trajmill.schemas.tables.query import Platform
from trajmill.stages.agents.end_to_end import EndToEndAgent
from trajmill.stages.models.base import ChatModel


def explorer_agent(model: ChatModel, platform: Platform) -> EndToEndAgent:
    """The explorer of a platform.

    `model` is an untrained `EmbeddedModel`: before its first update its distribution over actions *is* the exploration
    policy. It is handed in so that all explorers of a worker share one model, and their requests one batch.
    """
    return EndToEndAgent(model, platform, temperature=1.0, role="explorer", name="explorer")
