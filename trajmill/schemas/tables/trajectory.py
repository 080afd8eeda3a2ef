"""One attempt of an agent at a query, and its actions."""

from __future__ import annotations

from enum import StrEnum

from trajmill.schemas.errors import FailureClass
from trajmill.schemas.geometry import Box
from trajmill.schemas.record import Float32, Int64, Record, Row, content_id


class StopReason(StrEnum):
    """Why an episode ended."""

    AGENT_DONE = "agent_done"
    """The agent terminated or answered."""
    STEP_LIMIT = "step_limit"
    TIME_LIMIT = "time_limit"
    TOKEN_LIMIT = "token_limit"
    FAILED = "failed"
    """A failure; see `failure_class`."""


class Purpose(StrEnum):
    """Why the attempt was made."""

    TRAIN = "train"
    """Collects training data."""
    GUIDED = "guided"
    """A further attempt at a failed query, with guidance in the prompt."""
    EVALUATE = "evaluate"
    """Measures a policy; it is never trained on."""
    COMPARE = "compare"
    """Measures a model that is no version of the run, on the seeds of evaluations; no figure of a policy counts it."""
    REFERENCE = "reference"
    """Walks the annotated path; guidance is written from it."""
    ONLINE = "online"
    """Stepped by a trainer from outside, which learns from it itself; no round trains on it."""
    TRIAL = "trial"
    """Decides whether a proposed task is feasible, or whether a manual helps; no training and no figure of a policy
    counts it."""
    BRANCH = "branch"
    """Goes on from a screen of a failed attempt; trained on if it is judged correct, but no figure of a policy counts
    it."""
    IMPORTED = "imported"
    """Recorded elsewhere; trained on if it is judged correct, but no figure of a policy counts it."""


class Trajectory(Row):
    """One attempt of an agent at a query."""

    trajectory_id: str
    """Content hash of query, agent, model version, purpose, guidance, seed and attempt."""
    query_id: str
    """The query that was attempted."""
    agent: str
    """explorer, end_to_end, reference, ..."""
    model_version: str
    """Version of the policy that acted."""
    environment: str
    """simulated, miniwob, ..."""
    seed: Int64
    """Seed of the environment and of the sampling."""
    attempt: int
    """0 for the first attempt of its round, purpose and query."""
    purpose: Purpose
    """Why the attempt was made."""
    guidance_id: str | None
    """The guidance in the prompt; null for an unguided attempt."""
    status: str
    """`finished`, or `failed` if it says nothing about the agent."""
    stop_reason: StopReason
    """Why the episode ended."""
    failure_class: FailureClass | None
    """The cause of a failure; null without one."""
    failure_message: str | None
    """The failure in one line; null without one."""
    answer: str | None
    """The agent's answer, or the status that it reported."""
    reward: float | None
    """Programmatic reward in [0, 1]; null without a check, and after a failure."""
    steps: int
    """Number of actions."""
    input_tokens: Int64
    """Tokens of all requests to the policy's models."""
    output_tokens: Int64
    """Tokens of all their answers."""
    wall_ms: float
    """Duration of the episode in milliseconds."""
    environment_ms: float
    """Milliseconds that the environment took of it."""
    atomic_done: int | None = None
    """Of a causal pathway: how many atomic tasks were done one after the other, until the pathway collapsed; null for
    other queries and without a result."""
    parent_id: str | None = None
    """The attempt that a branch goes on from, in an environment of that one's seed; null for all others."""
    branched_at: int | None = None
    """Number of its first steps, which are the parent's; null for all but branches."""
    side_effects: tuple[str, ...] | None = None
    """Paths of the environment's state that changed beyond what the goal names; null if the environment cannot compare
    states, or its goal names none. No agent and no judge gets them."""
    false_complete: bool | None = None
    """Whether the agent reported success though the check failed; null without a check, and after a failure."""
    probe_screens: tuple[str, ...] | None = None
    """Screens that a probe saw after the end, for a judge; they are no steps. Null without one, and if it failed."""

    @staticmethod
    def make_id(
        query_id: str,
        agent: str,
        model_version: str,
        purpose: Purpose,
        guidance_id: str | None,
        seed: int,
        attempt: int,
    ) -> str:
        return content_id("trajectory", query_id, agent, model_version, purpose, guidance_id, seed, attempt)


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
