from __future__ import annotations

from collections import Counter

import pytest
import torch

from tests.stages.models.scripted import request
from trajmill.stages.models.base import ChatRequest
from trajmill.stages.models.transformers_local.generation import SeededSampling

pytestmark = pytest.mark.slow

LOGITS = torch.tensor([0.5, 0.3, 0.15, 0.05]).log()


def drawn(row: ChatRequest, times: int) -> Counter[int]:
    """How often each of four tokens is chosen for one row, token after token."""
    chooser = SeededSampling([row])
    empty = torch.zeros(1, 0)
    return Counter(int(chooser(empty, LOGITS[None].clone()).argmax()) for _ in range(times))


def row(temperature: float = 1.0, **fields: float) -> ChatRequest:
    return request(temperature=temperature, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        (row(), [0.5, 0.3, 0.15, 0.05]),
        (row(top_p=0.75), [0.625, 0.375, 0.0, 0.0]),
        (row(top_p=0.85), [0.526, 0.316, 0.158, 0.0]),
        (row(temperature=0.5), [0.685, 0.247, 0.062, 0.007]),
        (row(temperature=1e-4), [1.0, 0.0, 0.0, 0.0]),
        (row(temperature=0.0), [1.0, 0.0, 0.0, 0.0]),
        (row(top_p=0.01), [1.0, 0.0, 0.0, 0.0]),
    ],
)
def test_tokens_come_as_often_as_they_should(sampling: ChatRequest, expected: list[float]) -> None:
    times = 1000
    counts = drawn(sampling, times)
    for token, share in enumerate(expected):
        # Five standard deviations: the draws are those of a fixed seed, and a wrong rule is far off.
        assert counts[token] / times == pytest.approx(share, abs=5 * (0.25 / times) ** 0.5)
        assert share > 0 or counts[token] == 0


def test_each_row_draws_with_its_own_seed() -> None:
    rows = [row(seed=1), row(temperature=0.0), row(seed=2), row(seed=1)]
    together, alone = SeededSampling(rows), SeededSampling([rows[2]])
    empty = torch.zeros(4, 0)
    columns = [together(empty, LOGITS.repeat(4, 1)).argmax(-1).tolist() for _ in range(50)]
    single = [int(alone(empty[:1], LOGITS[None].clone()).argmax()) for _ in range(50)]
    assert [column[2] for column in columns] == single
    assert all(column[0] == column[3] and column[1] == 0 for column in columns)
    assert any(column[0] != column[2] for column in columns)


def test_log_probabilities_are_recorded_for_rows_that_ask() -> None:
    asks, silent = request(top_logprobs=2), request()
    chooser = SeededSampling([silent, asks])
    chooser(torch.zeros(2, 0), LOGITS.repeat(2, 1))
    assert chooser.choices[0] == []
    [choice] = chooser.choices[1]
    assert choice.token == 0 and choice.logprob == pytest.approx(LOGITS[0].item())
    assert [token for token, _ in choice.candidates] == [0, 1]
