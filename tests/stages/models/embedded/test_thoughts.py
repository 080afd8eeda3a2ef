"""The thoughts of the embedded policy: varied, consistent with the action, and about nothing but the request."""

import re
from collections.abc import Iterator
from itertools import product

from tests.records import record
from tests.stages.models.toy import DISHES, SIZE, ToyPhone, element, observe
from trajmill.schemas.actions import Action, Click, action_to_json, pressed_point
from trajmill.schemas.dialects.user_text import UserText
from trajmill.schemas.observation import Observation, UIElement
from trajmill.schemas.tables.trajectory import Step, TargetElement
from trajmill.stages.curate.episodes import contradiction
from trajmill.stages.models.embedded.model import reply_for
from trajmill.stages.models.embedded.situation import InputReader

NOTE = observe(
    element("heading", "Checkout", "title"),
    element("text_field", "Note", "clickable", "editable", "focused"),
    element("switch", "Gift", "clickable", "checked"),
    element("text", "3"),
    element("list", "", "scrollable_down", "scrollable_up"),
)
PASTS = (
    (),
    ('Typed "Ann" into "Note" on "Checkout".', 'Confirmed on "Checkout", noting "Total: 12".'),
    ("Something that nobody can parse.",),
)


def thoughts(hints: tuple[str, ...]) -> Iterator[tuple[str, Action, Observation, UserText]]:
    reader = InputReader()
    for screen, dish, past in product((ToyPhone(0).look(), NOTE, observe(element("button", ""))), DISHES[:3], PASTS):
        user = UserText(f'please order {dish} in size Large with the note "ring twice"', hints, past)
        read = reader.read(user, screen.screen.screen_id, SIZE, screen.elements or (), phone=True)
        for chosen in range(len(read.candidates)):
            reply = reply_for(read, chosen, user, phone=True)
            assert reply.action is not None and reply == reply_for(read, chosen, user, phone=True)
            yield reply.thought, reply.action, screen, user


def target(screen: Observation, action: Action) -> UIElement | None:
    point = pressed_point(action) if isinstance(action, Click) else None
    return next((each for each in screen.elements or () if point and each.bounds.contains(*point)), None)


def test_thoughts_vary_agree_with_their_actions_and_name_only_what_the_request_shows_without_its_hints() -> None:
    made = list(thoughts(()))
    assert [each[0] for each in made] == [each[0] for each in thoughts(("1. Tap the secret door.",))]
    assert len({re.sub(r'"[^"]*"|\d+', "…", thought) for thought, *_ in made}) > 100
    assert any('I confirmed the input after noting "Total: 12".' in thought for thought, *_ in made)
    for thought, action, screen, user in made:
        pressed = target(screen, action)
        element_ = None if pressed is None else TargetElement(role="", text=pressed.text, bounds=pressed.bounds)
        step = record(Step, thought=thought, action=action_to_json(action), target=element_)
        assert contradiction(step) is None, thought
        assert thought == " ".join(thought.split()) and thought.endswith("."), thought
        of_task = re.findall(r'(?:speaks of|asks for) "([^"]*)"|"([^"]*)" stands in', thought)
        assert all("".join(each) in user.instruction for each in of_task), thought
        shown = " ".join(f"{each.text} {each.value}" for each in screen.elements or ())
        known = " ".join([shown, user.instruction, *user.conclusions, "a screen without a title"])
        words = set(known.replace('"', " ").split())
        assert all(set(name.split()) <= words for name in re.findall('"([^"]+)"', thought)), thought
