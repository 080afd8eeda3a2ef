from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from trajmill.schemas.errors import BadInputError
from trajmill.stages.agents.knowledge import LONGEST_PASSAGE, KeywordIndex, passages, read_passages


def test_the_passages_that_share_words_with_the_task_come_best_first(tmp_path: Path) -> None:
    (tmp_path / "wallet.md").write_text("In Wallet, codes are redeemed under Redeem a code.")
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "mail.txt").write_text("Mail keeps letters. A code may stand in one.")
    (tmp_path / "picture.png").write_bytes(b"\xff")
    (tmp_path / "music.md").write_text("Tunes plays songs.")
    index = KeywordIndex(read_passages(tmp_path))
    found = asyncio.run(index.retrieve("redeem a code in Wallet", 5))
    assert found[0].startswith("In Wallet") and found[1].startswith("Mail keeps") and len(found) == 2
    assert asyncio.run(index.retrieve("redeem a code in Wallet", 1)) == found[:1]
    assert asyncio.run(index.retrieve("the of", 5)) == ()


def test_a_long_document_is_divided_at_its_paragraphs() -> None:
    found = passages("\n\n".join(["word " * 100] * 5))
    assert len(found) == 3 and all(len(passage) <= LONGEST_PASSAGE for passage in found)


def test_a_folder_without_documents_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="no document"):
        read_passages(tmp_path)
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(BadInputError, match="not UTF-8"):
        read_passages(tmp_path)
