from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer

from tests.stages.models.pictures import plain
from trajmill.schemas.dialects.families import FAMILIES
from trajmill.schemas.dialects.read_aloud import ACTION_WORDS, MOST_PLACES, MOST_ROWS
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import Platform
from trajmill.stages.agents.base import EpisodeView
from trajmill.stages.agents.end_to_end import EndToEndAgent
from trajmill.stages.models.base import ChatMessage, ChatRequest
from trajmill.stages.models.local.folder import TransformersSpec, folder_version
from trajmill.stages.models.transformers_local.generation import load_model
from trajmill.stages.models.transformers_local.model import TransformersModel
from trajmill.stages.models.untrained import make_untrained

pytestmark = pytest.mark.slow

TEXTS = ("Order a Bag of Lemon to the Home.", "19:30, 9.50", "Banana Orange")
FAMILY = FAMILIES["read-aloud"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_untrained(tmp_path_factory.mktemp("made") / "policy", TEXTS, 3)


def test_equal_seeds_and_words_make_equal_files(folder: Path, tmp_path: Path) -> None:
    again = make_untrained(tmp_path / "a" / "policy", TEXTS, 3)
    other = make_untrained(tmp_path / "b" / "policy", TEXTS, 4)
    assert folder_version(again) == folder_version(folder) != folder_version(other)


def test_every_word_and_every_mark_is_one_token(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    marks = [f"<{axis}{at}>" for axis in "xy" for at in range(MOST_PLACES)] + [f"<r{at}>" for at in range(MOST_ROWS)]
    for word in (*marks, *ACTION_WORDS, "<do>", "Lemon", "19:30", "9.50", ","):
        assert len(tokenizer(word)["input_ids"]) == 1 and tokenizer(word)["input_ids"] != [tokenizer.unk_token_id]
    reply = "<r0> Banana <r1> Lemon <do> click <x6> <y11>"
    assert tokenizer.decode(tokenizer(reply)["input_ids"]) == reply
    assert tokenizer("Papaya")["input_ids"] == [tokenizer.unk_token_id]


async def test_it_is_asked_in_a_hundred_tokens_and_answers(folder: Path) -> None:
    spec = TransformersSpec(model=folder, family="read-aloud")
    agent = EndToEndAgent(TransformersModel(spec), Platform.PHONE, 0.0, family=FAMILY, max_tokens=6)
    view = EpisodeView("Order a Bag of Lemon", None, Observation(plain((200, 200, 200)), (), ""), (), 7)
    decision = await agent.act(view)
    (call,) = decision.calls
    assert call.completion is not None and call.completion.output_tokens <= 6
    assert call.completion.input_tokens < 100 and decision.prompt == "Order a Bag of Lemon\nDone: "


def test_a_blind_one_sees_no_difference_between_screens(folder: Path, tmp_path: Path) -> None:
    blind = make_untrained(tmp_path / "policy", TEXTS, 3, blind=True)
    for path, differ in ((folder, True), (blind, False)):
        loaded = load_model(TransformersSpec(model=path, family="read-aloud"))
        shown = [ChatMessage("user", ("Order", plain((grey, grey, grey)))) for grey in (10, 240)]
        one, other = (loaded.encode(ChatRequest("policy", (each,), max_tokens=4)).pictures for each in shown)
        assert one is not None and other is not None
        assert torch.allclose(one.patches, other.patches, atol=1e-9) is not differ
