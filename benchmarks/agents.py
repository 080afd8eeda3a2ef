"""The agents beside each other: success, steps, calls and tokens per success on the same held-out queries.

`python -m benchmarks.agents --root trajmill-data` takes the held-out queries and the policy in force of a warehouse of
the default job. The policy stands behind the role that acts, embedded rules behind all other roles. Each agent makes a
greedy attempt at each query, with the evaluation seeds of the loop, on devices that lose no tap and some that do.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from trajmill.pipelines.models import ActingAgent
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.policy_version import PolicyVersion
from trajmill.schemas.tables.query import Platform, Query, Split
from trajmill.schemas.tables.trajectory import Purpose, Trajectory
from trajmill.stages.agents.ces.agent import CesSpec
from trajmill.stages.agents.coda.agent import CodaSpec
from trajmill.stages.agents.light_manus.agent import LightManusSpec
from trajmill.stages.agents.mobile_agent_v3.agent import MobileAgentV3Spec
from trajmill.stages.agents.spec import AgentSpec, EndToEndSpec
from trajmill.stages.environments.kinds import FaultRates, SimulatedSpec
from trajmill.stages.metrics.intervals import wilson
from trajmill.stages.models.embedded.spec import EmbeddedSpec
from trajmill.stages.models.spec import Endpoint
from trajmill.stages.rollout.base import FinishedAttempt, Limits, plan_once
from trajmill.stages.rollout.worker import run_attempts
from trajmill.warehouse.layout import Warehouse, open_warehouse
from trajmill.warehouse.read import read_rows

AGENTS: Mapping[str, AgentSpec] = {
    "end_to_end": EndToEndSpec(),
    "mobile_agent_v3": MobileAgentV3Spec(),
    "mobile_agent_v3, reflector off": MobileAgentV3Spec(reflector="off"),
    "coda": CodaSpec(),
    "ces": CesSpec(),
    "light_manus": LightManusSpec(),
}
ORIGIN = Origin(round=0, run_id="benchmark", code_version="benchmark")
_CONCURRENCY = 32


class AgentRow(NamedTuple):
    """The figures of one agent on one set of queries."""

    attempts: int
    successes: int
    steps: float
    """Mean of an attempt."""
    calls: float
    """Model calls, of all roles, for each success."""
    tokens: float
    """Input and output tokens of all roles for each success."""


async def measured(spec: AgentSpec, policy: Path, queries: Sequence[Query], faults: FaultRates, seed: int) -> AgentRow:
    """One greedy attempt of an agent at each query."""
    finished: list[FinishedAttempt] = []

    async def record(attempt: FinishedAttempt) -> None:
        finished.append(attempt)

    environment = SimulatedSpec(faults=faults)
    attempts = plan_once(queries, Purpose.EVALUATE, seed, 0)
    async with ActingAgent(spec, Endpoint(EmbeddedSpec(model=policy)), temperature=0.0).open() as make_agent:
        for platform in Platform:
            of_platform = [attempt for attempt in attempts if attempt.query.platform is platform]
            factory = environment.factory(platform)
            await run_attempts(of_platform, make_agent, factory, Limits(), ORIGIN, record, _CONCURRENCY)
    return _row([each.episode.trajectory for each in finished], sum(len(each.episode.calls) for each in finished))


def _row(trajectories: Sequence[Trajectory], calls: int) -> AgentRow:
    successes = sum(each.reward == 1.0 for each in trajectories)
    tokens = sum(each.input_tokens + each.output_tokens for each in trajectories)
    steps = sum(each.steps for each in trajectories) / len(trajectories)
    return AgentRow(len(trajectories), successes, steps, calls / max(1, successes), tokens / max(1, successes))


def newest_policy(warehouse: Warehouse) -> PolicyVersion:
    """The embedded policy that was promoted last."""
    rows = [row for row in read_rows(warehouse, PolicyVersion) if row.promoted and row.folder]
    return max(rows, key=lambda row: row.round)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path("trajmill-data"), help="a warehouse of the default job")
    parser.add_argument("--queries", type=int, default=60)
    parser.add_argument("--split", type=Split, default=Split.HELDOUT_SLOTS)
    parser.add_argument("--lost-tap", type=float, nargs="*", default=[0.0, 0.1, 0.2])
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    warehouse = open_warehouse(given.root)
    policy = newest_policy(warehouse)
    found = [row for row in read_rows(warehouse, Query, run_id=policy.run_id) if row.split is given.split]
    queries = sorted(found, key=lambda query: query.query_id)[: given.queries]
    print(f"{len(queries)} queries of {given.split}, policy {policy.model_version}\n")
    print("| taps lost | agent | success | 95 % | steps | calls per success | tokens per success |")
    print("|---|---|---|---|---|---|---|")
    for lost in given.lost_tap:
        for name, spec in AGENTS.items():
            folder = given.root / str(policy.folder)
            row = asyncio.run(measured(spec, folder, queries, FaultRates(lost_tap=lost), given.seed))
            between = wilson(row.successes, row.attempts)
            print(
                f"| {lost:.0%} | {name} | {row.successes / row.attempts:.0%} | {between.low:.0%} to {between.high:.0%} "
                f"| {row.steps:.1f} | {row.calls:.0f} | {row.tokens:,.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
