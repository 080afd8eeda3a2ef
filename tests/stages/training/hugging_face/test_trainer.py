from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from trajmill.stages.training.hugging_face.encoding import ReplyBatch
from trajmill.stages.training.hugging_face.run import WholeUpdateLoss


class _Batches:
    """The part of `transformers.Trainer` that reads batches."""

    accelerator = SimpleNamespace(gather=lambda value: value)

    def get_batch_samples(self, batches: Iterator[Any], count: int, device: torch.device) -> tuple[list[Any], None]:
        return list(batches), None


class _Tokens(WholeUpdateLoss, _Batches):  # type: ignore[misc]
    def divisor(self, batch: ReplyBatch) -> Tensor:
        return batch.mask.sum()


@pytest.mark.parametrize(("tokens", "divisor"), [([3.0, 4.0], 7.0), ([0.0, 0.0], 1.0)])
def test_an_update_is_divided_by_its_tokens_and_one_without_any_by_no_zero(tokens: list[float], divisor: float) -> None:
    batches = [dict.fromkeys(ReplyBatch._fields) | {"mask": torch.tensor([each])} for each in tokens]
    _, found = _Tokens().get_batch_samples(iter(batches), 2, torch.device("cpu"))
    assert found == divisor
