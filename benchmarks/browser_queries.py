"""Queries to measure the browser environments with."""

from __future__ import annotations

import json
from collections.abc import Mapping

from schemas.query import Platform, Query, Source, Split

_CARD = "<div class=card><h3>Card {0}</h3><p>Text of card {0}</p><button>Choose {0}</button></div>"
CARDS = (
    "<!doctype html><html lang=en><style>body { font: 14px sans-serif } .card { display: inline-block; width: 180px; "
    "margin: 4px; padding: 8px; border: 1px solid #999 }</style><h1>Cards</h1>"
    + "".join(_CARD.format(number) for number in range(60))
    + "<script>document.onclick = (event) => event.target.style.background = 'gold'</script>"
).encode()
"""A page of 60 cards with a button each."""


def card_query(url: str) -> Query:
    """Starts on the page of cards."""
    goal = {"all": [{"check": "text", "selector": "h1", "equals": "Cards"}]}
    return _query("cards", {"url": url}, goal)


def page_query(page: str) -> Query:
    """Starts on a MiniWoB++ page."""
    return _query(page, {"page": page, "seed": 0}, {})


def _query(task: str, start: Mapping[str, object], goal: Mapping[str, object]) -> Query:
    start_state = json.dumps(start)
    return Query(
        query_id=Query.make_id(Platform.WEB, task, (), start_state, ""),
        platform=Platform.WEB,
        apps=(task,),
        source=Source.IMPORTED,
        task=task,
        raw_instruction="",
        instruction="",
        phrasing="",
        pages=(),
        page_descriptions=(),
        slots=(),
        path=(),
        start_state=start_state,
        goal=json.dumps(goal),
        difficulty=1,
        max_steps=10,
        split=Split.TRAIN,
        validation="passed",
        round=1,
        run_id="benchmark",
        made_by="benchmark",
        code_version="benchmark",
    )
