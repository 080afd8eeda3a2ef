import io
import random
from hashlib import sha256

import pytest
from PIL import Image, ImageDraw

from tests.stages.models.pictures import as_png
from trajmill.schemas.coordinates import ANY_SIZE, GUI_OWL, QWEN2_5_VL, QWEN3_VL, PixelBudget
from trajmill.schemas.errors import ModelFailure
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import ScreenHandle
from trajmill.stages.models.images import sent_image, sent_size

_BUDGETS = (QWEN2_5_VL, GUI_OWL, QWEN3_VL, PixelBudget(factor=28, min_pixels=100 * 28 * 28, max_pixels=600 * 28 * 28))
SIZE = Size(56, 84)


def picture(size: Size, image_format: str = "PNG", mode: str = "RGB") -> bytes:
    image = Image.new(mode, size, 0)
    ImageDraw.Draw(image).rectangle((0, 0, size.width // 2, size.height // 2), fill=255)
    return as_png(image, image_format)


def handle(encoded: bytes, size: Size, screen_id: str = "") -> ScreenHandle:
    return ScreenHandle(screen_id or sha256(encoded).hexdigest(), size, lambda: encoded)


def test_a_screen_that_is_shown_again_is_not_read_again() -> None:
    reads: list[str] = []
    encoded = picture(Size(300, 200))

    def shown(screen_id: str) -> bytes:
        def read() -> bytes:
            reads.append(screen_id)
            return encoded

        return sent_image(ScreenHandle(screen_id, Size(300, 200), read), QWEN3_VL).data

    assert shown("one") == shown("one") == shown("two")
    assert reads == ["one", "two"]


@pytest.mark.slow
@pytest.mark.parametrize("budget", _BUDGETS)
def test_the_fitted_size_is_the_one_of_the_models_processor_and_fits_again(budget: PixelBudget) -> None:
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

    draw = random.Random(7)
    for _ in range(2_000):
        size = Size(draw.randint(23, 4_500), draw.randint(23, 4_500))
        high, wide = smart_resize(
            size.height, size.width, factor=budget.factor, min_pixels=budget.min_pixels, max_pixels=budget.max_pixels
        )
        fitted = budget.fit(size)
        assert fitted == Size(wide, high)
        if max(size) < 20 * min(size):
            assert budget.fit(fitted) == fitted, "a server that resizes again changes nothing"


def test_a_picture_at_the_right_size_is_passed_on_untouched() -> None:
    for image_format, media_type in (("PNG", "image/png"), ("JPEG", "image/jpeg")):
        encoded = picture(SIZE, image_format)
        sent = sent_image(handle(encoded, SIZE), QWEN2_5_VL)
        assert sent == (encoded, media_type, SIZE)


@pytest.mark.parametrize("mode", ["RGB", "L", "P", "RGBA", "1"])
def test_another_picture_is_resized(mode: str) -> None:
    size = Size(300, 200)
    sent = sent_image(handle(picture(size, mode=mode), size), QWEN3_VL)
    assert sent.size == sent_size(size, QWEN3_VL) == Size(320, 224)
    with Image.open(io.BytesIO(sent.data)) as image:
        assert (image.size, image.mode, image.format) == ((320, 224), "RGB", "PNG")


def test_the_scale_comes_before_the_budget_and_the_promised_size_holds() -> None:
    size = Size(1000, 600)
    assert sent_size(size, QWEN2_5_VL, 0.5) == QWEN2_5_VL.fit(Size(500, 300))
    sent = sent_image(handle(picture(size), size), ANY_SIZE, 0.5)
    stored_larger = sent_image(handle(picture(Size(600, 1200)), Size(300, 600)), QWEN2_5_VL)
    for each, expected in ((sent, Size(500, 300)), (stored_larger, QWEN2_5_VL.fit(Size(300, 600)))):
        with Image.open(io.BytesIO(each.data)) as image:
            assert each.size == image.size == expected


@pytest.mark.parametrize("declared", [SIZE, Size(300, 300)])
def test_bytes_that_do_not_decode_name_the_screen_in_one_line(declared: Size) -> None:
    whole = picture(SIZE)
    for broken in (b"", b"no picture", whole[: len(whole) // 2], b"\x89PNG\r\n\x1a\n" + b"\0" * 40):
        with pytest.raises(ModelFailure, match=r"^screen s-7: the image does not decode [^\n]*$"):
            sent_image(handle(broken, declared, "s-7"), QWEN2_5_VL)
    with pytest.raises(ModelFailure, match=r"^screen s-8: .*too elongated"):
        sent_image(handle(b"", Size(3, 900), "s-8"), QWEN2_5_VL)
