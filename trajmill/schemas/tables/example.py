"""One supervised training example, in the form that all exporters read."""

from __future__ import annotations

from trajmill.schemas.geometry import Box
from trajmill.schemas.record import Record, Row
from trajmill.schemas.tables.query import Split

IMAGE_PLACEHOLDER = "<image>"
"""The placeholder of an image in a message."""


class Message(Record):
    """One chat message; `<image>` is the placeholder of an image, in the order of `screens`."""

    role: str
    content: str


class Example(Row):
    """One supervised training example."""

    example_id: str
    """Content id of the example."""
    kind: str
    """`end_to_end`, which a round derives; `step`, `grounding`, `action_semantics`, `reasoning` and `planning`, which
    `trajmill derive KIND` does."""
    messages: tuple[Message, ...]
    """The last message is the completion that is learned."""
    screens: tuple[str, ...]
    """Screen ids in placeholder order."""
    action: str | None
    """JSON of the typed action in pixels of the stored screenshot; null without one."""
    coordinate_space: str
    """Coordinate space of the messages; their frame is the last screen."""
    loss_weight: float
    """Factor of the example's loss in training."""
    query_id: str
    """The query of its trajectory."""
    trajectory_id: str
    """The trajectory that it was derived from."""
    step_index: int | None
    """The step that it teaches."""
    split: Split
    """The split of its query."""
    guided: bool | None = None
    """Whether the agent had guidance in its prompt, which the messages leave out; null on rows of earlier versions."""
    variant: str | None = None
    """The sort within the kind, e.g. `self_correction` of step data; null on rows of `end_to_end`."""
    written_by: str | None = None
    """Who wrote the text that is learned: the version of a policy or a model, or `template`; null on rows of
    `end_to_end`, whose policy `trajectories` names."""
    source_screens: tuple[str, ...] | None = None
    """The stored screens that it was made from, in order; null on rows of `end_to_end`, which show them all."""
    box: Box | None = None
    """Box of the element that the action presses, in pixels of the last screen of `screens`; null without one."""
    source_trajectories: tuple[str, ...] | None = None
    """All trajectories that it was made from, in order; null on rows that `trajectory_id` alone gave."""
