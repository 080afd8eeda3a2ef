"""How the RL rows of a round are made: `[rl]`."""

from __future__ import annotations

from typing import Literal

from trajmill.schemas.spec import Spec


class RLSpec(Spec):
    """How the RL rows of a round are made (paper 3.1.2)."""

    normalise: Literal["group", "batch"] = "group"
    """What a reward is compared with: the rewards of its group, or the running mean and deviation of all rewards of the
    round and those before it, in which remembered successes do not count."""
    step_weight: Literal["inverse_length", "constant"] = "inverse_length"
    """Weight of a step: one over the length of its trajectory, so that all trajectories weigh the same, or 1 for every
    step. The first spares long failures: each of their steps counts less."""
    keep_without_spread: bool = False
    """Whether groups whose rewards are all equal give rows; normalised within the group, their advantages are 0."""
    replay: bool = True
    """Whether a remembered success of the same query replaces one attempt, drawn at random, of a group of two or more
    that failed whole."""
    replay_guided: bool = False
    """Whether a success that was made with guidance may be remembered so."""
    tokens: bool = True
    """Whether a policy on a server is asked for the tokens of its replies and their log probabilities (vLLM gives
    them); replies without them then give no RL rows. False for a server that does not know `return_token_ids`."""
    carry_over: bool = True
    """Whether a group with an attempt that could not be judged waits for the round that judges it; if not, the group
    is used without that attempt."""
