"""Agents whose roles answer over a real socket: a server that answers each role as the test says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.stages.agents.errand import ORIGIN, phone, redeem_query
from tests.stages.models.fault_server import FaultServer
from tests.stages.models.openai_api.asking import settings
from trajmill.schemas.dialects.families import ANY
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.agents.base import AgentModel
from trajmill.stages.agents.spec import AgentSpec
from trajmill.stages.rollout.base import Attempt, FinishedAttempt, Limits
from trajmill.stages.rollout.episode import run_episode

STEPS: Final = 3
ACTS: Final = '<tool_call>\n{"name": "mobile_use", "arguments": {"action": "wait", "time": 1}}\n</tool_call>'
GOOD: Final = {
    "manager": "**Plan:**\n1. Open Mail",
    "reflector": "Outcome: SUCCESS",
    "notetaker": "None.",
    "coordinator": "<think>Not yet.</think><answer>Wait.</answer>",
    "state_tracker": "<answer>Waited.</answer>",
    "planner": "Wait a second.",
    "parser": "1. [phone] Wait",
}
_BEGINS: Final = {
    "You plan the work": "manager",
    "You check the work": "reflector",
    "You take notes": "notetaker",
    "You coordinate": "coordinator",
    "You keep the state": "state_tracker",
    "You plan the next step": "planner",
    "You divide a task": "parser",
}


def role_of(body: Mapping[str, Any]) -> str:
    """The role that a request asks, by its prompt; `acting` for one in the layout of a family."""
    system = body["messages"][0]["content"]
    text = system if isinstance(system, str) else system[0]["text"]
    return next((role for start, role in _BEGINS.items() if text.startswith(start)), "acting")


def answering(replies: Mapping[str, str]) -> Callable[[Mapping[str, Any]], str]:
    """Answer each role well, but for some replies."""
    return lambda body: {"acting": ACTS, **GOOD, **replies}[role_of(body)]


def rolled_out(spec: AgentSpec, server: FaultServer, seed: int = 0) -> FinishedAttempt:
    """One attempt of a few steps; each role has an endpoint of its own at the server."""
    query = redeem_query().model_copy(update={"max_steps": STEPS})

    async def attempt() -> FinishedAttempt:
        names = ["policy", *spec.endpoint_roles()]
        models = {name: settings(server.url).connect({}) for name in names}
        given = AgentModel(models.pop("policy"), ANY, 0.0, roles=models, families=dict.fromkeys(models, ANY))
        agent = spec.open(given)(query)
        try:
            return await run_episode(Attempt(query, Purpose.TRAIN, 0, seed), agent, phone(), Limits(), ORIGIN)
        finally:
            for model in (given.model, *models.values()):
                await model.close()

    return asyncio.run(attempt())
