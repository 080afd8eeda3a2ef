"""The path of a query is read as transitions of its graph, and these say what must stand at the end."""

from __future__ import annotations

from tests.stages.queries.graph.shop import LIST
from trajmill.stages.critics.app_graph.episode_on_graph import asked_for
from trajmill.stages.queries.graph.routes import samples_by_task
from trajmill.stages.queries.graph.source import route_path


def test_each_addition_is_wanted_with_its_own_value() -> None:
    sample = samples_by_task(LIST, 0)["list.things-add-add"][0]
    path = route_path(sample)
    values = [setting.value for setting in sample.settings]
    assert [dict(each.values) for each in asked_for(LIST, path).taken] == [{"new": value} for value in values]
    assert {feature.text for feature in asked_for(LIST, path).shown_at(sample.end)} == set(values)


def test_an_item_of_a_list_gives_its_value() -> None:
    sample = samples_by_task(LIST, 0)["list.thing-thing"][0]
    (taken,) = asked_for(LIST, route_path(sample)).taken
    assert dict(taken.values) == {"thing": sample.settings[0].value}


def test_a_path_to_a_page_wants_nothing_more() -> None:
    (sample,) = samples_by_task(LIST, 0)["list.visit"]
    assert asked_for(LIST, route_path(sample)).shown_at(sample.end) == []
