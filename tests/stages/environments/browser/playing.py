import json
from typing import Any

from tests.stages.environments.shared_factory import SharedFactory
from trajmill.schemas.actions import Click
from trajmill.schemas.observation import Observation, UIElement
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.environments.browser.environment import BrowserEnvironment
from trajmill.stages.environments.browser.episode import PageTimeouts
from trajmill.stages.environments.tasks import own_query

ORIGIN = Origin(round=1, run_id="run", code_version="test")
SharedBrowser = SharedFactory[BrowserEnvironment]
PATIENT = PageTimeouts(load=100.0, turn=100.0, network=1.0)
"""Only the network is not waited for long, as a page of the tests never rests."""


def a_query(url: str, goal: tuple[dict[str, str], ...] = (), **start: Any) -> Query:
    platform = Platform.PHONE if start.get("mobile") else Platform.WEB
    start_state = json.dumps({"url": url, "viewport": [640, 480], **start})
    others = {"apps": ("site",), "goal": json.dumps({"all": goal}), "phrasing": "test", "max_steps": 10}
    return own_query(platform, "task", "Do it.", start_state, ORIGIN, "test", **others)


def element(seen: Observation, role: str, text: str = "") -> UIElement:
    assert seen.elements is not None
    return next(e for e in seen.elements if e.role == role and text.lower() in e.text.lower())


def texts(seen: Observation) -> list[str]:
    assert seen.elements is not None
    return [e.text for e in seen.elements]


def press(target: UIElement) -> Click:
    return Click(x=target.bounds.center.x, y=target.bounds.center.y)
