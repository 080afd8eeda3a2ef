"""What critics ask models."""

from __future__ import annotations

from tests.stages.critics.phone import PhoneWalk
from trajmill.schemas.observation import ScreenHandle
from trajmill.stages.models.base import ChatRequest


def words(request: ChatRequest) -> str:
    return "\n".join(part for message in request.messages for part in message.parts if isinstance(part, str))


def pictures(request: ChatRequest) -> list[ScreenHandle]:
    return [part for part in request.messages[1].parts if isinstance(part, ScreenHandle)]


def hidden_from_critics(walk: PhoneWalk) -> list[str]:
    """What no critic may know of the task, because only the environment or a person does."""
    query, steps = walk.episode.query, walk.episode.steps
    texts = [query.goal, query.start_state, query.task, query.query_id, query.phrasing, *query.page_descriptions]
    texts += [step.target for step in query.path if "/" in step.target]
    texts += [text for step in steps for text in (step.thought, step.conclusion)]
    return [text for text in (*texts, "reward", walk.episode.trajectory.trajectory_id) if text not in ("", "{}")]
