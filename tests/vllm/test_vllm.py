"""A real vLLM server on this machine's CPU, asked as a team's servers are asked."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeVar

import pytest
from PIL import Image
from pydantic import Field

from tests.flows.serving.test_model_server import free_port
from tests.stages.models.pictures import shot
from tests.stages.models.transformers_local.tiny_vlm import FACTOR, MAX_PIXELS, MIN_PIXELS
from tests.vllm.conftest import TinyServer
from tests.vllm.tiny_adapter import tiny_adapter
from tests.vllm.tiny_server import MODEL, SERVED_CONTEXT, tiny_server
from trajmill.flows.serving.model_server import (
    ModelServer,
    ask_server,
    load_adapter,
    served,
    served_models,
    unload_adapter,
)
from trajmill.schemas.coordinates import PixelBudget
from trajmill.schemas.errors import BadInputError, ModelFailure, TrajmillError
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import ScreenHandle
from trajmill.schemas.record import Record
from trajmill.stages.models.base import ChatMessage, ChatModel, ChatRequest, MessagePart
from trajmill.stages.models.openai_api.model import OpenAiModel
from trajmill.stages.models.openai_api.spec import OpenAiSpec
from trajmill.stages.models.prompts import ask

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(3600)]

T = TypeVar("T")

BUDGET = PixelBudget(factor=FACTOR, min_pixels=MIN_PIXELS, max_pixels=MAX_PIXELS)
MARKS_AROUND_A_PICTURE = 2
"""Tokens that say where a picture begins and ends."""


class Verdict(Record):
    """What a critic answers."""

    label: Literal["GOOD", "NEUTRAL", "HARMFUL"]
    correct: bool
    summary: str = Field(max_length=12)


def settings(server: TinyServer, model: str = MODEL) -> OpenAiSpec:
    return OpenAiSpec(urls=(server.address,), model=model, family="qwen2.5-vl", max_pixels=MAX_PIXELS, attempts=2)


def use(model: OpenAiModel, work: Callable[[ChatModel], Awaitable[T]]) -> T:
    async def run() -> T:
        try:
            return await work(model)
        finally:
            await model.close()

    return asyncio.run(run())


def picture(size: Size, seed: int = 0) -> ScreenHandle:
    noise = random.Random(seed).randbytes(size.width * size.height * 3)
    return shot(f"noise-{seed}-{size.width}x{size.height}", Image.frombytes("RGB", size, noise))


def request(*parts: MessagePart, max_tokens: int = 16) -> ChatRequest:
    return ChatRequest("critic.multimodal", (ChatMessage("user", parts),), max_tokens=max_tokens)


def test_it_is_healthy_and_knows_its_model(server: TinyServer) -> None:
    assert ask_server(server.address.removesuffix("/v1") + "/health").status == 200
    assert served_models(server.address) == frozenset({MODEL})
    model = OpenAiModel(settings(server))
    use(model, lambda _: model.check())


def test_pictures_arrive_at_the_size_that_was_reckoned_with(server: TinyServer) -> None:
    size = Size(720, 1280)

    async def tokens(model: ChatModel, request: ChatRequest) -> int:
        return (await model.complete(request)).input_tokens

    async def work(model: ChatModel) -> list[int]:
        asked = request("before", picture(size), "after", picture(size, seed=1))
        return [
            await tokens(model, request("before", "after")),
            await tokens(model, asked),
            await tokens(model, replace(asked, image_scale=0.1)),
        ]

    without, whole, small = use(OpenAiModel(settings(server)), work)
    assert whole == without + 2 * (patches(BUDGET.fit(size)) + MARKS_AROUND_A_PICTURE)
    assert small == without + 2 * (patches(BUDGET.fit(Size(72, 128))) + MARKS_AROUND_A_PICTURE)


def patches(size: Size) -> int:
    return (size.width // FACTOR) * (size.height // FACTOR)


def test_a_picture_changes_the_answer(server: TinyServer) -> None:
    async def work(model: ChatModel) -> list[str]:
        asked = [request("what is this?", picture(Size(280, 280), seed), max_tokens=32) for seed in (0, 0, 1)]
        return [(await model.complete(each)).text for each in asked]

    first, again, other = use(OpenAiModel(settings(server)), work)
    assert first == again != other


def test_several_samples(server: TinyServer) -> None:
    asked = replace(request("judge", max_tokens=24), temperature=1.0, seed=5, n=4)
    completion = use(OpenAiModel(settings(server)), lambda model: model.complete(asked))
    samples = {completion.text, *completion.others}
    assert len(completion.others) == 3
    assert len(samples) == 4
    assert completion.output_tokens <= 4 * 24
    again = use(OpenAiModel(settings(server)), lambda model: model.complete(asked))
    assert {again.text, *again.others} == samples
    other_seed = use(OpenAiModel(settings(server)), lambda model: model.complete(replace(asked, seed=6)))
    assert {other_seed.text, *other_seed.others} != samples


def test_log_probabilities_are_read_from_the_answer(server: TinyServer) -> None:
    asked = replace(request("judge"), top_logprobs=3)
    completion = use(OpenAiModel(settings(server)), lambda model: model.complete(asked))
    assert len(completion.logprobs) == completion.output_tokens == 16
    assert completion.finish_reason == "length"
    for token in completion.logprobs:
        assert len(token.candidates) == 3
        best = max(logprob for _, logprob in token.candidates)
        assert token.logprob == pytest.approx(best)  # greedy: the likeliest token is the one
        assert sum(math.exp(logprob) for _, logprob in token.candidates) <= 1.0 + 1e-3


def test_the_tokens_of_a_reply(server: TinyServer) -> None:
    asked = replace(request("order"), with_tokens=True, temperature=1.0)
    completion = use(OpenAiModel(settings(server)), lambda model: model.complete(asked))
    assert completion.tokens is not None
    ids, logprobs = completion.tokens
    assert len(ids) == len(logprobs) == completion.output_tokens
    assert all(logprob <= 0.0 for logprob in logprobs)


def test_an_answer_in_a_form(server: TinyServer) -> None:
    asked = replace(request("judge this", picture(Size(280, 280)), max_tokens=128), temperature=1.0)

    async def work(model: ChatModel) -> list[Verdict]:
        return await asyncio.gather(*(ask(model, replace(asked, seed=seed), Verdict, tries=1) for seed in range(8)))

    verdicts = use(OpenAiModel(settings(server)), work)
    assert len({verdict.label for verdict in verdicts}) > 1


def test_many_requests_at_once(server: TinyServer) -> None:
    async def work(model: ChatModel) -> list[str]:
        asked = [request(f"step {number}", picture(Size(140, 140), number)) for number in range(32)]
        return [completion.text for completion in await asyncio.gather(*map(model.complete, asked))]

    before = server.requests()
    assert len(use(OpenAiModel(settings(server)), work)) == 32
    assert server.requests() == before + 32


def test_more_than_the_context_holds_gives_one_error_line(server: TinyServer) -> None:
    before = server.requests()
    with pytest.raises(ModelFailure, match=rf"^[^\n]*{SERVED_CONTEXT}[^\n]*$"):
        use(OpenAiModel(settings(server)), lambda model: model.complete(request("too much to read " * SERVED_CONTEXT)))
    assert server.requests() == before


def test_adapters_are_loaded_and_swapped_in_the_running_server(server: TinyServer, tmp_path: Path) -> None:
    asked = request("order a pizza", max_tokens=32)

    def says(name: str) -> str:
        return use(OpenAiModel(settings(server, name)), lambda model: model.complete(asked)).text

    base = says(MODEL)
    load_adapter(server.address, "policy-1", tiny_adapter(tmp_path, "policy-1", seed=1))
    first = says("policy-1")
    load_adapter(server.address, "policy-2", tiny_adapter(tmp_path, "policy-2", seed=2))
    unload_adapter(server.address, "policy-1")
    assert served_models(server.address) == frozenset({MODEL, "policy-2"})
    second = says("policy-2")
    assert len({base, first, second}) == 3
    assert says(MODEL) == base
    with pytest.raises(ModelFailure, match=r"^[^\n]*policy-1[^\n]*$"):
        says("policy-1")
    with pytest.raises(BadInputError, match=r"^[^\n]*did not load the LoRA adapter policy-3: [^\n]+$"):
        load_adapter(server.address, "policy-3", tiny_adapter(tmp_path, "policy-3", seed=3, rank=64))
    assert says("policy-2") == second
    unload_adapter(server.address, "policy-2")
    assert served_models(server.address) == frozenset({MODEL})


def test_a_folder_without_a_model_gives_one_error_line(vllm_python: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    section = tiny_server(vllm_python, tmp_path / "empty", free_port())
    message = r"^the model server of endpoints.tiny ended with code \d+ while starting: [^\n]*empty[^\n]*$"
    with pytest.raises(TrajmillError, match=message), served([ModelServer("tiny", MODEL, section)], tmp_path):
        pass
