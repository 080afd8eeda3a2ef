from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.stages.models.fault_server import Fault, FaultReply, FaultServer, running_server
from tests.stages.models.scripted import ScriptedModel
from tests.stages.models.toy import ToyPhone
from trajmill.schemas.errors import BadInputError, ModelFailure
from trajmill.stages.agents.base import EpisodeView
from trajmill.stages.agents.knowledge import (
    LONGEST_PASSAGE,
    KeywordIndex,
    MeaningIndex,
    Researcher,
    Retrieval,
    passages,
    read_passages,
)
from trajmill.stages.agents.replies import read_items, read_sections
from trajmill.stages.agents.roles import Role
from trajmill.stages.models.openai_api.model import OpenAiModel
from trajmill.stages.models.openai_api.spec import OpenAiSpec
from trajmill.stages.models.prompts import load_prompt
from trajmill.stages.models.wrapped import WrappedModel, embedding_model


async def test_the_passages_that_share_words_with_the_task_come_best_first(tmp_path: Path) -> None:
    (tmp_path / "wallet.md").write_text("In Wallet, codes are redeemed under Redeem a code.")
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "mail.txt").write_text("Mail keeps letters. A code may stand in one.")
    (tmp_path / "picture.png").write_bytes(b"\xff")
    (tmp_path / "music.md").write_text("Tunes plays songs.")
    index = KeywordIndex(read_passages(tmp_path))
    found = await index.retrieve("redeem a code in Wallet", 5)
    assert found[0].startswith("In Wallet") and found[1].startswith("Mail keeps") and len(found) == 2
    assert await index.retrieve("redeem a code in Wallet", 1) == found[:1]
    assert await index.retrieve("the of", 5) == ()


def test_a_long_document_is_divided_at_its_paragraphs_and_a_folder_without_any_is_bad_input(tmp_path: Path) -> None:
    found = passages("\n\n".join(["word " * 100] * 5))
    assert len(found) == 3 and all(len(passage) <= LONGEST_PASSAGE for passage in found)
    with pytest.raises(BadInputError, match="no document"):
        read_passages(tmp_path)
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(BadInputError, match="not UTF-8"):
        read_passages(tmp_path)


TOPICS = ("voucher", "song", "letter")
PASSAGES = ["A voucher is entered in Wallet.", "Tunes plays each song.", "Mail keeps a letter."]


def by_topic(text: str) -> list[float]:
    """A vector that tells which topics a text has; `coupon` means what `voucher` means."""
    return [float(topic in text.replace("coupon", "voucher")) for topic in TOPICS]


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with running_server() as running:
        running.embeds = by_topic
        yield running


@asynccontextmanager
async def index_of(server: FaultServer) -> AsyncIterator[MeaningIndex]:
    spec = OpenAiSpec(model="tiny", urls=(server.url,), attempts=2, first_wait_seconds=0.01)
    model = OpenAiModel(spec, server.key)
    try:
        yield MeaningIndex(PASSAGES, embedding_model(WrappedModel(model, "renamed")))
    finally:
        await model.close()


async def test_the_nearest_passages_come_first_though_they_share_no_word(server: FaultServer) -> None:
    server.key = "secret"
    async with index_of(server) as index:
        assert await index.retrieve("use my coupon", 1) == (PASSAGES[0],)
        assert await index.retrieve("read the letter", 2) == (PASSAGES[2], PASSAGES[0])
    # The passages are embedded once.
    assert [each.body["input"] for each in server.received] == [PASSAGES, ["use my coupon"], ["read the letter"]]


async def test_a_failed_request_is_sent_again_and_what_are_no_like_vectors_is_a_failure(server: FaultServer) -> None:
    server.script.append(FaultReply(Fault.UNAVAILABLE))
    async with index_of(server) as index:
        assert await index.retrieve("a song", 1) == (PASSAGES[1],)
    server.script.extend([FaultReply(Fault.WRONG_SCHEMA)] * 2)
    for embeds, told in (
        (by_topic, "not the protocol's"),
        (lambda text: [1.0] * len(text), "equally long vectors"),
        (lambda text: [1.0] * (3 if text in PASSAGES else 4), "4 numbers after some of 3"),
    ):
        server.embeds = embeds
        async with index_of(server) as index:
            with pytest.raises(ModelFailure, match=told):
                await index.retrieve("a song", 1)
    with pytest.raises(BadInputError, match="embeds no texts"):
        embedding_model(ScriptedModel(lambda request: ""))


def researched(*replies: str) -> tuple[Retrieval, ScriptedModel]:
    rest = iter(replies)
    model = ScriptedModel(lambda _: next(rest))
    prompts = "trajmill.stages.agents.mobile_agent_v3"
    made = [Role("researcher", model, load_prompt(prompts, f"researcher_{what}-1")) for what in ("queries", "summary")]
    return Retrieval(partial(KeywordIndex(PASSAGES).retrieve, most=1), Researcher(*made)), model


GIFT = EpisodeView("Enter Ann's voucher", None, ToyPhone(0).look(), (), 0)


async def test_a_researcher_asks_what_to_search_for_and_sums_up_or_the_passages_are_given() -> None:
    """Mobile-Agent-v3 7.2.1: Q = GenerateQueries(I), D = SearchEngine(Q), K = Process(D)."""
    queries = "### Queries ###\n1. enter a voucher\n2. where letters are: Mail letter\n3. voucher Wallet"
    retrieval, model = researched(queries, "### Summary ###\nVouchers go into Wallet.")
    found = await retrieval.knowledge(GIFT)
    assert (found.said, len(found.calls)) == ("Vouchers go into Wallet.", 2)
    listed = read_sections("".join(part for part in model.asked[1].messages[-1].parts if isinstance(part, str)))
    assert read_items(listed["passages"]) == (PASSAGES[0], PASSAGES[2]), "each passage once, the best of a query first"
    retrieval, _ = researched("I do not know.", "<think>Hm")
    found = await retrieval.knowledge(GIFT)
    assert found.said == PASSAGES[0]
    assert [call.malformed for call in found.calls] == ["no queries", "its thinking is not closed"]
    nothing, _ = researched("1. weather")
    assert (await nothing.knowledge(GIFT)).said == "", "nothing is found, and nothing is summed up"
    helpless, _ = researched("1. voucher", "None.")
    assert (await helpless.knowledge(GIFT)).said == ""
    plain = Retrieval(partial(KeywordIndex(PASSAGES).retrieve, most=2))
    assert await plain.knowledge(GIFT) == (PASSAGES[0], ())
