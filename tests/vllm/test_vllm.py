import asyncio
import math
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Literal

import pytest
from PIL import Image
from pydantic import Field

from tests.stages.models.pictures import shot
from tests.stages.models.transformers_local.tiny_vlm import FACTOR, MAX_PIXELS, MIN_PIXELS
from tests.vllm.conftest import TinyServer
from tests.vllm.tiny_server import MODEL, SERVED_CONTEXT
from trajmill.schemas.coordinates import PixelBudget
from trajmill.schemas.errors import ModelFailure
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import ScreenHandle
from trajmill.schemas.record import Record
from trajmill.stages.models.base import ChatMessage, ChatRequest, MessagePart
from trajmill.stages.models.openai_api.model import OpenAiModel
from trajmill.stages.models.openai_api.spec import OpenAiSpec
from trajmill.stages.models.prompts import ask

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(3600)]

BUDGET = PixelBudget(factor=FACTOR, min_pixels=MIN_PIXELS, max_pixels=MAX_PIXELS)
MARKS_AROUND_A_PICTURE = 2
"""Tokens that say where a picture begins and ends."""


class Verdict(Record):
    label: Literal["GOOD", "NEUTRAL", "HARMFUL"]
    correct: bool
    summary: str = Field(max_length=12)


@asynccontextmanager
async def served_model(server: TinyServer, name: str = MODEL) -> AsyncIterator[OpenAiModel]:
    spec = OpenAiSpec(urls=(server.address,), model=name, family="qwen2.5-vl", max_pixels=MAX_PIXELS, attempts=2)
    model = OpenAiModel(spec)
    try:
        yield model
    finally:
        await model.close()


def picture(size: Size, seed: int = 0) -> ScreenHandle:
    noise = random.Random(seed).randbytes(size.width * size.height * 3)
    return shot(f"noise-{seed}-{size.width}x{size.height}", Image.frombytes("RGB", size, noise))


def request(*parts: MessagePart, max_tokens: int = 16) -> ChatRequest:
    return ChatRequest("critic.multimodal", (ChatMessage("user", parts),), max_tokens=max_tokens)


async def test_pictures_arrive_at_the_size_that_was_reckoned_with_and_change_the_answer(server: TinyServer) -> None:
    size = Size(720, 1280)
    asked = request("before", picture(size), "after", picture(size, seed=1))
    shown = [request("what is this?", picture(Size(280, 280), seed), max_tokens=32) for seed in (0, 0, 1)]
    async with served_model(server) as model:
        requests = (request("before", "after"), asked, replace(asked, image_scale=0.1))
        without, whole, small = [(await model.complete(each)).input_tokens for each in requests]
        first, again, other = [(await model.complete(each)).text for each in shown]
    assert whole == without + 2 * (patches(BUDGET.fit(size)) + MARKS_AROUND_A_PICTURE)
    assert small == without + 2 * (patches(BUDGET.fit(Size(72, 128))) + MARKS_AROUND_A_PICTURE)
    assert first == again != other


def patches(size: Size) -> int:
    return (size.width // FACTOR) * (size.height // FACTOR)


async def test_several_samples(server: TinyServer) -> None:
    asked = replace(request("judge", max_tokens=24), temperature=1.0, seed=5, n=4)
    async with served_model(server) as model:
        answers = [await model.complete(each) for each in (asked, asked, replace(asked, seed=6), replace(asked, n=1))]
    assert answers[0].input_tokens == answers[3].input_tokens, "the prompt is counted once"
    samples, again, other_seed = ({each.text, *each.others} for each in answers[:3])
    assert len(answers[0].others) == 3 and len(samples) == 4
    assert answers[0].output_tokens <= 4 * 24
    assert again == samples != other_seed


async def test_log_probabilities_and_tokens_are_read_from_the_answer(server: TinyServer) -> None:
    async with served_model(server) as model:
        completion = await model.complete(replace(request("judge"), top_logprobs=3))
        with_tokens = await model.complete(replace(request("order"), with_tokens=True, temperature=1.0))
    assert len(completion.logprobs) == completion.output_tokens == 16
    assert completion.finish_reason == "length"
    for token in completion.logprobs:
        assert len(token.candidates) == 3
        best = max(logprob for _, logprob in token.candidates)
        assert token.logprob == pytest.approx(best)  # greedy: the likeliest token is the one
        assert sum(math.exp(logprob) for _, logprob in token.candidates) <= 1.0 + 1e-3
    assert with_tokens.tokens is not None
    ids, logprobs = with_tokens.tokens
    assert len(ids) == len(logprobs) == with_tokens.output_tokens
    assert all(logprob <= 0.0 for logprob in logprobs)


async def test_an_answer_in_a_form(server: TinyServer) -> None:
    asked = replace(request("judge this", picture(Size(280, 280)), max_tokens=128), temperature=1.0)
    async with served_model(server) as model:
        seeded = (replace(asked, seed=seed) for seed in range(8))
        verdicts = await asyncio.gather(*(ask(model, each, Verdict, tries=1) for each in seeded))
    assert len({verdict.label for verdict in verdicts}) > 1


async def test_many_requests_at_once_and_one_that_is_too_long(server: TinyServer) -> None:
    before = server.requests()
    async with served_model(server) as model:
        asked = [request(f"step {number}", picture(Size(140, 140), number)) for number in range(32)]
        assert len(await asyncio.gather(*map(model.complete, asked))) == 32
        assert server.requests() == before + 32
        with pytest.raises(ModelFailure, match=rf"^[^\n]*{SERVED_CONTEXT}[^\n]*$"):
            await model.complete(request("too much to read " * SERVED_CONTEXT))
    assert server.requests() == before + 32
