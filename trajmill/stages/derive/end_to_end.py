"""Makes end-to-end SFT examples from trajectories that were judged correct, without the steps that were judged bad.

Equation 2 of paper 2.2.3 with critic-based filtering; the format is that of paper 6.5.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from trajmill.schemas.actions import action_from_json, ends_episode
from trajmill.schemas.coordinates import CoordinateSpace, native_frame
from trajmill.schemas.dialects.base import Dialect, Reply
from trajmill.schemas.dialects.gui_owl_v3 import dialect_for
from trajmill.schemas.episode import Episode
from trajmill.schemas.geometry import Size
from trajmill.schemas.record import Origin, content_id
from trajmill.schemas.tables.example import Example, Message
from trajmill.schemas.tables.step import Step
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.schemas.tables.verdict import StepLabel
from trajmill.stages.derive.base import LeftOut, unfit
from trajmill.stages.derive.conversation import prompt_messages, rendered, unfit_text

KIND = "end_to_end"
MADE_BY = "derive.end_to_end/1"
LEARNED_FROM = frozenset({Purpose.TRAIN, Purpose.GUIDED, Purpose.IMPORTED})


class EndToEndExamples(NamedTuple):
    """The examples of one episode, and what gave none."""

    examples: tuple[Example, ...]
    dropped: tuple[LeftOut, ...]


def end_to_end_examples(episode: Episode, size_of: Callable[[str], Size], origin: Origin) -> EndToEndExamples:
    """One example for each kept step of an episode of split `train`, guided or not, that was judged correct.

    Steps labelled HARMFUL are left out, and so are NEUTRAL steps that changed nothing on the screen. The prompts of
    later steps are not changed: their history is what really happened. The reply is rendered again from thought,
    action and conclusion, with positions in pixels of the stored screenshot.

    Args:
        episode: with its step verdicts and its judgement.
        size_of: width and height of a stored screen (`ScreenReader.size`).
        origin: common columns of the rows.
    """
    trajectory_id = episode.trajectory.trajectory_id
    reason = unfit(episode, LEARNED_FROM)
    if reason is None and episode.judgement is not None and not episode.judgement.correct:
        reason = "judged_incorrect"
    if reason is not None:
        return EndToEndExamples((), (LeftOut(trajectory_id, None, reason),))
    labels = {verdict.index: verdict.label for verdict in episode.step_verdicts}
    dialect = dialect_for(episode.query.platform)
    examples, dropped = [], []
    for step in episode.steps:
        made = _completion(step, labels.get(step.index), dialect, size_of(step.screen_before), episode.guidance)
        if made.text is None:
            dropped.append(LeftOut(trajectory_id, step.index, made.reason))
        else:
            prompt = prompt_messages(dialect, step, native_frame(size_of(step.screen_before)))
            messages = (*prompt, Message(role="assistant", content=made.text))
            examples.append(_example(episode, step, messages, origin))
    return EndToEndExamples(tuple(examples), tuple(dropped))


class _Completion(NamedTuple):
    """The reply that is learned, or the reason why there is none."""

    text: str | None
    reason: str = ""


def _completion(step: Step, label: StepLabel | None, dialect: Dialect, size: Size, guidance: str) -> _Completion:
    if step.action is None:
        return _Completion(None, "unparsed")
    action = action_from_json(step.action)
    if label is StepLabel.HARMFUL:
        return _Completion(None, "harmful")
    # The step that ends an episode never changes the screen, but a trajectory needs it.
    if label is StepLabel.NEUTRAL and step.screen_before == step.screen_after and not ends_episode(action):
        return _Completion(None, "no_effect")
    text = rendered(Reply(step.thought, action, step.conclusion), dialect, native_frame(size))
    if text is None:
        return _Completion(None, "not_round_trip")
    reason = unfit_text(step, text, guidance)
    return _Completion(None, reason) if reason else _Completion(text)


def _example(episode: Episode, step: Step, messages: tuple[Message, ...], origin: Origin) -> Example:
    trajectory_id = episode.trajectory.trajectory_id
    return Example(
        example_id=content_id("example", KIND, trajectory_id, step.index, [m.content for m in messages]),
        kind=KIND,
        messages=messages,
        screens=(step.screen_before,),
        action=step.action,
        coordinate_space=CoordinateSpace.RESIZED_PIXELS,
        loss_weight=1.0,
        query_id=episode.query.query_id,
        trajectory_id=trajectory_id,
        step_index=step.index,
        split=episode.query.split,
        guided=episode.trajectory.purpose is Purpose.GUIDED,
        **origin.common(MADE_BY),
    )
