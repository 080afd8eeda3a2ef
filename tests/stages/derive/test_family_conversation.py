import pytest

from tests.stages.derive.samples import DONE, PHONE, TAP, episode, query, size_of, step
from tests.stages.models.scripted import ScriptedModel
from tests.stages.models.toy import ToyPhone
from trajmill.schemas.actions import Action, Click, LongPress, Swipe, TypeText, action_to_json
from trajmill.schemas.dialects.base import NotExpressible, Reply
from trajmill.schemas.dialects.families import FAMILIES, Family
from trajmill.schemas.episode import Episode
from trajmill.schemas.geometry import Box
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import Platform
from trajmill.schemas.tables.trajectory import TargetElement
from trajmill.stages.agents.base import Decision, EpisodeView
from trajmill.stages.agents.end_to_end import EndToEndAgent
from trajmill.stages.derive.conversation import family_conversation
from trajmill.stages.models.base import ChatMessage, ChatRequest
from trajmill.stages.models.openai_api.spec import OpenAiSpec

ACTIONS: tuple[Action, ...] = (
    Click(x=36, y=128),
    Swipe(x=360, y=960, x2=360, y2=320),
    TypeText(text="Pad Thai"),
    Click(x=360, y=640),
    Click(x=180, y=320),
    Click(x=540, y=960),
    DONE,
)
families = pytest.mark.parametrize("family", FAMILIES.values(), ids=list(FAMILIES))


async def played(family: Family) -> tuple[Episode, list[ChatRequest]]:
    """An episode that a model of the family acted in, its third reply no action, and the requests that it got."""
    frame, dialect = family.frame(PHONE), family.dialect(Platform.PHONE)
    replies = [dialect.render(Reply("I see.", a, f"Do {n}."), frame) for n, a in enumerate(ACTIONS)]
    replies[2] = "I do not know."
    rest = iter(replies)
    model = ScriptedModel(lambda _: next(rest), family=family)
    agent = EndToEndAgent(model, Platform.PHONE, family=family)
    seen: list[Observation] = []
    decisions: list[Decision] = []
    for _ in replies:
        now = ToyPhone(0).look()
        view = EpisodeView("Order q", None, now, tuple(decisions), 7, tuple(seen))
        decisions.append(await agent.act(view))
        seen.append(now)
    steps = []
    for index, made in enumerate(decisions):
        told = {name: getattr(made, name) for name in ("thought", "conclusion", "raw_response", "prompt")}
        action = None if made.action is None else action_to_json(made.action)
        shown = {"screen_before": seen[index].screen.screen_id, "action": action}
        steps.append(step(index, made.action).model_copy(update=told | shown))
    return episode(steps, asked=query()), model.asked


def as_sent(message: ChatMessage) -> tuple[str, str]:
    return message.role, "".join(part if isinstance(part, str) else "<image>" for part in message.parts)


@pytest.mark.parametrize("screens", [1, 2, 3])
async def test_gui_owl_is_shown_one_to_three_screens(screens: int) -> None:
    """GUI-Owl 2.1: the most recent 1 to 3 images are retained, and the conclusions of what came before."""
    spec = OpenAiSpec(model="owl", urls=("http://127.0.0.1:1/v1",), family="gui-owl", screens=screens)
    family = spec.vision_family
    acted, asked = await played(family)
    made = family_conversation(family, acted, 5, lambda _: PHONE)
    assert [(m.role, m.content) for m in made.messages[:-1]] == [as_sent(message) for message in asked[5].messages]
    assert len(made.screens) == screens
    told = made.messages[1].content
    assert ("Step 4: Do 3." in told, "Step 5: Do 4." in told) == (screens < 3, screens < 2), "shown steps are not told"


@families
async def test_the_rows_of_a_served_family_are_what_its_agent_was_sent_and_wrote(family: Family) -> None:
    acted, asked = await played(family)
    for at, request in enumerate(asked):
        made = family_conversation(family, acted, at, lambda _: PHONE)
        *prompt, reply = made.messages
        assert [(m.role, m.content) for m in prompt] == [as_sent(message) for message in request.messages]
        assert reply.content == acted.steps[at].raw_response
        assert len(made.screens) == sum(m.content.count("<image>") for m in prompt) == min(at, family.past_screens) + 1
        assert made.screens[-1] == acted.steps[at].screen_before


def test_an_action_without_words_in_the_family_is_refused() -> None:
    twice = step(0, TAP).model_copy(update={"action": action_to_json(Click(x=1, y=2, count=2))})
    doubled = episode([twice, step(1, DONE)])
    for at in (0, 1):
        with pytest.raises(NotExpressible, match="mobile_use cannot say"):
            family_conversation(FAMILIES["gui-owl-1.5"], doubled, at, size_of)
    told = family_conversation(FAMILIES["qwen3-vl"], doubled, 1, size_of)
    assert "Step 1: Did 0" in told.messages[1].content, "a step that is told alone need not be written"


WALLET = TargetElement(role="list_row", text='The "big" wallet', bounds=Box(left=0, top=0, right=720, bottom=128))


@pytest.mark.parametrize(
    ("action", "target", "order"),
    [
        (Click(x=36, y=64), WALLET, "Tap \"The 'big' wallet\"."),
        (Click(x=36, y=64), WALLET.model_copy(update={"text": ""}), "Tap the list row."),
        (LongPress(x=700, y=20), None, "Hold the element at the top right."),
        (Swipe(x=360, y=960, x2=360, y2=320), WALLET, "Scroll down."),
        (TypeText(text="Pad\nThai"), None, 'Type "Pad Thai".'),
        (DONE, None, "Report that the task is complete."),
    ],
)
def test_orders_say_what_to_do_and_are_remembered(action: Action, target: TargetElement | None, order: str) -> None:
    """In its prompt `Action:` is one imperative sentence; the stored conclusion says what came of the step."""
    told = {"target": target, "conclusion": 'Opened it. Noted "AMBER12".', "raw_response": ""}
    first = step(0, action).model_copy(update=told)
    acted = episode([first, step(1, DONE)])
    plain = family_conversation(FAMILIES["gui-owl-1.5"], acted, 0, size_of).messages[-1].content
    assert plain.startswith(f"Action: {order}\n<tool_call>") and "Noted" not in plain
    in_quotes = family_conversation(FAMILIES["qwen3-vl"], acted, 0, size_of).messages[-1].content
    inner = order.replace('"', "'")
    assert f'\nAction: "{inner}"\n<tool_call>' in in_quotes and "Noted" not in in_quotes
    later = family_conversation(FAMILIES["qwen3-vl"], acted, 1, size_of).messages[1].content
    assert later.partition("Step 1: ")[2].startswith(f"{inner}; ")


@families
def test_only_families_with_a_place_for_it_write_the_conclusion(family: Family) -> None:
    acted = episode([step(0, TAP).model_copy(update={"conclusion": "It is open.", "raw_response": ""}), step(1, DONE)])
    written = family_conversation(family, acted, 0, size_of).messages[-1].content
    assert ("It is open." in written) == (family.name in ("gui-owl", "any"))
