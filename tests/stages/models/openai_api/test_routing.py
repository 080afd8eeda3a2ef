"""Several servers: the least busy is asked, a dead one is left alone until it is back, a busy one is spared."""

from __future__ import annotations

import asyncio

import pytest

from tests.stages.models.fault_server import Fault, running_server
from tests.stages.models.openai_api.asking import asked_all, request, settings
from trajmill.stages.models.base import Completion
from trajmill.stages.models.openai_api.exchange import FailureReason
from trajmill.stages.models.openai_api.model import OpenAiModel
from trajmill.stages.models.openai_api.routing import Lease, Router, Server

pytestmark = pytest.mark.slow


def test_two_servers_share_the_requests() -> None:
    with running_server(seconds=0.05) as first, running_server(seconds=0.05) as second:
        asked_all(settings(first.url, second.url), [request() for _ in range(40)])
        assert len(first.received) == len(second.received) == 20


def test_a_dead_server_costs_no_call_and_is_left_alone() -> None:
    with running_server() as dead:
        pass
    with running_server() as alive:
        answers = asked_all(settings(dead.url, alive.url, attempts=2), [request() for _ in range(30)])
        assert all(isinstance(answer, Completion) for answer in answers)
        assert len(alive.received) == 30


def test_a_server_that_hangs_is_left_alone_after_a_few() -> None:
    async def run() -> None:
        model = OpenAiModel(settings(bad.url, good.url, read_seconds=0.3, probe_seconds=60.0))
        for _ in range(20):
            assert (await model.complete(request())).text == "fine"
        await model.close()

    with running_server([Fault.HANG] * 50) as bad, running_server() as good:
        asyncio.run(run())
        assert len(bad.received) == 3
        assert len(good.received) == 20


def test_a_server_that_comes_back_is_used_again() -> None:
    with running_server() as gone:
        port = gone.port

    async def run() -> None:
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

    with running_server() as alive:
        asyncio.run(run())


def test_a_retry_goes_to_another_server() -> None:
    with running_server([Fault.INTERNAL]) as first, running_server([Fault.INTERNAL]) as second:
        asked_all(settings(first.url, second.url), [request()])
        assert (len(first.received), len(second.received)) == (2, 1)


def test_no_more_in_flight_than_allowed() -> None:
    with running_server(seconds=0.05) as server:
        answers = asked_all(settings(server.url, max_in_flight=5), [request() for _ in range(60)])
        assert all(isinstance(answer, Completion) for answer in answers)
        assert server.most_in_flight == 5


def test_an_overloaded_server_gets_fewer_at_a_time() -> None:
    with running_server(capacity=4, seconds=0.01) as server:
        client = settings(server.url, max_in_flight=64, attempts=12, first_wait_seconds=0.02)
        answers = asked_all(client, [request() for _ in range(300)])
        assert all(isinstance(answer, Completion) for answer in answers)
        # Without adapting, each of the 300 would be refused several times over.
        assert len(server.received) < 600


def test_the_window_halves_once_for_those_refused_together_and_grows_by_one_per_window() -> None:
    server = Server("a", 16)
    epoch = server.epoch
    for _ in range(10):
        server.shrink(epoch)
    assert server.window == 8
    for _ in range(9):
        server.grow()
    assert server.window == 9
    for _ in range(20):
        server.shrink(server.epoch)
    assert server.window == 1
    for _ in range(400):
        server.grow()
    assert server.window == 16


async def _never(url: str) -> bool:
    return False


def test_places_are_given_in_the_order_in_which_they_were_asked_for() -> None:
    async def run() -> None:
        router = Router(["a"], 1, 10.0, _never)
        held = await router.lease()
        order: list[int] = []

        async def wait(number: int) -> None:
            lease = await router.lease()
            order.append(number)
            router.release(lease, None)

        waiting = [asyncio.create_task(wait(number)) for number in range(5)]
        await asyncio.sleep(0)
        waiting[1].cancel()
        router.release(held, None)
        waiting[2].cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert order == [0, 3, 4]
        assert (await asyncio.wait_for(router.lease(), 200)).server.in_flight == 1

    asyncio.run(run())


def test_a_place_given_to_a_caller_that_left_is_given_on() -> None:
    async def run() -> None:
        router = Router(["a"], 1, 10.0, _never)
        held = await router.lease()
        leaving, staying = (asyncio.create_task(router.lease()) for _ in range(2))
        await asyncio.sleep(0)
        router.release(held, None)
        leaving.cancel()
        lease = await asyncio.wait_for(staying, 200)
        assert isinstance(lease, Lease) and lease.server.in_flight == 1

    asyncio.run(run())


def test_where_all_servers_are_dead_they_are_still_asked() -> None:
    async def run() -> None:
        router = Router(["a", "b"], 4, 10.0, _never)
        for _ in range(2):
            router.release(await router.lease(), FailureReason.UNREACHABLE)
        assert {(await router.lease()).server.url for _ in range(2)} == {"a", "b"}
        await router.close()

    asyncio.run(run())
