"""A toy phone: a menu of dishes, then a page with a size, a note and a button."""

from trajmill.schemas.actions import Action, Click, Swipe, Terminate, TypeText
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import Observation, ScreenHandle, UIElement
from trajmill.schemas.record import content_id

SIZE = Size(720, 1280)
DISHES = ("Margherita", "Beef Ramen", "Greek Salad", "Pad Thai", "Cheeseburger")
SIZES = ("Small", "Medium", "Large")


def observe(*rows: UIElement, app: str = "Toy") -> Observation:
    elements = tuple(row._replace(bounds=Box(20, 100 + 100 * at, 700, 190 + 100 * at)) for at, row in enumerate(rows))
    screen_id = content_id([list(row) for row in elements])
    return Observation(ScreenHandle(screen_id, SIZE, lambda: b""), elements, app)


def element(role: str, text: str, *states: str, value: str = "") -> UIElement:
    return UIElement(role, text, Box(0, 0, 0, 0), states, value)


class ToyPhone:
    """Order one dish in one size; done when the order was sent and the agent says so."""

    def __init__(self, seed: int) -> None:
        self.dishes = [DISHES[(seed + at) % len(DISHES)] for at in range(len(DISHES))]
        self.dish, self.size, self.ordered = "", "Medium", False
        self.finished = False

    def look(self) -> Observation:
        if self.ordered:
            return observe(element("heading", "Order placed", "title"), element("button", "Done", "clickable"))
        if self.dish:
            radios = [
                element("radio", size, "clickable", *(["selected"] if size == self.size else []), value="Size")
                for size in SIZES
            ]
            send = element("button", "Place order", "clickable")
            return observe(element("heading", self.dish, "title"), *radios, send)
        rows = [element("list_item", dish, "clickable") for dish in self.dishes]
        return observe(element("heading", "Toy", "title"), *rows)

    def step(self, action: Action) -> Observation:
        match action:
            case Click(x=x, y=y):
                hit = next((e for e in self.look().elements or () if e.bounds.contains(x, y)), None)
                self._press(hit.text if hit is not None and hit.clickable else "")
            case Terminate():
                self.finished = True
            case Swipe() | TypeText():
                pass
            case _:
                if not self.ordered:
                    self.dish = ""
        return self.look()

    def _press(self, text: str) -> None:
        if text in DISHES:
            self.dish = text
        elif text in SIZES:
            self.size = text
        elif text == "Place order":
            self.ordered = True

    def won(self, dish: str, size: str) -> bool:
        return self.finished and self.ordered and (self.dish, self.size) == (dish, size)
