"""One example of training: supervised, or one policy-update instance of trajectory-level RL (paper 3.1)."""

from __future__ import annotations

from trajmill.schemas.geometry import Box
from trajmill.schemas.record import Float32, Record, Row
from trajmill.schemas.tables.query import Split

IMAGE_PLACEHOLDER = "<image>"


class Message(Record):
    """One chat message; `<image>` is the placeholder of an image, in the order of `screens`."""

    role: str
    content: str


class Example(Row):
    """One supervised training example."""

    example_id: str
    """Content id of the example."""
    kind: str
    """`end_to_end`, which a round derives; `step`, `grounding`, `forks` and all others, which `trajmill derive KIND`
    does."""
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
    rejected: str | None = None
    """The worse reply to the same prompt, for preference training; null except on rows of `forks`."""


class RLStep(Row):
    """One step of one trajectory, with the trajectory's advantage."""

    rl_step_id: str
    """Content id of the row."""
    group: str
    """The query whose attempts, of one round and policy version, are compared."""
    trajectory_id: str
    """The trajectory of the step."""
    step_index: int
    """The step's place in the trajectory, from 0."""
    prompt: tuple[Message, ...]
    """The messages of the request to the policy."""
    response: str
    """The policy's reply."""
    screens: tuple[str, ...]
    """Ids of the screens in the prompt, in the order of their placeholders."""
    accuracy_reward: float
    """1 for a trajectory that was judged correct, else 0."""
    format_reward: float
    """-0.5 times the share of replies without an action; 0 if all have one."""
    reward: float
    """Accuracy plus format reward of the trajectory."""
    advantage: float
    """Normalised reward, equal on all steps of a trajectory without branches."""
    step_weight: float
    """One over the trajectory's length, so that all trajectories weigh the same; or 1."""
    replayed: bool
    """Whether the trajectory is a success of an earlier round that replaced a failed attempt."""
    group_size: int | None = None
    """Number of trajectories of the group, with the replayed one; null on rows of earlier versions."""
    policy_version: str | None = None
    """Version of the policy that gave the response; null on rows of earlier versions."""
    guided: bool | None = None
    """Whether the agent had guidance in its prompt, which the row's prompt leaves out; only replayed trajectories may.
    Null on rows of earlier versions."""
    response_token_ids: tuple[int, ...] | None = None
    """Tokens of the response in the vocabulary of a served policy; null for the embedded policy, if they were not asked
    for, and on rows of earlier versions. The same is true for the log probabilities."""
    old_logprobs: tuple[Float32, ...] | None = None
    """Natural logarithms of the tokens' probabilities under the policy that gave them, as its server reports them."""
    temperature: float | None = None
    """Sampling temperature of the policy; null on rows of earlier versions."""
    branch: str | None = None
    """`TRAJECTORY@STEP`, from where branches were compared for the advantage; null where whole trajectories were."""
