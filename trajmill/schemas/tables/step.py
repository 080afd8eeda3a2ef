"""One action of a trajectory, between two screens."""

from __future__ import annotations

from trajmill.schemas.geometry import Box
from trajmill.schemas.record import Float32, Record, Row


class TargetElement(Record):
    """The accessibility element at the action's position."""

    role: str
    text: str
    bounds: Box


class Step(Row):
    """One action of a trajectory, between two screens."""

    trajectory_id: str
    """The trajectory that the step belongs to."""
    index: int
    """0 for the first action."""
    screen_before: str
    """Id of the screen that the agent saw."""
    screen_after: str
    """Id of the screen after the action."""
    app_before: str
    """App on that screen."""
    app_after: str
    """App on the screen after the action."""
    thought: str
    """What the agent thought before it acted."""
    action: str | None
    """JSON of the typed action in pixels of the stored screenshot; null if the reply had no action."""
    action_kind: str
    """Kind of the action; `unparsed` if the reply had no action."""
    conclusion: str
    """What the agent says that it did."""
    raw_response: str
    """The model's reply, word for word; untrusted."""
    target: TargetElement | None
    """The element that the action hit; null if it hit none."""
    role_outputs: str
    """JSON object of the outputs of other roles (subgoal, reflection, notes); `{}` for a single agent."""
    prompt: str
    """The user text of the prompt that was answered, without guidance."""
    guided: bool
    """Whether the prompt had guidance."""
    reply_token_ids: tuple[int, ...] | None = None
    """Tokens of the reply in the vocabulary of a served policy; null if they were not asked for or not given, and on
    rows of earlier versions. The same is true for the log probabilities."""
    reply_logprobs: tuple[Float32, ...] | None = None
    """Natural logarithms of their probabilities, as the server reports them."""
    policy_version: str | None = None
    """Version of the policy that gave the reply; null on rows of earlier versions."""
