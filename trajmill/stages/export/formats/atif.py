"""The format `atif`: a trial folder of Harbor for each attempt, with one document of ATIF v1.8."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from trajmill.schemas.actions import action_from_json
from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import ScreenReader, UIElement
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.trajectory import Step
from trajmill.stages.export.formats import atif_document as atif
from trajmill.stages.export.formats.computer_action import tool_definitions, tool_use
from trajmill.stages.export.formats.exchange import ExchangeFormat, context_steps, facts_of, reward_of, screens_of
from trajmill.stages.export.formats.folder import image_ending
from trajmill.stages.export.images import ReleaseScreenReader

DOCUMENT: Final = "agent/trajectory.json"
REWARD: Final = "verifier/reward.json"
_IMAGES: Final = "images"
_MEDIA_TYPES: Final = {"jpg": "image/jpeg", "webp": "image/webp", "gif": "image/gif"}


class AtifFormat(ExchangeFormat):
    contents: ClassVar[str] = (
        f"Each folder is a trial in the layout of Harbor: `{DOCUMENT}` (ATIF v1.8), pictures in `agent/{_IMAGES}/`, "
        f"and `{REWARD}`. What ATIF has no field for is in `extra.trajmill`. Steps with `is_copied_context` are "
        "context: do not train on them. `trajmill import atif FOLDER` reads the folder again."
    )
    kind: Literal["atif"] = "atif"
    """Trials of Harbor with documents of ATIF v1.8."""

    def write(self, folder: Path, attempts: Sequence[Episode], screens: ReleaseScreenReader) -> None:
        homes: dict[str, list[Path]] = defaultdict(list)
        for attempt in attempts:
            images = folder / attempt.trajectory.trajectory_id / "agent" / _IMAGES
            images.mkdir(parents=True)
            for screen_id in set(screens_of(attempt)):
                homes[screen_id].append(images)
        names: dict[str, str] = {}
        for screen_id, data in screens.images(homes):
            names[screen_id] = f"{screen_id}.{image_ending(data)}"
            for images in homes[screen_id]:
                (images / names[screen_id]).write_bytes(data)
        for attempt in attempts:
            trial = folder / attempt.trajectory.trajectory_id
            document = atif_document(attempt, names, screens)
            (trial / DOCUMENT).write_text(document.model_dump_json(exclude_none=True), encoding="utf-8")
            if (reward := reward_of(attempt)) is not None:
                (trial / REWARD).parent.mkdir()
                (trial / REWARD).write_text(json.dumps({"reward": reward}), encoding="utf-8")


def atif_document(episode: Episode, names: Mapping[str, str], screens: ScreenReader) -> atif.AtifDocument:
    """Return the document of an attempt; `names` are the files of its screens."""
    trajectory, steps, seen = episode.trajectory, episode.steps, set[str]()

    def shown(screen_id: str, app: str) -> tuple[atif.Part, Mapping[str, Any]]:
        """Return the picture of a screen, and its facts; the tree stands where the screen is shown first."""
        media_type = _MEDIA_TYPES.get(names[screen_id].rpartition(".")[2], "image/png")
        picture = atif.Source(media_type=media_type, path=f"{_IMAGES}/{names[screen_id]}")
        tree = [] if screen_id in seen else [_element(each) for each in screens.elements(screen_id)]
        seen.add(screen_id)
        return atif.Part(type="image", source=picture), _ours(screen=screen_id, **_filled(app=app, tree=tree))

    instruction = atif.Part(type="text", text=episode.query.instruction)
    first = shown(steps[0].screen_before, steps[0].app_before) if steps else None
    asked = (instruction, first[0]) if first else (instruction,)
    turns = [atif.Turn(step_id=1, source="user", message=asked, extra=first and first[1])]
    context, labels = context_steps(episode), {each.index: each.label.value for each in episode.step_verdicts}
    for step in steps:
        picture, facts = shown(step.screen_after, step.app_after)
        requests = [call for call in episode.calls if call.step_index == step.index]
        marks = _filled(label=labels.get(step.index), guided=step.guided, role_outputs=json.loads(step.role_outputs))
        marks["raw_response"] = step.raw_response
        turn = _acted(step, requests, atif.Result(content=(picture,), extra=facts), _ours(**marks))
        turns.append(turn.model_copy(update={"is_copied_context": step.index in context or None}))
    totals = {"prompt": trajectory.input_tokens, "completion": trajectory.output_tokens}
    return atif.AtifDocument(
        schema_version=atif.VERSION,
        session_id=trajectory.run_id,
        trajectory_id=trajectory.trajectory_id,
        agent={
            "name": trajectory.agent,
            "version": trajectory.code_version,
            "model_name": trajectory.model_version,
            "tool_definitions": tool_definitions(),
        },
        steps=tuple(turns),
        final_metrics={f"total_{name}_tokens": count for name, count in totals.items()} | {"total_steps": len(turns)},
        extra=_ours(**facts_of(episode)),
    )


def _acted(step: Step, requests: Sequence[ModelCall], result: atif.Result, extra: Mapping[str, Any]) -> atif.Turn:
    use = tool_use(action_from_json(step.action)) if step.action is not None else None
    call_id = f"call_{step.index + 1}" if use else None
    calls = (atif.ToolCall(tool_call_id=call_id, function_name=use.name, arguments=use.arguments),) if use else None
    return atif.Turn(
        step_id=step.index + 2,
        source="agent",
        message=step.conclusion,
        model_name=step.policy_version,
        reasoning_content=step.thought or None,
        tool_calls=calls,
        observation=atif.StepObservation(results=(result.model_copy(update={"source_call_id": call_id}),)),
        metrics=_metrics(step, requests),
        llm_call_count=len(requests) or None,
        extra=extra,
    )


def _metrics(step: Step, requests: Sequence[ModelCall]) -> Mapping[str, Any] | None:
    tokens = {"completion_token_ids": step.reply_token_ids, "logprobs": step.reply_logprobs}
    used = {"completion_tokens": len(step.reply_token_ids or ())}
    if requests:
        sums = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens", "price": "price"}
        used = {name: sum(getattr(call, field) for call in requests) for name, field in sums.items()}
    price = used.pop("price", 0)
    return _filled(**used, **tokens, extra=price and _ours(price=price)) or None


def _element(element: UIElement) -> Mapping[str, Any]:
    kept = {"role": element.role, "text": element.text, "bounds": tuple(element.bounds)}
    return {**kept, **_filled(states=element.states, value=element.value, element_id=element.element_id)}


def _filled(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value}


def _ours(**values: Any) -> Mapping[str, Any]:
    return {atif.NAMESPACE: values}
