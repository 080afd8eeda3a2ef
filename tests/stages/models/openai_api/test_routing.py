import asyncio

import pytest

from tests.stages.models.fault_server import Fault, running_server
from tests.stages.models.openai_api.asking import asked_all, request, settings
from trajmill.stages.models.base import Completion
from trajmill.stages.models.openai_api.model import OpenAiModel

pytestmark = pytest.mark.slow


async def test_two_servers_share_the_requests_and_a_retry_goes_to_the_other() -> None:
    with running_server(seconds=0.05) as first, running_server(seconds=0.05) as second:
        await asked_all(settings(first.url, second.url), [request() for _ in range(40)])
        assert len(first.received) == len(second.received) == 20
    with running_server([Fault.INTERNAL]) as first, running_server([Fault.INTERNAL]) as second:
        await asked_all(settings(first.url, second.url), [request()])
        assert (len(first.received), len(second.received)) == (2, 1)


async def test_a_dead_server_costs_no_call_and_one_that_hangs_few_and_each_is_left_alone() -> None:
    with running_server() as dead:
        pass
    with running_server() as alive:
        answers = await asked_all(settings(dead.url, alive.url, attempts=2), [request() for _ in range(30)])
        assert all(isinstance(answer, Completion) for answer in answers)
        assert len(alive.received) == 30
    with running_server([Fault.HANG] * 50) as bad, running_server() as good:
        model = OpenAiModel(settings(bad.url, good.url, read_seconds=0.3, probe_seconds=60.0))
        for _ in range(20):
            assert (await model.complete(request())).text == "fine"
        await model.close()
        assert len(bad.received) == 3 and len(good.received) == 20


async def test_a_server_that_comes_back_is_used_again() -> None:
    with running_server() as gone:
        port = gone.port
    with running_server() as alive:
        model = OpenAiModel(settings(gone.url, alive.url, probe_seconds=0.02))
        for _ in range(4):
            await model.complete(request())
        assert len(alive.received) == 4
        with running_server(port=port) as back:
            for _ in range(2_000):
                await model.complete(request())
                if back.received:
                    break
                await asyncio.sleep(0.005)
            assert back.listings > 0 and back.received
            await model.close()


async def test_no_more_in_flight_than_allowed_and_an_overloaded_server_gets_fewer() -> None:
    with running_server(seconds=0.02) as server:
        answers = await asked_all(settings(server.url, max_in_flight=5), [request() for _ in range(60)])
        assert all(isinstance(answer, Completion) for answer in answers)
        assert server.most_in_flight == 5
    with running_server(capacity=4, seconds=0.01) as server:
        client = settings(server.url, max_in_flight=64, attempts=12, first_wait_seconds=0.02)
        answers = await asked_all(client, [request() for _ in range(300)])
        assert all(isinstance(answer, Completion) for answer in answers)
        # Without adapting, each of the 300 would be refused several times over.
        assert len(server.received) < 600
