"""The recipe of trajectory-level RL on stored replies."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import NonNegativeFloat, PositiveFloat

from trajmill.stages.training.hugging_face.spec import HuggingFaceRecipe


class TrpoSpec(HuggingFaceRecipe):
    """Trajectory-level RL of a vision-language model on stored replies of its rollouts (paper 3.1.2, eq. 3)."""

    learns_from: ClassVar[Literal["examples", "rl_steps"]] = "rl_steps"
    trainer: ClassVar[str] = "trajmill.stages.training.trpo.train:train_on_trajectories"
    needs: ClassVar[tuple[str, ...]] = ("accelerate",)
    kind: Literal["trpo"] = "trpo"
    """Trajectory-level RL on stored replies."""
    batch: int = 256
    """Step instances in one update, on all devices together."""
    learning_rate: PositiveFloat = 1e-6
    """Peak learning rate; ten times as much suits LoRA."""
    clip_ratio: PositiveFloat = 0.2
    """Epsilon of the paper's equation 3."""
    old_log_probs: Literal["stored", "recomputed"] = "stored"
    """The probabilities that the ratio compares with: those that the server gave with each reply, or those of the
    policy before the first update, computed once; remembered successes then count as its own replies."""
    divergence: NonNegativeFloat = 0.0
    """Weight of the divergence from the policy before the first update; the paper's objective has none."""
