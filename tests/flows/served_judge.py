"""A small run whose first round was judged by the embedded critics, and judges behind a real server beside it."""

import json
from pathlib import Path
from typing import Any

from tests.flows.small_run import small_config
from trajmill.flows.configuration.config import Config, EvaluateSection, NamedJudgeSection, QueriesSection
from trajmill.stages.models.openai_api.spec import OpenAiSpec

_ANSWERS = {"analysis": "it moved", "summary": "moved on", "label": "GOOD", "reason": "looks done"}


def config_with_judges(root: Path, url: str, **big: object) -> Config:
    """The small run, with the judges `big` (two models, two resolutions) and `plain` (the embedded critics)."""
    voting = {"votes": 2, "resolutions": (0.25, 0.5), "tries": 1, "text": ("tiny",), "multimodal": ("tiny", "other")}
    return tiny_config(root).model_copy(
        update={
            "endpoints": {
                name: OpenAiSpec(model=name, urls=(url,), attempts=1, max_pixels=50_000) for name in ("tiny", "other")
            },
            "judges": {"big": NamedJudgeSection.model_validate(voting | big), "plain": NamedJudgeSection()},
        }
    )


def tiny_config(root: Path, episodes: int = 8) -> Config:
    """A run whose rounds have few episodes."""
    base = small_config(root)
    return base.model_copy(
        update={
            "queries": QueriesSection(train=8, heldout_slots=1, heldout_phrasings=1, heldout_apps=0, validation=0),
            "rollout": base.rollout.model_copy(update={"episodes_per_round": episodes}),
            "evaluate": EvaluateSection(episodes=1, train_sample=1),
        }
    )


def opinion(body: dict[str, Any]) -> str:
    """A valid answer to any critic's question: `tiny` finds everything correct, `other` what has an even length."""
    fields = body["response_format"]["json_schema"]["schema"]["properties"]
    correct = body["model"] == "tiny" or len(json.dumps(body["messages"])) % 2 == 0
    answers: dict[str, object] = _ANSWERS | {"correct": correct, "redundant_steps": [], "first_error_step": None}
    return json.dumps({name: answers[name] for name in fields})
