import asyncio
import gc
import json
from pathlib import Path

import pytest

from tests.stages.models.fault_server import Fault, FaultReply, chat_completion, running_server
from tests.stages.models.openai_api.asking import VARIABLES, asked, asked_all, request, settings
from tests.stages.models.pictures import plain
from trajmill.schemas.coordinates import QWEN3_VL, CoordinateFrame
from trajmill.schemas.dialects.families import family_named
from trajmill.schemas.errors import BadInputError, ModelFailure
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import Observation, ScreenHandle
from trajmill.stages.models.base import ChatMessage, ChatRequest, Completion, ReplyTokens, TokenLogprob
from trajmill.stages.models.openai_api.exchange import ExchangeFailure, completion
from trajmill.stages.models.openai_api.model import OpenAiModel


async def test_an_answer_with_usage_and_price() -> None:
    with running_server([FaultReply(text="Grüße ☂")], key="k-1") as server:
        client = settings(server.url, api_key_variable="KEY", input_price=2.0, output_price=10.0)
        assert await asked(client) == Completion("Grüße ☂", 100, 10, "stop", price=(100 * 2 + 10 * 10) / 1e6)
        assert server.received[0].authorization == "Bearer k-1"
        assert "k-1" not in repr(client)


async def test_samples_come_in_order_and_tokens_with_their_log_probabilities() -> None:
    with running_server([*[FaultReply(text="one three")] * 2, Fault.UNEVEN_TOKENS]) as server:
        spec = settings(server.url, attempts=1)
        assert (await asked(spec, request(with_tokens=True))).tokens == ReplyTokens((3, 5), (-0.5, -0.5))
        assert (await asked(spec)).tokens is None
        bodies = [received.body for received in server.received]
        assert [(body.get("logprobs"), body.get("return_token_ids")) for body in bodies] == [(True, True), (None, None)]
        with pytest.raises(ModelFailure, match=r"^[^\n]*: 3 log probabilities for 4 tokens; given up[^\n]*$"):
            await asked(spec, request(with_tokens=True))
    with running_server(writes=lambda body: "yes indeed") as server:
        answer = await asked(settings(server.url), request(n=3, top_logprobs=2))
    assert (answer.text, answer.others) == ("yes indeed", ("yes indeed 1", "yes indeed 2"))
    assert answer.logprobs[0] == TokenLogprob("yes", -0.5, (("yes0", -0.5), ("yes1", -1.5)))
    assert [token.token for token in answer.logprobs] == ["yes", "indeed"]


async def test_everything_asked_for_is_sent() -> None:
    schema = {"type": "object", "properties": {"label": {"type": "string"}}}
    chat = ChatRequest(
        "critic.text",
        (ChatMessage("system", ("Judge.",)), ChatMessage("user", ("one", "two"))),
        temperature=0.7,
        seed=2**63 + 5,
        max_tokens=33,
        top_p=0.9,
        n=2,
        top_logprobs=3,
        answer_schema=json.dumps(schema),
    )
    with running_server() as server:
        await asked(settings(server.url), chat)
        assert server.received[0].body == {
            "model": "tiny",
            "messages": [
                {"role": "system", "content": "Judge."},
                {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]},
            ],
            "max_tokens": 33,
            "temperature": 0.7,
            "top_p": 0.9,
            "seed": 5,
            "n": 2,
            "logprobs": True,
            "top_logprobs": 3,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": schema, "strict": True},
            },
        }
        assert server.received[0].authorization is None


@pytest.mark.parametrize(("family", "most"), [("qwen2.5-vl", 2**24), ("qwen3-vl", 2**24), ("gui-owl", 90_000)])
async def test_the_frame_has_the_size_of_the_picture_that_arrives(family: str, most: int) -> None:
    sizes = (Size(720, 1280), Size(641, 359), Size(40, 30))
    known = family_named(family).within(most)
    with running_server() as server:
        client = settings(server.url, family=family, max_pixels=most)
        frames = [OpenAiModel(client).frame(size) for size in sizes]
        screens = [plain("red", size) for size in sizes]
        await asked(client, request("Look.", Observation(screens[0], None, ""), *screens[1:]))
        assert server.received[0].pictures == [frame.resized for frame in frames]
    assert frames[0] == CoordinateFrame(known.space, sizes[0], known.budget.fit(sizes[0]))


async def test_a_cheap_pass_sends_smaller_pictures_and_a_body_of_many_megabytes_arrives() -> None:
    with running_server() as server:
        client = settings(server.url, family="qwen3-vl")
        await asked(client, request("x" * 5_000_000, plain("red"), image_scale=0.5))
        assert server.received[0].pictures == [QWEN3_VL.fit(Size(360, 640))]
        assert len(server.received[0].body["messages"][0]["content"][0]["text"]) == 5_000_000


async def test_a_picture_that_does_not_decode_takes_no_request_and_no_place() -> None:
    broken = request(ScreenHandle("s-bad", Size(50, 50), lambda: b"nothing"))
    with running_server() as server:
        answers = await asked_all(settings(server.url, max_in_flight=1), [broken, broken, request("fine")])
        told = "screen s-bad: the image does not decode (no known format)"
        assert all(isinstance(answer, ModelFailure) and str(answer) == told for answer in answers[:2])
        assert isinstance(answers[2], Completion) and len(server.received) == 1


@pytest.mark.slow
def test_one_client_in_one_event_loop_after_another() -> None:
    def open_files() -> int:
        gc.collect()
        return len(list(Path("/proc/self/fd").iterdir()))

    with running_server() as server:
        model = OpenAiModel(settings(server.url))
        asyncio.run(model.complete(request()))
        before = open_files()
        for _ in range(20):
            assert asyncio.run(model.complete(request())).text == "fine"
        # The server, in this process too, may be a moment late to close its ends.
        assert open_files() <= before + 10
        asyncio.run(model.close())
        asyncio.run(model.close())
        assert asyncio.run(model.complete(request())).text == "fine"
        asyncio.run(model.close())


async def test_a_call_that_is_given_up_frees_its_place() -> None:
    with running_server(seconds=30.0) as server:
        model = OpenAiModel(settings(server.url, max_in_flight=1))
        calls = [asyncio.create_task(model.complete(request())) for _ in range(3)]
        while not server.received:
            await asyncio.sleep(0.01)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        server.seconds = 0.0
        assert (await model.complete(request())).text == "fine"
        await model.close()
        assert len(server.received) == 2


async def _check(*urls: str, **changed: str) -> None:
    model = settings(*urls, **changed).connect(VARIABLES)
    try:
        await model.check()
    finally:
        await model.close()


async def test_a_check_passes_while_one_server_is_there_and_says_what_is_wrong_in_one_line() -> None:
    with running_server() as gone:
        pass
    with running_server(models=("other", "tiny"), key="k-1") as server:
        await _check(gone.url, server.url, api_key_variable="KEY")
        with pytest.raises(BadInputError, match=r"/v1/models: 401 Unauthorized; check the API key[^\n]*$"):
            await _check(server.url)
    with pytest.raises(BadInputError, match=r"^no model server answers: http://\S+/v1: no connection [^\n]*; start it"):
        await _check(gone.url)
    with running_server(models=("other",)) as server:
        with pytest.raises(BadInputError, match=r"/v1: no model 'tiny'; it serves 'other': name one of them$"):
            await _check(server.url)
        with pytest.raises(BadInputError, match=r"/models: 404 [^\n]*the URL ends in /v1$"):
            await _check(server.url.removesuffix("/v1"))


def body(*finish_reasons: str) -> bytes:
    answer = chat_completion([f"sample {at}" for at in range(len(finish_reasons))], {"model": "tiny"})
    for choice, reason in zip(answer["choices"], finish_reasons, strict=True):
        choice["finish_reason"] = reason
    return json.dumps(answer).encode()


@pytest.mark.parametrize(
    ("reasons", "others"), [(("stop", "abort", "length"), ("", "sample 2")), (("stop", "stop"), ("sample 1",))]
)
def test_interrupted_samples_are_empty_and_missing_ones_go(reasons: tuple[str, ...], others: tuple[str, ...]) -> None:
    answer = completion(body(*reasons), 3, 0.0, 0.0)
    assert (answer.text, answer.others) == ("sample 0", others)
    with pytest.raises(ExchangeFailure, match=r"\d choices where 1 were asked for"):
        completion(body(*reasons), 1, 0.0, 0.0)


@pytest.mark.parametrize("usage", [{"prompt_tokens": 10**30}, {"completion_tokens": -1}, {"completion_tokens": 2**31}])
def test_an_absurd_number_of_tokens_is_no_answer(usage: dict[str, int]) -> None:
    answer = json.loads(body("stop"))
    answer["usage"] |= usage
    with pytest.raises(ExchangeFailure, match="usage"):
        completion(json.dumps(answer).encode(), 1, 0.0, 0.0)
