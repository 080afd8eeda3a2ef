"""Ends the flow runs that the server still calls running, although what ran them is gone, e.g. by a loss of power."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterName,
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import State, StateType
from prefect.states import Crashed

from trajmill.flows.nights.after_flow import conclude

_UNFINISHED = [StateType.RUNNING, StateType.PENDING, StateType.CANCELLING]


def end_lost_runs(deployments: Collection[str]) -> int:
    """End all unfinished runs of deployments as crashed, and tell people; returns how many.

    Call it before anything serves the deployments, at a server that nobody else uses.
    """
    unfinished = FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=_UNFINISHED)))
    ours = DeploymentFilter(name=DeploymentFilterName(any_=list(deployments)))
    with get_client(sync_client=True) as client:
        lost = client.read_flow_runs(flow_run_filter=unfinished, deployment_filter=ours)
        for run in lost:
            state: State[Any] = Crashed(
                message="the process that ran it is gone: `trajmill serve` or its machine was stopped"
            )
            client.set_flow_run_state(run.id, state, force=True)
            assert run.deployment_id is not None, "it was found by its deployment"
            conclude(client.read_deployment(run.deployment_id).name, run, state)
    return len(lost)
