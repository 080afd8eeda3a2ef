import io

from PIL import Image

from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import ScreenHandle

PHONE = Size(720, 1280)


def shot(name: str, image: Image.Image) -> ScreenHandle:
    out = io.BytesIO()
    image.save(out, "PNG")
    return ScreenHandle(name, Size(*image.size), out.getvalue)


def plain(color: str | tuple[int, int, int], size: Size = PHONE) -> ScreenHandle:
    return shot(str(color), Image.new("RGB", size, color))


def striped(rows: int) -> ScreenHandle:
    """A phone's screen with stripes of so many pixels."""
    image = Image.new("RGB", PHONE, "white")
    for top in range(0, PHONE.height, 2 * rows):
        image.paste((0, 90, 255), (0, top, PHONE.width, top + rows))
    return shot(f"striped-{rows}", image)
