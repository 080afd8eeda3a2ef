"""What drawing and encoding a simulated screen costs, and what the other lossless encodings of it would cost.

Run: `python -m benchmarks.drawing`. Prints CPU milliseconds and bytes per screen, all taken in one run.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable

from PIL import Image

from trajmill.schemas.geometry import Box, Size
from trajmill.stages.environments.simulated.drawing.canvas import Scene, Shape
from trajmill.stages.environments.simulated.drawing.draw import draw

_SCREENS = 60
_SIZE = Size(720, 1280)


def list_screen(number: int) -> Scene:
    """A page with a title and ten list items with notes."""
    items = [
        Shape("list_item", Box(24, 170 + 108 * row, 696, 270 + 108 * row), f"Item {number * 7 + row}", f"{row}.50")
        for row in range(10)
    ]
    return _page("A list", items)


def form_screen(number: int) -> Scene:
    """A page with every kind of control."""
    shapes = [
        Shape("label", Box(24, 170, 696, 222), "Size"),
        Shape("radio", Box(24, 226, 696, 302), "Small"),
        Shape("radio", Box(24, 310, 696, 386), "Medium", "", "on"),
        Shape("switch", Box(24, 410, 696, 494), "Extra spicy", "", "on" if number % 2 else ""),
        Shape("checkbox", Box(24, 504, 696, 588), "Gift wrap", "", "on"),
        Shape("label", Box(24, 600, 500, 672), "Quantity", str(number)),
        Shape("stepper_button", Box(530, 600, 602, 672), "-"),
        Shape("stepper_button", Box(624, 600, 696, 672), "+"),
        Shape("field", Box(24, 700, 696, 796), "Note for the kitchen"),
        Shape("search", Box(24, 810, 696, 906), "Search", f"pizza {number}"),
        Shape("value", Box(24, 920, 696, 984), f"{number} x Quattro Formaggi"),
        Shape("primary_button", Box(24, 1100, 696, 1188), "Place order"),
    ]
    return _page("A form", shapes)


def keyboard_screen(number: int) -> Scene:
    """A page under the keyboard."""
    shapes = [Shape("field", Box(24, 170, 696, 266), "Note", "ring twice"[: number % 10], "focused")]
    shapes.append(Shape("keyboard", Box(0, 820, 720, 1280)))
    for row, letters in enumerate(("qwertyuiop", "asdfghjkl", "zxcvbnm")):
        left = (720 - 70 * len(letters)) // 2
        for column, letter in enumerate(letters):
            x, y = left + 70 * column, 850 + 104 * row
            shapes.append(Shape("key", Box(x + 3, y, x + 67, y + 92), letter))
    return _page("Checkout", shapes)


def launcher_screen(number: int) -> Scene:
    """A phone's launcher."""
    names = ["Bites", "Bazaar", "Messages", "Mail", "Calendar", "Clock", "Notes", "Settings", "Maps", "Music", "Wallet"]
    colors = ["#E4572E", "#2E86AB", "#3BA55D", "#C0392B", "#8E44AD", "#34495E", "#D4A017", "#607D8B", "#16A085"]
    icons = [
        Shape("icon", Box(30 + at % 4 * 170, 220 + at // 4 * 210, 180 + at % 4 * 170, 400 + at // 4 * 210),
              name, name[:2], "", colors[(at + number) % len(colors)])
        for at, name in enumerate(names)
    ]  # fmt: skip
    return Scene(_SIZE, "#3949AB", False, (Shape("wallpaper", Box(0, 0, *_SIZE)), _status_bar(), *icons))


def dialog_screen(number: int) -> Scene:
    """A dialog over a form."""
    below = form_screen(number)
    over = (
        Shape("dim", Box(0, 0, *_SIZE)),
        Shape("dialog", Box(60, 480, 660, 800)),
        Shape("heading", Box(100, 510, 620, 578), "Delete this order?"),
        Shape("text", Box(100, 590, 620, 646), "This cannot be undone."),
        Shape("button", Box(100, 690, 340, 770), "Cancel"),
        Shape("danger_button", Box(380, 690, 620, 770), "Delete"),
    )
    return below._replace(shapes=below.shapes + over)


def _status_bar() -> Shape:
    return Shape("status_bar", Box(0, 0, 720, 48), "9:41")


def _page(title: str, shapes: list[Shape]) -> Scene:
    bar = Shape("app_bar", Box(0, 48, 720, 152), title)
    return Scene(_SIZE, "#E4572E", False, (_status_bar(), bar, *shapes))


KINDS = (list_screen, form_screen, keyboard_screen, launcher_screen, dialog_screen)


def _cost(name: str, work: Callable[[int], bytes]) -> str:
    work(0)
    start = time.process_time()
    sizes = [len(work(number)) for number in range(1, _SCREENS + 1)]
    milliseconds = (time.process_time() - start) / _SCREENS * 1e3
    return f"{name:34s} {milliseconds:7.2f} ms {sum(sizes) / _SCREENS / 1e3:7.1f} kB"


def _saved(image: Image.Image, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, **options)  # type: ignore[arg-type]
    return buffer.getvalue()


def main() -> None:
    """Print the table."""
    for kind in KINDS:
        print(_cost(f"draw + encode, {kind.__name__}", lambda number, kind=kind: draw(kind(number))))  # type: ignore[misc]
    drawn = [Image.open(io.BytesIO(draw(form_screen(number)))) for number in range(_SCREENS + 1)]
    colored = [image.convert("RGB") for image in drawn]
    print("encoding alone, form_screen:")
    print(_cost("  PNG palette, Pillow level 1", lambda n: _saved(drawn[n], format="PNG", compress_level=1)))
    print(_cost("  PNG RGB, Pillow level 1", lambda n: _saved(colored[n], format="PNG", compress_level=1)))
    print(_cost("  PNG RGB, Pillow level 6", lambda n: _saved(colored[n], format="PNG", compress_level=6)))
    print(_cost("  WebP lossless, method 0", lambda n: _saved(colored[n], format="WEBP", lossless=True, method=0)))
    print(_cost("  WebP lossless, method 4", lambda n: _saved(colored[n], format="WEBP", lossless=True, method=4)))


if __name__ == "__main__":
    main()
