"""Formats that exchange whole attempts: each is a function from an episode to a document, with pictures beside it.

They are the Agent Data Protocol (`adp`) and ATIF, in the layout of Harbor's trials (`atif`).
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from trajmill.schemas.actions import action_from_json
from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import ScreenReader, UIElement
from trajmill.schemas.spec import Spec
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.trajectory import Step
from trajmill.stages.export.card import front_matter
from trajmill.stages.export.formats import atif_document as atif
from trajmill.stages.export.formats.atif_document import COMPUTER_ACTION, TASK_COMPLETE, tool_definitions, tool_use
from trajmill.stages.export.formats.base import DATA_FOLDER
from trajmill.stages.export.formats.card import ExportedRelease
from trajmill.stages.export.formats.folder import FIGURES_FILE, image_ending, write_images
from trajmill.stages.export.images import ReleaseScreenReader
from trajmill.stages.guidance.strip import quotes_guidance
from trajmill.stages.parts import PartGroup

EXCHANGES: Final = PartGroup(
    "trajmill.exchanges",
    "exchange format",
    {
        "atif": "trajmill.stages.export.formats.exchange:AtifFormat",
        "adp": "trajmill.stages.export.formats.exchange:AdpFormat",
    },
)
_AT_ONCE = 32
"""Attempts whose pictures are read from the store together."""


class ExchangeFormat(Spec):
    """Base class of formats whose documents are attempts, in pixels of the stored screens and without a family."""

    contents: ClassVar[str]
    """What the folder holds, in Markdown."""
    kind: str

    @abstractmethod
    def write(self, folder: Path, attempts: Sequence[Episode], screens: ReleaseScreenReader) -> None:
        """Add the documents of some attempts, with verdicts, guidance and calls, and their pictures to a folder."""


def write_exchange(
    folder: Path,
    form: ExchangeFormat,
    source: ExportedRelease,
    attempts: Iterable[Episode],
    screens: ReleaseScreenReader,
) -> int:
    """Write all attempts, card and figures into an empty folder, and count them; memory holds some of them at once."""
    count, remaining = 0, iter(attempts)
    while some := list(islice(remaining, _AT_ONCE)):
        form.write(folder, some, screens)
        count += len(some)
    front = front_matter(f"{source.release} as {form.kind}", source.licence, {})
    title = f"# {source.release} as {form.kind}: {count:,} attempts"
    (folder / "README.md").write_text(f"{front}\n\n{title}\n\n{form.contents}\n", encoding="utf-8")
    figures = {**source._asdict(), "format": form.kind, "attempts": count}
    (folder / FIGURES_FILE).write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return count


def reward_of(episode: Episode) -> float | None:
    """Return the programmatic reward; without a check, 1 or 0 by the judge; None if it was not judged either."""
    given = episode.trajectory.reward
    return episode.judged_reward if given is None else given


def screens_of(episode: Episode) -> Iterator[str]:
    """Yield the id of the first screen, and of the screen after each step."""
    yield from (step.screen_before for step in episode.steps[:1])
    yield from (step.screen_after for step in episode.steps)


def context_steps(episode: Episode) -> frozenset[int]:
    """Return the steps that must not be learned.

    They are a parent's, were not prompted, repeat a hint, or are HARMFUL in a success.
    """
    left_out = episode.harmful if episode.judged_reward else set()
    return frozenset(
        step.index
        for step in episode.steps
        if not step.prompt
        or step.index < (episode.trajectory.branched_at or 0)
        or step.index in left_out
        or quotes_guidance("\n".join((step.thought, step.conclusion, step.raw_response)), episode.guidance)
    )


def facts_of(episode: Episode) -> dict[str, Any]:
    """Return what neither format has a field for, as JSON values."""
    query, trajectory, judged = episode.query, episode.trajectory, episode.judgement
    made = ("run_id", "round", "query_id", "environment", "purpose", "parent_id", "branched_at")
    ended = ("status", "stop_reason", "answer", "reward")
    decided = ("correct", "rule", "agreed", "redundant_steps", "first_error_step")
    voted = ("channel", "resolution", "vote", "correct", "reason")
    return {
        "platform": query.platform.value,
        "apps": list(query.apps),
        "task": query.task,
        "coordinate_space": "pixels of the picture",
        **{name: getattr(trajectory, name) for name in (*made, *ended)},
        "guided": trajectory.guidance_id is not None,
        "judgement": None if judged is None else {name: getattr(judged, name) for name in decided},
        "votes": [{name: getattr(vote, name) for name in voted} for vote in episode.trajectory_verdicts],
    }


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
    context, labels = context_steps(episode), episode.labels
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
