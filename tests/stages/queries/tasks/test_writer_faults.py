"""The writer and the proposer on a server that misbehaves: failures are failures, and queries do not depend on them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.stages.models.fault_server import Fault, FaultReply, FaultServer, running_server
from tests.stages.queries.tasks.honest import honest_draft
from trajmill.schemas.record import Origin
from trajmill.stages.environments.simulated.world import World
from trajmill.stages.models.openai_api.model import OpenAiModel
from trajmill.stages.models.openai_api.spec import OpenAiSpec
from trajmill.stages.queries.base import NewQueries
from trajmill.stages.queries.model_writer import ModelWriter
from trajmill.stages.queries.spec import GraphQueriesSpec
from trajmill.stages.queries.tasks.source import SimulatedValidator, generate_queries

pytestmark = pytest.mark.slow

SETTINGS = GraphQueriesSpec(train=24, heldout_slots=4, heldout_phrasings=4, heldout_app_names=(), validation=0)
ENDING = (Fault.HANG, Fault.SLOW)
"""Faults that only a time-out ends."""
LASTING = (Fault.TOO_LONG, Fault.UNKNOWN_MODEL, Fault.HUGE)
"""Faults after which no second attempt is made."""
QUICK = [fault for fault in Fault if fault not in (Fault.NONE, *ENDING)]
PATIENCE = 60.0


def writes(body: dict[str, Any]) -> str:
    return honest_draft("\n".join(str(message["content"]) for message in body["messages"][:2]).replace("\\n", "\n"))


def client(server: FaultServer, attempts: int) -> OpenAiModel:
    return OpenAiModel(
        OpenAiSpec(
            urls=(server.url,),
            model="tiny",
            read_seconds=PATIENCE,
            total_seconds=PATIENCE,
            attempts=attempts,
            first_wait_seconds=0.001,
            probe_seconds=0.001,
        )
    )


def generate(world: World, origin: Origin, server: FaultServer, attempts: int, in_flight: int = 16) -> NewQueries:
    async def run() -> NewQueries:
        model = client(server, attempts)
        try:
            validator = SimulatedValidator(world)
            return await generate_queries(world, SETTINGS, 2, origin, ModelWriter(model), validator, in_flight)
        finally:
            await model.close()

    return asyncio.run(run())


def test_temporary_faults_change_no_query(world: World, origin: Origin) -> None:
    passing = [fault for fault in QUICK if fault not in LASTING]
    script = [FaultReply(fault, "0") if fault else FaultReply() for fault in [*passing, None, None] * 3]
    with running_server(writes=writes, seconds=0.05) as server:
        sound = generate(world, origin, server, attempts=1)
        assert 4 < server.most_in_flight <= 16
    with running_server(script, writes=writes) as server:
        troubled = generate(world, origin, server, attempts=12)
        assert not server.script
    assert len(sound.queries) == 32 and sound.failures == ()
    assert troubled == sound
