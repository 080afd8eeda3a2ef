"""The recipe of trajectory-level RL on stored replies."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from trajmill.stages.training.hugging_face.spec import HuggingFaceRecipe
from trajmill.stages.training.spec import LearningRate


class TrpoSpec(HuggingFaceRecipe):
    """Trajectory-level RL of a vision-language model on its stored replies (paper 3.1.2, equation 3)."""

    learns_from: ClassVar[Literal["examples", "rl_steps"]] = "rl_steps"
    trainer: ClassVar[str] = "trajmill.stages.training.trpo.train:train_on_trajectories"
    needs: ClassVar[tuple[str, ...]] = ("accelerate",)
    kind: Literal["trpo"] = "trpo"
    """Trajectory-level RL on stored replies."""
    batch: PositiveInt = 256
    """Steps in one update, of all devices together."""
    learning_rate: LearningRate = 1e-6
    """Peak learning rate; LoRA needs about ten times as much."""
    clip_ratio: PositiveFloat = 0.2
    """Epsilon of the paper's equation 3."""
    old_log_probs: Literal["stored", "recomputed"] = "stored"
    """The old probabilities of the ratio: those that the server gave with each reply, or those of the policy before the
    first update, computed once; successes of earlier rounds then count as its own replies."""
    divergence: NonNegativeFloat = 0.0
    """Weight of the divergence from the policy before the first update; 0 in the paper's objective."""
