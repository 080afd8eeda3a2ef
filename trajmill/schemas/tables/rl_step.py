"""One policy-update instance of trajectory-level RL (paper 3.1)."""

from __future__ import annotations

from trajmill.schemas.record import Float32, Row
from trajmill.schemas.tables.example import Message


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
    """Part of the reward for a trajectory that was judged correct."""
    format_reward: float
    """Part of the reward for replies in the right form."""
    reward: float
    """Accuracy plus format reward of the trajectory."""
    advantage: float
    """Normalised reward, equal on all steps of a trajectory."""
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
