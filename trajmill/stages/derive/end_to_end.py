"""Makes end-to-end SFT examples of trajectories that were judged correct, without the steps that were judged bad.

Equation 2 of paper 2.2.3 with critic-based filtering; the format is that of paper 6.5.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from trajmill.schemas.actions import action_from_json, ends_episode
from trajmill.schemas.episode import Episode
from trajmill.schemas.geometry import Size
from trajmill.schemas.record import Origin, content_id
from trajmill.schemas.tables.example import Example
from trajmill.schemas.tables.trajectory import Step
from trajmill.schemas.tables.verdict import StepLabel
from trajmill.stages.derive.collected import LeftOut, example_of, unaccepted
from trajmill.stages.derive.conversation import step_messages

KIND = "end_to_end"
MADE_BY = "derive.end_to_end/1"


class EndToEndExamples(NamedTuple):
    examples: tuple[Example, ...]
    dropped: tuple[LeftOut, ...]


def end_to_end_examples(episode: Episode, size_of: Callable[[str], Size], origin: Origin) -> EndToEndExamples:
    """Return an example for each kept step of an accepted training episode, guided or not.

    Steps labelled HARMFUL are left out, and NEUTRAL steps without an effect on the screen. The history in the prompts
    of later steps is not changed.

    Args:
        episode: with its step verdicts and its judgement.
        size_of: width and height of a stored screen (`ScreenReader.size`).
        origin: common columns of the rows.
    """
    trajectory_id = episode.trajectory.trajectory_id
    reason = unaccepted(episode)
    if reason is not None:
        return EndToEndExamples((), (LeftOut(trajectory_id, None, reason),))
    labels = {verdict.index: verdict.label for verdict in episode.step_verdicts}
    examples, dropped = [], []
    for step in episode.steps:
        messages = unlearned_step(step, labels.get(step.index)) or step_messages(
            episode, step, size_of(step.screen_before)
        )
        if isinstance(messages, str):
            dropped.append(LeftOut(trajectory_id, step.index, messages))
            continue
        example_id = content_id("example", KIND, trajectory_id, step.index, [m.content for m in messages])
        columns = {"example_id": example_id, **origin.common(MADE_BY)}
        examples.append(example_of(episode, step, KIND, messages, (step.screen_before,), step.action, **columns))
    return EndToEndExamples(tuple(examples), tuple(dropped))


def unlearned_step(step: Step, label: StepLabel | None) -> str | None:
    """Return why a step is not learned: its reply is no action, or it is harmful or useless; None if it is learned."""
    if step.action is None:
        return "unparsed"
    if label is StepLabel.HARMFUL:
        return "harmful"
    # The step that ends an episode never changes the screen, but a trajectory needs it.
    unchanged = step.screen_before == step.screen_after and not ends_episode(action_from_json(step.action))
    return "no_effect" if label is StepLabel.NEUTRAL and unchanged else None
