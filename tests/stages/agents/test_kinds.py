from __future__ import annotations

import pickle

import pytest

from tests.stages.agents.test_end_to_end import CLICK, Scripted
from tests.stages.rollout.toy import toy_query
from trajmill.schemas.dialects.families import ANY
from trajmill.schemas.tables.query import PathStep
from trajmill.stages.agents.base import AgentModel
from trajmill.stages.agents.end_to_end import EndToEndAgent
from trajmill.stages.agents.spec import AGENTS, AgentSpec, WalkerSpec


def spec_of(kind: str) -> AgentSpec:
    spec = AGENTS.spec_class(kind)()
    assert isinstance(spec, AgentSpec)
    return spec


@pytest.mark.parametrize("kind", AGENTS.kinds())
def test_each_kind_is_sent_to_workers_and_names_itself(kind: str) -> None:
    spec = spec_of(kind)
    assert pickle.loads(pickle.dumps(spec)) == spec
    agent = spec.open(AgentModel(Scripted(CLICK), ANY, 0.5))(toy_query())
    assert agent.name == kind


def test_the_explorer_always_explores() -> None:
    agent = spec_of("explorer").open(AgentModel(Scripted(CLICK), ANY, 0.0))(toy_query())
    assert isinstance(agent, EndToEndAgent)
    assert (agent.temperature, agent.role, agent.model_version) == (1.0, "explorer", "scripted-1")


def test_an_agent_that_asks_a_model_needs_one() -> None:
    with pytest.raises(ValueError, match="asks a model"):
        spec_of("end_to_end").open(None)


def test_a_walker_explores_only_for_a_query_without_a_path() -> None:
    path = (PathStep(page="toy.start", operation="finish", target=""),)
    without, with_path = (toy_query().model_copy(update={"path": each}) for each in ((), path))
    make = WalkerSpec().open(AgentModel(Scripted(CLICK), ANY, 0.5))
    assert [make(query).name for query in (without, with_path)] == ["explorer", "reference"]
    assert WalkerSpec().open(None)(with_path).name == "reference", "paths alone need no model"
