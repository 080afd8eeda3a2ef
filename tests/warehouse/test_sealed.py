from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from trajmill.schemas.errors import BadInputError
from trajmill.warehouse.weights import SUMS, check_sealed, move_sealed


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    fresh = tmp_path / "fresh"
    (fresh / "part").mkdir(parents=True)
    (fresh / "model.safetensors").write_bytes(bytes(1000))
    (fresh / "part" / "config.json").write_text("{}")
    move_sealed(fresh, tmp_path / "model")
    assert not fresh.exists()
    return tmp_path / "model"


def test_whole_folders_pass_here_and_for_sha256sum(sealed: Path) -> None:
    check_sealed(sealed)
    subprocess.run(["sha256sum", "--check", "--quiet", SUMS], cwd=sealed, check=True)


def test_a_flipped_bit_and_a_missing_file_are_named(sealed: Path) -> None:
    weights = sealed / "model.safetensors"
    weights.write_bytes(b"\x01" + bytes(999))
    with pytest.raises(BadInputError, match=r"\A[^\n]*model\.safetensors: changed since it was stored[^\n]*\Z"):
        check_sealed(sealed)
    weights.unlink()
    with pytest.raises(BadInputError, match=r"model\.safetensors: missing"):
        check_sealed(sealed)


@pytest.mark.parametrize("damaged", [b"\xff\x00", b""])
def test_damaged_hashes_are_named(sealed: Path, damaged: bytes) -> None:
    (sealed / SUMS).write_bytes(damaged)
    with pytest.raises(BadInputError, match=SUMS):
        check_sealed(sealed)


def test_a_folder_of_an_earlier_trajmill_passes(sealed: Path) -> None:
    (sealed / SUMS).unlink()
    (sealed / "model.safetensors").write_bytes(b"")
    check_sealed(sealed)
