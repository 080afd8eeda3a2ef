"""The format `adp`: one line a trajectory of the Agent Data Protocol 1.2."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from trajmill.schemas.actions import action_from_json
from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import ScreenReader, UIElement
from trajmill.stages.export.formats.base import DATA_FOLDER
from trajmill.stages.export.formats.computer_action import COMPUTER_ACTION, TASK_COMPLETE, tool_use
from trajmill.stages.export.formats.exchange import ExchangeFormat, context_steps, facts_of, reward_of, screens_of
from trajmill.stages.export.formats.folder import write_images
from trajmill.stages.export.images import ReleaseScreenReader

_VERSION: Final = "1.2.0"
_FILE: Final = f"{DATA_FOLDER}/trajectories.jsonl"


class AdpFormat(ExchangeFormat):
    contents: ClassVar[str] = (
        f"`{_FILE}` has one trajectory a line, in the standardized schema {_VERSION} of the Agent Data Protocol. "
        "Pictures are paths in this folder, their annotations the accessibility tree. `details` has what the schema "
        "has no field for; do not train on the steps in `details.context_steps`."
    )
    kind: Literal["adp"] = "adp"
    """Lines of the Agent Data Protocol 1.2."""

    def write(self, folder: Path, attempts: Sequence[Episode], screens: ReleaseScreenReader) -> None:
        (folder / DATA_FOLDER).mkdir(exist_ok=True)
        paths = write_images(folder, {screen_id for each in attempts for screen_id in screens_of(each)}, screens)
        with (folder / _FILE).open("a", encoding="utf-8") as file:
            for attempt in attempts:
                file.write(json.dumps(adp_trajectory(attempt, paths, screens), ensure_ascii=False) + "\n")


def adp_trajectory(episode: Episode, paths: Mapping[str, str], screens: ScreenReader) -> Mapping[str, Any]:
    """Return the trajectory of an attempt; `paths` are the files of its screens."""

    def picture(screen_id: str) -> dict[str, Any]:
        tree = [_annotation(element) for element in screens.elements(screen_id)]
        return {"class_": "image_observation", "content": paths[screen_id], "source": "environment"} | (
            {"annotations": tree} if tree else {}
        )

    content = [{"class_": "text_observation", "content": episode.query.instruction, "source": "user"}]
    content += [picture(step.screen_before) for step in episode.steps[:1]]
    for step in episode.steps:
        said, linked = {"reasoning_content": step.thought, "description": step.conclusion}, dict[str, Any]()
        if step.action is None:
            acted: dict[str, Any] = {"class_": "message_action", "content": step.raw_response}
        else:
            use, linked = tool_use(action_from_json(step.action)), {"tool_call_id": f"call_{step.index + 1:06d}"}
            acted = {"class_": "api_action", "function": use.name, "kwargs": use.arguments, **linked}
        if step is episode.steps[-1] and (reward := reward_of(episode)) is not None:
            acted["reward"] = reward
        content += [{**acted, **{name: text for name, text in said.items() if text}}]
        content += [{**picture(step.screen_after), **linked}]
    facts = {**facts_of(episode), "agent": episode.trajectory.agent, "context_steps": sorted(context_steps(episode))}
    return {
        "schema_version": _VERSION,
        "id": episode.trajectory.trajectory_id,
        "content": content,
        "available_custom_tools": [COMPUTER_ACTION, TASK_COMPLETE],
        "details": facts,
    }


def _annotation(element: UIElement) -> Mapping[str, Any]:
    left, top, right, bottom = element.bounds
    box = {"x": left, "y": top, "width": right - left, "height": bottom - top}
    named = {"element_type": element.role, "text": element.text or element.value, "bounding_box": box}
    return {**named, "clickable": element.clickable, "editable": "editable" in element.states}
