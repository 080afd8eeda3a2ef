from trajmill.schemas.actions import Click, Drag, LongPress, Swipe, Terminate, TypeText, Wait
from trajmill.schemas.dialects.user_text import UserText
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import HOLDABLE, SLIDER_MARK, UIElement
from trajmill.stages.models.embedded.candidates import (
    CandidateAction,
    may_give_up,
    names,
    next_keys,
    screen_candidates,
    typed_candidates,
)
from trajmill.stages.models.embedded.situation import InputReader
from trajmill.stages.models.embedded.words import read_conclusion, read_guidance_line
from trajmill.stages.training.embedded.lessons import chosen_candidate

SIZE = Size(720, 1280)
FIELD = UIElement("text_field", "Note", Box(0, 500, 700, 560), ("clickable", "editable", "focused"))


def test_a_labelled_text_is_replaced_where_the_dialect_can_say_so() -> None:
    for label, value, clears in (("Note", "old", True), ("Note", "", False), ("", "old", False)):
        typed, *_ = typed_candidates('Put "new" into Note', (), FIELD._replace(text=label, value=value))
        said = [typed.action(phone=phone) for phone in (False, True)]
        assert said == [TypeText(text="new", clear=clears), TypeText(text="new")]


def test_giving_up_is_offered_at_the_end_of_a_list_alone() -> None:
    row = UIElement("list_item", "Pizza", Box(0, 100, 720, 200), ("clickable",))
    end, middle = (UIElement("list", "", Box(0, 100, 720, 1200), (f"scrollable_{way}",)) for way in ("up", "down"))
    opened = read_conclusion('Tapped "Bites" on "Home screen".'), read_conclusion('Tapped "Dishes" on "Bites".')
    seen = *opened, read_conclusion('Scrolled down on "Dishes".')
    assert may_give_up(screen_candidates([row, end], SIZE, phone=True), "find the dish Soup", "Dishes", seen)
    for elements, offered in (([row], True), ([row, end], False), ([row, middle], False), ([], False)):
        found = screen_candidates(elements, SIZE, phone=True)
        assert may_give_up(found, "find the dish Soup", "Dishes", opened) is offered
    for wish, title in (("find the dish Pizza", "Dishes"), ("call Ann", "Dishes"), ("find Soup in Bites", "Bites")):
        assert not may_give_up(screen_candidates([row], SIZE, phone=True), wish, title, opened)
    said = 'Tapped "Soups" beside "Warm" on "Dishes".', 'Scrolled on "Soups".'
    folder = *opened, *map(read_conclusion, said)
    assert not may_give_up(screen_candidates([row], SIZE, phone=True), "find Lentils in Soups", "Soups", folder)
    give_up = CandidateAction("fail")
    assert give_up.action(phone=True) == Terminate(status="failure")
    line = read_guidance_line("3. Give up once you have scrolled through the whole list: it is not there.")
    assert names(line, give_up) and not names(line, screen_candidates([row], SIZE, phone=True)[0])


def test_the_next_key_of_a_sum_follows_what_was_pressed_last() -> None:
    for pressed, following in (("", "2"), ("24", "*"), ("24*7", "="), ("24*7=", ""), ("9", "")):
        past = [read_conclusion(f'Tapped "{key}" on "Calculator".') for key in pressed]
        assert "".join(next_keys("Please work out 24 * 7.", past)) == following


def test_what_is_held_dragged_or_awaited_has_candidates_of_its_own() -> None:
    row = UIElement("list_item", "Pizza", Box(0, 100, 720, 200), ("clickable", HOLDABLE))
    boxes = [Box(left, 300, left + 100, 400) for left in (0, 100, 200)]
    marks = [UIElement(SLIDER_MARK, text, box, (), "Volume") for text, box in zip("123", boxes, strict=True)]
    marks[1] = marks[1]._replace(states=("checked",))
    for phone, wanted, line in ((True, LongPress(x=360, y=150), "Hold"), (False, None, "Right-click")):
        press, held, _, _, third, *_ = found = screen_candidates([row, *marks], SIZE, phone=phone)
        assert held.action(phone=phone) == (wanted or Click(x=360, y=150, button="right"))
        movement = third.action(phone=phone)
        assert isinstance(movement, Swipe if phone else Drag) and (movement.x, movement.x2) == (150, 250)
        lines = [read_guidance_line(f'1. {line} "Pizza".'), read_guidance_line('2. Drag to "3" in Volume.')]
        assert [[each for each in found if names(line, each)] for line in lines] == [[held], [third]]
        assert [chosen_candidate(found, each.action(phone=phone), phone=phone) for each in (press, held)] == [0, 1]
    loading = UIElement("text", "One moment please...", Box(0, 100, 720, 200))
    assert [each.action(phone=True) for each in screen_candidates([row, loading], SIZE, phone=True)] == [Wait()]


def test_a_page_left_for_the_launcher_twice_is_not_left_again_and_waiting_is_no_past() -> None:
    title = UIElement("heading", "Clock", Box(0, 0, 720, 90), ("title",))

    def read(*past: str) -> tuple[bool, bytes]:
        found = InputReader().read(UserText("open Notes", (), past), "screen", SIZE, [title], phone=True)
        home = [each.verb for each in found.candidates].index("home")
        return bool(found.situation.exists[home]), found.situation.flags.tobytes()

    left = 'Left for the home screen from "Clock".'
    assert [read(*[left] * times)[0] for times in range(4)] == [True, True, False, False]
    assert read(left, 'Waited on "Loading".') == read(left) != read()


def test_a_desktop_opens_icons_by_double_click() -> None:
    icon, _ = screen_candidates([UIElement("icon", "Sheets", Box(0, 0, 100, 80), ("clickable",))], SIZE, phone=False)
    assert (icon.verb, icon.action(phone=False)) == ("open", Click(x=50, y=40, count=2))
