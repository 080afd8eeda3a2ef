import re

import pytest

from tests.stages.models.fault_server import Fault, FaultReply, running_server
from tests.stages.models.openai_api.asking import asked, settings
from trajmill.schemas.errors import ModelFailure

pytestmark = pytest.mark.slow

_BOUNDS = {"read_seconds": 0.3, "total_seconds": 0.6, "attempts": 3}
_RETRIED = {
    Fault.BUSY: "429 Rate limit reached",
    Fault.UNAVAILABLE: "503 Service unavailable",
    Fault.INTERNAL: "500 Internal server error",
    Fault.HANG: "timed out",
    Fault.CUT: "connection cut",
    Fault.CUT_WITHIN: "connection cut",
    Fault.TRUNCATED: "not the protocol's",
    Fault.WRONG_SCHEMA: "not the protocol's",
    Fault.EMPTY_CHOICES: "0 choices where 1 were asked for",
    Fault.NO_TEXT: "a choice without text",
    Fault.ABORTED: "ended with abort",
    Fault.SLOW: "timed out",
}
_FINAL = {
    Fault.HUGE: "an answer of more than 8 MiB",
    Fault.TOO_LONG: "400 This model's maximum context length is 8192 tokens",
    Fault.UNKNOWN_MODEL: "404 The model `tiny` does not exist.",
}


@pytest.mark.parametrize("fault", _RETRIED)
async def test_a_request_is_sent_again_until_the_last_attempt_which_gives_one_error_line(fault: Fault) -> None:
    with running_server([fault] * 4) as server:
        with pytest.raises(ModelFailure) as failed:
            await asked(settings(server.url, **_BOUNDS))
        assert len(server.received) == 3
        line = str(failed.value)
        assert line.startswith(f"{server.url} (tiny): ") and line.endswith("; given up after 3 attempts")
        assert _RETRIED[fault] in line and "\n" not in line and len(line) < 400
        assert (await asked(settings(server.url, **_BOUNDS))).text == "fine"
        assert len(server.received) == 5
        assert all(received.body == server.received[0].body for received in server.received)


@pytest.mark.parametrize("fault", _FINAL)
async def test_a_fault_of_the_request_gives_one_error_line_at_once(fault: Fault) -> None:
    with running_server([fault]) as server:
        with pytest.raises(ModelFailure, match=re.escape(_FINAL[fault])) as failed:
            await asked(settings(server.url, attempts=3))
        assert len(server.received) == 1
        assert "\n" not in str(failed.value) and len(str(failed.value)) < 400


async def test_retry_after_is_waited_for() -> None:
    with running_server([FaultReply(Fault.BUSY, "1"), FaultReply(Fault.UNAVAILABLE, "0")]) as server:
        assert (await asked(settings(server.url))).text == "fine"
        first, second, _ = server.received
        # A bound from below, which no busy machine can break.
        assert second.at - first.at >= 1.0


@pytest.mark.parametrize("retry_after", ["3600", "Fri, 01 Jan 2100 00:00:00 GMT"])
async def test_a_server_that_asks_for_too_long_a_wait_fails_the_call(retry_after: str) -> None:
    with running_server([FaultReply(Fault.BUSY, retry_after)]) as server:
        with pytest.raises(ModelFailure, match=r"429 Rate limit reached; asks to wait \d{4,} s$"):
            await asked(settings(server.url))
        assert len(server.received) == 1


async def test_without_any_server_one_line_says_so_and_no_message_shows_a_password() -> None:
    with running_server([Fault.TOO_LONG]) as server:
        with pytest.raises(ModelFailure) as failed:
            await asked(settings(server.url.replace("//", "//user:hunter2@")))
        assert "hunter2" not in str(failed.value) and server.url in str(failed.value)
    with pytest.raises(ModelFailure, match=r"no connection .*given up after 2 attempts"):
        await asked(settings(server.url, attempts=2))
