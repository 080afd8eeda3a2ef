import pytest

from trajmill.stages.export.messages import content_blocks

IMAGE = {"type": "image", "text": ""}


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("", [""]),
        ("<image", ["<image"]),
        ("a<image>ü ", ["a", IMAGE, "ü "]),
        ("<image><image>\n", [IMAGE, IMAGE, "\n"]),
        ("a<image>image>", ["a", IMAGE, "image>"]),
    ],
)
def test_blocks_are_the_pieces_between_placeholders(text: str, pieces: list[str | dict[str, str]]) -> None:
    assert content_blocks(text) == [
        {"type": "text", "text": piece} if isinstance(piece, str) else piece for piece in pieces
    ]
