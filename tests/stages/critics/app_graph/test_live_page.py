"""The false positives that were found on a live page, on such a page in the real Chromium."""

from __future__ import annotations

import pytest

from benchmarks.live_judge import attempts_at, explored, judged, queries_of, serving

pytestmark = [pytest.mark.browser, pytest.mark.slow]

_TASKS = ("workshop.machines-set-filter", "workshop.machines-like-2-like-3")


async def test_a_text_elsewhere_and_one_of_two_presses_are_not_what_was_asked() -> None:
    with serving() as server:
        graph = await explored("workshop", server.url("workshop"), 3)
        asked = [each for each in await queries_of(graph, 1000, 0) if each.task in _TASKS]
        one_each = [next(each for each in asked if each.task == task) for task in _TASKS]
        kinds = ("right", "immediate", "one step")
        found = await judged(await attempts_at(graph, one_each, server, 3, 0, kinds), graph)
    assert [each.correct for each in found if each.tried.kind == "right"] == [True] * len(_TASKS)
    assert not [each for each in found if each.correct and not each.tried.in_state]
    unfinished = [each for each in found if each.tried.kind == "one step"]
    assert len(unfinished) >= len(_TASKS) and not any(each.correct for each in unfinished)
