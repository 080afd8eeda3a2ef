"""The optimiser of the embedded network is PyTorch's AdamW, bit for bit."""

from __future__ import annotations

import pytest
import torch

from trajmill.stages.training.embedded.optimiser import AdamW


@pytest.mark.slow
def test_it_updates_as_the_class_of_pytorch_does() -> None:
    weights = [torch.randn(size, generator=torch.Generator().manual_seed(size[0])) for size in ((5, 3), (7, 2), (1, 1))]
    ours, theirs = ([torch.nn.Parameter(weight.clone()) for weight in weights] for _ in range(2))
    mine = AdamW(ours, weight_decay=0.1)
    reference = torch.optim.AdamW(theirs, weight_decay=0.1, fused=True)
    draw = torch.Generator().manual_seed(1)
    for update in range(20):
        # The last parameter has no gradient.
        for one, other in zip(ours[:-1], theirs[:-1], strict=True):
            one.grad = torch.randn(one.shape, generator=draw)
            other.grad = one.grad.clone()
        reference.param_groups[0]["lr"] = 0.01 / (1 + update)
        reference.step()
        mine.step(0.01 / (1 + update))
    assert all(torch.equal(one, other) for one, other in zip(ours, theirs, strict=True))
    assert torch.equal(ours[-1], weights[-1]) and not torch.equal(ours[0], weights[0])
