import io

from PIL import Image

from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import ScreenHandle

PHONE = Size(720, 1280)


def as_png(image: Image.Image, form: str = "PNG") -> bytes:
    out = io.BytesIO()
    image.save(out, form)
    return out.getvalue()


def shot(name: str, image: Image.Image) -> ScreenHandle:
    return ScreenHandle(name, Size(*image.size), lambda: as_png(image))


def plain(color: str | tuple[int, int, int], size: Size = PHONE) -> ScreenHandle:
    return shot(str(color), Image.new("RGB", size, color))


def striped(rows: int) -> ScreenHandle:
    """A phone's screen with stripes of so many pixels."""
    image = Image.new("RGB", PHONE, "white")
    for top in range(0, PHONE.height, 2 * rows):
        image.paste((0, 90, 255), (0, top, PHONE.width, top + rows))
    return shot(f"striped-{rows}", image)
