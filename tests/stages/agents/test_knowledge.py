from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from tests.stages.models.fault_server import Fault, FaultReply, FaultServer, running_server
from tests.stages.models.scripted import ScriptedModel
from trajmill.schemas.errors import BadInputError, ModelFailure
from trajmill.stages.agents.knowledge import LONGEST_PASSAGE, KeywordIndex, MeaningIndex, passages, read_passages
from trajmill.stages.models.openai_api.model import OpenAiModel
from trajmill.stages.models.openai_api.spec import OpenAiSpec
from trajmill.stages.models.wrapped import WrappedModel, embedding_model


def test_the_passages_that_share_words_with_the_task_come_best_first(tmp_path: Path) -> None:
    (tmp_path / "wallet.md").write_text("In Wallet, codes are redeemed under Redeem a code.")
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "mail.txt").write_text("Mail keeps letters. A code may stand in one.")
    (tmp_path / "picture.png").write_bytes(b"\xff")
    (tmp_path / "music.md").write_text("Tunes plays songs.")
    index = KeywordIndex(read_passages(tmp_path))
    found = asyncio.run(index.retrieve("redeem a code in Wallet", 5))
    assert found[0].startswith("In Wallet") and found[1].startswith("Mail keeps") and len(found) == 2
    assert asyncio.run(index.retrieve("redeem a code in Wallet", 1)) == found[:1]
    assert asyncio.run(index.retrieve("the of", 5)) == ()


def test_a_long_document_is_divided_at_its_paragraphs() -> None:
    found = passages("\n\n".join(["word " * 100] * 5))
    assert len(found) == 3 and all(len(passage) <= LONGEST_PASSAGE for passage in found)


def test_a_folder_without_documents_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="no document"):
        read_passages(tmp_path)
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(BadInputError, match="not UTF-8"):
        read_passages(tmp_path)


TOPICS = ("voucher", "song", "letter")
PASSAGES = ["A voucher is entered in Wallet.", "Tunes plays each song.", "Mail keeps a letter."]
Found = TypeVar("Found")


def by_topic(text: str) -> list[float]:
    """A vector that tells which topics a text has; `coupon` means what `voucher` means."""
    return [float(topic in text.replace("coupon", "voucher")) for topic in TOPICS]


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with running_server() as running:
        running.embeds = by_topic
        yield running


def with_index(server: FaultServer, use: Callable[[MeaningIndex], Awaitable[Found]]) -> Found:
    async def used() -> Found:
        model = OpenAiModel(
            OpenAiSpec(model="tiny", urls=(server.url,), attempts=2, first_wait_seconds=0.01), server.key
        )
        try:
            return await use(MeaningIndex(PASSAGES, embedding_model(WrappedModel(model, "renamed"))))
        finally:
            await model.close()

    return asyncio.run(used())


def test_the_nearest_passages_come_first_though_they_share_no_word(server: FaultServer) -> None:
    server.key = "secret"

    async def search(index: MeaningIndex) -> list[tuple[str, ...]]:
        return [await index.retrieve("use my coupon", 1), await index.retrieve("read the letter", 2)]

    coupon, letter = with_index(server, search)
    assert coupon == (PASSAGES[0],)
    assert letter == (PASSAGES[2], PASSAGES[0])
    # The passages are embedded once.
    assert [each.body["input"] for each in server.received] == [PASSAGES, ["use my coupon"], ["read the letter"]]


def test_a_failed_request_is_sent_again(server: FaultServer) -> None:
    server.script.append(FaultReply(Fault.UNAVAILABLE))
    assert with_index(server, lambda index: index.retrieve("a song", 1)) == (PASSAGES[1],)


def test_an_answer_that_is_no_list_of_vectors_is_a_failure(server: FaultServer) -> None:
    server.script.extend([FaultReply(Fault.WRONG_SCHEMA)] * 2)
    with pytest.raises(ModelFailure, match="not the protocol's"):
        with_index(server, lambda index: index.retrieve("a song", 1))
    server.embeds = lambda text: [1.0] * len(text)
    with pytest.raises(ModelFailure, match="equally long vectors"):
        with_index(server, lambda index: index.retrieve("a song", 1))


def test_vectors_of_another_length_than_those_of_the_passages_are_a_failure(server: FaultServer) -> None:
    server.embeds = lambda text: [1.0] * (3 if text in PASSAGES else 4)
    with pytest.raises(ModelFailure, match="4 numbers after some of 3"):
        with_index(server, lambda index: index.retrieve("a song", 1))


def test_a_model_that_embeds_nothing_is_bad_input() -> None:
    with pytest.raises(BadInputError, match="embeds no texts"):
        embedding_model(ScriptedModel(lambda request: ""))
