"""What is sent, what comes back, and how a client lives through several event loops."""

from __future__ import annotations

import asyncio
import gc
import json
from pathlib import Path

import pytest

from tests.stages.models.fault_server import Fault, FaultReply, running_server
from tests.stages.models.openai_api.asking import VARIABLES, asked, asked_all, request, settings
from tests.stages.models.test_images import handle, picture
from trajmill.schemas.coordinates import QWEN3_VL, CoordinateFrame
from trajmill.schemas.dialects.families import family_named
from trajmill.schemas.errors import BadInputError, ModelFailure
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import Observation
from trajmill.stages.models.base import ChatMessage, ChatRequest, Completion, ReplyTokens, TokenLogprob
from trajmill.stages.models.openai_api.model import OpenAiModel


def test_an_answer_with_usage_and_price() -> None:
    with running_server([FaultReply(text="Grüße ☂")], key="k-1") as server:
        client = settings(server.url, api_key_variable="KEY", input_price=2.0, output_price=10.0)
        assert asked(client) == Completion("Grüße ☂", 100, 10, "stop", price=(100 * 2 + 10 * 10) / 1e6)
        assert server.received[0].authorization == "Bearer k-1"
        assert "k-1" not in repr(client)


def test_the_tokens_of_a_reply_come_with_their_log_probabilities() -> None:
    with running_server([FaultReply(text="one three")] * 2) as server:
        assert asked(settings(server.url), request(with_tokens=True)).tokens == ReplyTokens((3, 5), (-0.5, -0.5))
        assert asked(settings(server.url)).tokens is None
        bodies = [received.body for received in server.received]
        assert [(body.get("logprobs"), body.get("return_token_ids")) for body in bodies] == [(True, True), (None, None)]


def test_other_tokens_than_log_probabilities_give_one_error_line() -> None:
    message = r"^[^\n]*: 3 log probabilities for 4 tokens; given up[^\n]*$"
    with running_server([Fault.UNEVEN_TOKENS]) as server, pytest.raises(ModelFailure, match=message):
        asked(settings(server.url, attempts=1), request(with_tokens=True))


def test_everything_asked_for_is_sent() -> None:
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
        asked(settings(server.url), chat)
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


def test_samples_come_in_order_and_log_probabilities_with_them() -> None:
    with running_server(writes=lambda body: "yes indeed") as server:
        answer = asked(settings(server.url), request(n=3, top_logprobs=2))
    assert (answer.text, answer.others) == ("yes indeed", ("yes indeed 1", "yes indeed 2"))
    assert answer.logprobs[0] == TokenLogprob("yes", -0.5, (("yes0", -0.5), ("yes1", -1.5)))
    assert [token.token for token in answer.logprobs] == ["yes", "indeed"]


@pytest.mark.parametrize(("family", "most"), [("qwen2.5-vl", 2**24), ("qwen3-vl", 2**24), ("gui-owl", 90_000)])
def test_the_frame_has_the_size_of_the_picture_that_arrives(family: str, most: int) -> None:
    sizes = (Size(720, 1280), Size(641, 359), Size(40, 30))
    known = family_named(family).within(most)
    with running_server() as server:
        client = settings(server.url, family=family, max_pixels=most)
        frames = [OpenAiModel(client).frame(size) for size in sizes]
        screens = [handle(picture(size), size, f"s-{size.width}") for size in sizes]
        asked(client, request("Look.", Observation(screens[0], None, ""), *screens[1:]))
        assert server.received[0].pictures == [frame.resized for frame in frames]
    assert frames[0] == CoordinateFrame(known.space, sizes[0], known.budget.fit(sizes[0]))


def test_a_cheap_pass_sends_smaller_pictures() -> None:
    size = Size(720, 1280)
    with running_server() as server:
        asked(settings(server.url, family="qwen3-vl"), request(handle(picture(size), size), image_scale=0.5))
        assert server.received[0].pictures == [QWEN3_VL.fit(Size(360, 640))]


def test_a_body_of_many_megabytes_arrives() -> None:
    with running_server() as server:
        asked(settings(server.url), request("x" * 5_000_000))
        assert len(server.received[0].body["messages"][0]["content"]) == 5_000_000


def test_a_picture_that_does_not_decode_takes_no_request_and_no_place() -> None:
    broken, whole = handle(b"nothing", Size(50, 50), "s-bad"), request("fine")
    with running_server() as server:
        answers = asked_all(settings(server.url, max_in_flight=1), [request(broken), request(broken), whole])
        assert [str(answer) for answer in answers[:2]] == [
            "screen s-bad: the image does not decode (no known format)"
        ] * 2
        assert all(isinstance(answer, ModelFailure) for answer in answers[:2])
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


def test_a_call_that_is_given_up_frees_its_place() -> None:
    async def run(model: OpenAiModel) -> str:
        calls = [asyncio.create_task(model.complete(request())) for _ in range(3)]
        await asyncio.sleep(0.1)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        server.seconds = 0.0
        answer = await model.complete(request())
        await model.close()
        return answer.text

    with running_server(seconds=30.0) as server:
        assert asyncio.run(run(OpenAiModel(settings(server.url, max_in_flight=1)))) == "fine"
        assert len(server.received) == 2


def _check(*urls: str, **changed: str) -> None:
    async def run() -> None:
        model = settings(*urls, **changed).connect(VARIABLES)
        try:
            await model.check()
        finally:
            await model.close()

    asyncio.run(run())


def test_a_check_passes_while_one_server_is_there() -> None:
    with running_server() as gone:
        pass
    with running_server(models=("other", "tiny"), key="k-1") as server:
        _check(gone.url, server.url, api_key_variable="KEY")


def test_a_check_says_what_is_wrong_in_one_line() -> None:
    with running_server() as gone:
        pass
    with pytest.raises(BadInputError, match=r"^no model server answers: http://\S+/v1: no connection [^\n]*; start it"):
        _check(gone.url)
    with (
        running_server(models=("other",)) as server,
        pytest.raises(BadInputError, match=r"/v1: no model 'tiny'; it serves 'other': name one of them$"),
    ):
        _check(server.url)
    with (
        running_server(key="k-1") as server,
        pytest.raises(BadInputError, match=r"/v1/models: 401 Unauthorized; check the API key[^\n]*$"),
    ):
        _check(server.url)
    with (
        running_server() as server,
        pytest.raises(BadInputError, match=r"/models: 404 [^\n]*the URL ends in /v1$"),
    ):
        _check(server.url.removesuffix("/v1"))
