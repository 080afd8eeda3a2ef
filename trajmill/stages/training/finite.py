"""Refuses trained weights that are no numbers."""

from __future__ import annotations

from torch import nn

from trajmill.schemas.errors import TrainingFailedError


def check_finite(network: nn.Module) -> None:
    """Check the trained weights of a network after the last update, whose loss nobody computes.

    Raises:
        TrainingFailedError: one of them is NaN or infinite.
    """
    trained = ((name, weights) for name, weights in network.named_parameters() if weights.requires_grad)
    spoilt = next((name for name, weights in trained if not weights.isfinite().all()), None)
    if spoilt is not None:
        raise TrainingFailedError(f"the new weights of {spoilt} are no numbers: lower train.learning_rate")
