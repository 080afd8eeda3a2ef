import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from tests.stages.models.transformers_local.tiny_vlm import build_tiny_vlm
from tests.stages.training.hugging_face.small_release import FAMILY, REPLIES, write_rl, write_supervised
from trajmill.schemas.errors import BadInputError
from trajmill.stages.models.transformers_local.generation import LoadedParts
from trajmill.stages.training.hugging_face.encoding import (
    ReplyBatch,
    ReplyCollator,
    clipped_sum,
    clipped_tokens,
    divergence_sum,
    reply_logits,
    rl_files,
    rl_reply,
    rl_rows,
    supervised_files,
    supervised_reply,
    supervised_rows,
    token_log_probs,
)
from trajmill.stages.training.hugging_face.run import load_trained, reference_log_probs
from trajmill.stages.training.hugging_face.spec import TrpoSpec
from trajmill.stages.training.spec import ParentPolicy

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LoadedParts:
    folder = build_tiny_vlm(tmp_path_factory.mktemp("model"))
    loaded = load_trained(TrpoSpec(), ParentPolicy(folder, family=FAMILY), 0)
    loaded.network.double().eval()
    return loaded


def batch_of(collate: ReplyCollator, rows: list[dict[str, Any]]) -> ReplyBatch:
    batch = ReplyBatch(**collate(rows))
    return batch._replace(
        inputs={name: value.double() if name == "pixel_values" else value for name, value in batch.inputs.items()}
    )


@torch.no_grad()
def log_probs(model: LoadedParts, batch: ReplyBatch) -> Tensor:
    return token_log_probs(reply_logits(model.network, batch), batch.tokens) * batch.mask


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    release = tmp_path_factory.mktemp("release")
    write_supervised(release, (1.0,) * 6)
    return list(supervised_rows(supervised_files(release), release / "cache"))


def test_a_reply_is_its_words_and_the_end_of_the_turn(model: LoadedParts, rows: list[dict[str, Any]]) -> None:
    batch = batch_of(ReplyCollator(model, supervised_reply), rows[:4])
    for row, reply in enumerate(REPLIES):
        tokens = batch.tokens[row][batch.mask[row].bool()].tolist()
        assert model.tokenizer.decode(tokens[:-1]) == reply
        assert tokens[-1] == model.tokenizer.eos_token_id
        assert batch.inputs["input_ids"][row, -len(tokens) :].tolist() == tokens
    with pytest.raises(BadInputError, match="tokens, the model takes 20"):
        ReplyCollator(model._replace(context=20), supervised_reply)(rows)


def test_nothing_is_learned_from_a_reply_with_the_token_of_a_picture(model: LoadedParts, tmp_path: Path) -> None:
    assert model.reader is not None
    wrong = {"response_token_ids": [5, model.reader.placeholder, 7], "old_logprobs": [-1.0, -2.0, -0.5]}
    write_rl(tmp_path, [wrong, {"response_token_ids": [5, 6, 7], "old_logprobs": [-1.0, -2.0, -0.5]}])
    collate = ReplyCollator(model, rl_reply)
    rows = rl_rows(rl_files(tmp_path), tmp_path / "cache")
    batch = batch_of(collate, list(rows))
    assert batch.mask.sum(1).tolist() == [0, 3]
    alone = log_probs(model, batch_of(collate, [rows[1]]))
    assert log_probs(model, batch)[1, -3:] == pytest.approx(alone[0, -3:], abs=1e-9)
    assert [len(each) for each in reference_log_probs(model.network, rows, collate, 1)] == [0, 3]


def test_a_release_that_gives_nothing_to_learn_from_gives_one_error_line(tmp_path: Path) -> None:
    write_supervised(tmp_path, (1.0, 0.0, 0.5))
    weighed = supervised_rows(supervised_files(tmp_path), tmp_path / "some")
    assert weighed["loss_weight"] == [1.0, 0.5], "rows that weigh nothing are not learned"
    file = write_supervised(tmp_path, (0.0, 0.0))
    with pytest.raises(BadInputError, match="no accepted row that weighs anything"):
        supervised_rows(supervised_files(tmp_path), tmp_path / "cache")
    with pytest.raises(BadInputError, match="has no RL rows: nothing to compare"):
        rl_files(tmp_path)
    file.write_bytes(b"not a file")
    with pytest.raises(BadInputError, match="is not a file of a release"):
        supervised_rows(supervised_files(tmp_path), tmp_path / "cache")


CLIP = 0.2
LENGTHS = (3, 1, 5, 2)
ADVANTAGES = (1.25, -0.75, -0.5, 0.0)
WEIGHTS = (1.0, 0.25, 1 / 3, 0.5)
WORDS = 7


class Replies(NamedTuple):
    logits: Tensor
    tokens: Tensor
    old: Tensor
    mask: Tensor


def replies(seed: int = 0) -> Replies:
    """Replies of several lengths, aligned to the right; the values in the padding must have no effect."""
    draw = torch.Generator().manual_seed(seed)
    rows, longest = len(LENGTHS), max(LENGTHS)
    logits = torch.randn(rows, longest, WORDS, generator=draw, dtype=torch.float64)
    tokens = torch.randint(WORDS, (rows, longest), generator=draw)
    now = logits.log_softmax(-1).gather(-1, tokens[..., None]).squeeze(-1)
    old = now + 0.5 * torch.randn(rows, longest, generator=draw, dtype=torch.float64)
    mask = torch.tensor([[0.0] * (longest - length) + [1.0] * length for length in LENGTHS], dtype=torch.float64)
    old[mask == 0] = -700.0
    return Replies(logits, tokens, old, mask)


def written_out(made: Replies, term: Callable[[int, float, float], float]) -> float:
    total = 0.0
    for row, length in enumerate(LENGTHS):
        for place in range(max(LENGTHS) - length, max(LENGTHS)):
            numbers: Sequence[float] = made.logits[row, place].tolist()
            norm = math.log(math.fsum(math.exp(each) for each in numbers))
            total += term(row, numbers[int(made.tokens[row, place])] - norm, float(made.old[row, place]))
    return total


def test_equation_3() -> None:
    made = replies()

    def term(row: int, now: float, old: float) -> float:
        ratio, advantage = math.exp(now - old), ADVANTAGES[row]
        return -WEIGHTS[row] * min(ratio * advantage, min(max(ratio, 1 - CLIP), 1 + CLIP) * advantage)

    now = token_log_probs(made.logits, made.tokens)
    advantages, weights = (torch.tensor(each, dtype=torch.float64) for each in (ADVANTAGES, WEIGHTS))
    loss = clipped_sum(now, made.old, made.mask, advantages, weights, CLIP)
    assert loss.item() == pytest.approx(written_out(made, term), rel=1e-12)
    outside = written_out(made, lambda _, now, old: float(abs(math.exp(now - old) - 1) > CLIP))
    assert clipped_tokens(now, made.old, made.mask, CLIP).item() == outside > 0


def test_the_objective_of_execution_feedback_which_no_padding_can_overflow() -> None:
    """Equation 3 of CODA, and 4 of CES token by token: each reply counts by the mean over its tokens."""
    made, beta = replies(5), 0.04

    def term(row: int, now: float, old: float) -> float:
        ratio, advantage = math.exp(now - old), ADVANTAGES[row]
        gain = min(ratio * advantage, min(max(ratio, 1 - CLIP), 1 + CLIP) * advantage)
        away = math.exp(old - now) - 1 - (old - now)
        return -(gain - beta * away) / LENGTHS[row] / len(LENGTHS)

    now = token_log_probs(made.logits, made.tokens)
    weights = torch.tensor([1 / length for length in LENGTHS], dtype=torch.float64)
    clipped = clipped_sum(now, made.old, made.mask, torch.tensor(ADVANTAGES).double(), weights, CLIP)
    away = divergence_sum(now, made.old, made.mask, weights)
    loss = (clipped + beta * away) / len(LENGTHS)
    assert loss.item() == pytest.approx(written_out(made, term), rel=1e-12)
    alone = divergence_sum(now, made.old, made.mask).item()
    assert alone == pytest.approx(written_out(made, lambda _, now, old: math.exp(old - now) - (old - now) - 1))
    assert divergence_sum(now, now, made.mask).item() == 0
    now = torch.tensor([[-1.0, -1.0]], requires_grad=True)
    old, mask = torch.tensor([[-1e4, -1.0]]), torch.tensor([[0.0, 1.0]])
    loss = clipped_sum(now, old, mask, torch.ones(1), torch.ones(1), CLIP)
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss.item() == -1.0 and now.grad is not None and now.grad.isfinite().all()
