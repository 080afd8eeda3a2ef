from __future__ import annotations

from pathlib import Path
from typing import Any

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


def collator(model: LoadedParts, context: int | None = None) -> ReplyCollator:
    return ReplyCollator(model._replace(context=context or model.context), supervised_reply)


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


def test_a_batch_is_its_rows(model: LoadedParts, rows: list[dict[str, Any]]) -> None:
    collate = collator(model)
    together = batch_of(collate, rows)
    found = log_probs(model, together)
    for number, row in enumerate(rows):
        alone = log_probs(model, batch_of(collate, [row]))[0]
        assert found[number, found.shape[1] - len(alone) :] == pytest.approx(alone, abs=1e-9)
        assert not found[number, : found.shape[1] - len(alone)].any()


def test_a_reply_is_its_words_and_the_end_of_the_turn(model: LoadedParts, rows: list[dict[str, Any]]) -> None:
    batch = batch_of(collator(model), rows[:4])
    for row, reply in enumerate(REPLIES):
        tokens = batch.tokens[row][batch.mask[row].bool()].tolist()
        assert model.tokenizer.decode(tokens[:-1]) == reply
        assert tokens[-1] == model.tokenizer.eos_token_id
        assert batch.inputs["input_ids"][row, -len(tokens) :].tolist() == tokens


def test_nothing_is_cut_off(model: LoadedParts, rows: list[dict[str, Any]]) -> None:
    with pytest.raises(BadInputError, match="tokens, the model takes 20"):
        collator(model, context=20)(rows)


def test_tokens_of_the_server_are_taken_as_they_are(model: LoadedParts, tmp_path: Path) -> None:
    write_rl(tmp_path, [{"response_token_ids": [5, 6, 7], "old_logprobs": [-1.0, -2.0, -0.5]}, {}])
    rows = rl_rows(rl_files(tmp_path), tmp_path / "cache")
    made = ReplyCollator(model, rl_reply)(list(rows))
    batch = ReplyBatch(**made)
    assert batch.tokens[0, -3:].tolist() == [5, 6, 7] and batch.mask[0].sum() == 3
    assert batch.old[0, -3:].tolist() == [-1.0, -2.0, -0.5] and not batch.old[1].any()
    assert batch.advantages.tolist() == [-0.5, 1.0] and batch.weights.tolist() == [1.0, 0.5]


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


def test_rows_that_weigh_nothing_are_not_learned(tmp_path: Path) -> None:
    write_supervised(tmp_path, (1.0, 0.0, 0.5))
    rows = supervised_rows(supervised_files(tmp_path), tmp_path / "cache")
    assert rows["loss_weight"] == [1.0, 0.5]


def test_a_release_that_gives_nothing_to_learn_from_gives_one_error_line(tmp_path: Path) -> None:
    file = write_supervised(tmp_path, (0.0, 0.0))
    with pytest.raises(BadInputError, match="no accepted row that weighs anything"):
        supervised_rows(supervised_files(tmp_path), tmp_path / "cache")
    with pytest.raises(BadInputError, match="has no RL rows: nothing to compare"):
        rl_files(tmp_path)
    file.write_bytes(b"not a file")
    with pytest.raises(BadInputError, match="is not a file of a release"):
        supervised_rows(supervised_files(tmp_path), tmp_path / "cache")
