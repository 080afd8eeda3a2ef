"""AdamW by PyTorch's function for it. The class `torch.optim.AdamW` computes the same, but imports PyTorch's compiler.

That import takes longer than the training of a small network.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim.adamw import adamw

_DECAY_OF_MEANS = (0.9, 0.999)
_EPSILON = 1e-8


class AdamW:
    """Loshchilov and Hutter, "Decoupled Weight Decay Regularization" (2019), algorithm 2, for one group of parameters.

    Attributes:
        parameters: those that are updated.
    """

    def __init__(self, parameters: Iterable[Parameter], weight_decay: float) -> None:
        self.parameters = list(parameters)
        self._weight_decay = weight_decay
        self._means = [torch.zeros_like(parameter) for parameter in self.parameters]
        self._squares = [torch.zeros_like(parameter) for parameter in self.parameters]
        self._updates = [torch.zeros(()) for _ in self.parameters]

    @torch.no_grad()
    def step(self, learning_rate: float) -> None:
        """Update the parameters that have a gradient."""
        having = [place for place, parameter in enumerate(self.parameters) if parameter.grad is not None]
        gradients = [gradient for place in having if (gradient := self.parameters[place].grad) is not None]
        adamw(
            [self.parameters[place] for place in having],
            gradients,
            _at(self._means, having),
            _at(self._squares, having),
            [],
            _at(self._updates, having),
            fused=True,
            amsgrad=False,
            beta1=_DECAY_OF_MEANS[0],
            beta2=_DECAY_OF_MEANS[1],
            lr=learning_rate,
            weight_decay=self._weight_decay,
            eps=_EPSILON,
            maximize=False,
        )


def _at(values: list[Tensor], places: list[int]) -> list[Tensor]:
    return [values[place] for place in places]
