from pathlib import Path

from trajmill.warehouse.staging import Progress, ShardProgress, plan_items, progress_of


def test_shards_count_side_by_side_and_one_that_is_done_anew_begins_at_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "stage"
    assert progress_of(folder) == Progress(0, None)
    plan_items(folder, 7)
    first, second = ShardProgress(folder, "00000-a"), ShardProgress(folder, "00001-b")
    first.add()
    second.add(2)
    assert progress_of(folder) == Progress(3, 7)
    halves = first.counted("xy")
    next(halves)
    assert progress_of(folder).done == 3, "what is worked on is not done"
    assert list(halves) == ["y"]
    assert progress_of(folder).done == 5
    again = ShardProgress(folder, "00000-a")
    assert progress_of(folder).done == 2
    again.fill(5)
    assert progress_of(folder) == Progress(7, 7)


def test_a_folder_that_cannot_be_written_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    plan_items(tmp_path / "file", 3)
    ShardProgress(tmp_path / "file", "00000").add()
    assert progress_of(tmp_path / "file") == Progress(0, None)
