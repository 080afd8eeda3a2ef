"""The agent of `trajmill walk` is chosen for each query: one without a path takes no path from the others."""

from __future__ import annotations

from tests.stages.agents.test_end_to_end import CLICK, Scripted
from tests.stages.rollout.toy import toy_query
from trajmill.schemas.dialects.families import ANY
from trajmill.schemas.tables.query import PathStep
from trajmill.stages.agents.base import AgentModel
from trajmill.stages.agents.spec import WalkerSpec

PATH = (PathStep(page="toy.start", operation="finish", target=""),)


def test_only_a_query_without_a_path_is_explored() -> None:
    without, with_path = toy_query().model_copy(update={"path": ()}), toy_query().model_copy(update={"path": PATH})
    make = WalkerSpec().open(AgentModel(Scripted(CLICK), ANY, 0.5))
    assert [make(query).name for query in (without, with_path)] == ["explorer", "reference"]


def test_queries_with_paths_alone_need_no_model() -> None:
    assert WalkerSpec().open(None)(toy_query().model_copy(update={"path": PATH})).name == "reference"
