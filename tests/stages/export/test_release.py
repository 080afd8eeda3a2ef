import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from tests.stages.export.stored import EXPORTERS, StoredScreens, examples, png, rl_rows, write_release
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.screen import ELEMENT
from trajmill.stages.curate.diversity import Diversity
from trajmill.stages.export.card import AuthoredRows, CardContents, dataset_card
from trajmill.stages.export.exporter import RL_FILE, SFT_FILE
from trajmill.stages.export.images import ImageCache, row_groups
from trajmill.stages.export.release import GROUP, SCREENS_FILE, ExportedFile, check_release, export_release


@dataclass
class MadeScreens(StoredScreens):
    make: Callable[[str], bytes]

    def image(self, screen_id: str) -> bytes:
        return self.make(screen_id)


@pytest.fixture
def release(tmp_path: Path) -> Path:
    write_release(tmp_path, examples([3, 2]).to_batches(), rl_rows().to_batches(), StoredScreens())
    return tmp_path


def test_rows_are_what_trl_and_verl_read_and_each_tree_is_stored_once_without_pixels(release: Path) -> None:
    row = pq.read_table(release / SFT_FILE).to_pylist()[0]
    system, user = row["prompt"]
    assert (system["role"], user["role"]) == ("system", "user")
    assert [block["type"] for block in system["content"]] == ["text"]
    text, image = user["content"]
    assert text == {"type": "text", "text": "The user query: go\nTask progress: 0 steps"}
    assert image == {"type": "image", "text": ""}
    (reply,) = row["completion"]
    assert reply["role"] == "assistant" and "<tool_call>" in reply["content"][0]["text"]
    assert row["images"] == [{"bytes": png("s0"), "path": None}]
    assert row["screen_ids"] == ["s0"]
    assert (row["kind"], row["split"], row["loss_weight"], row["step_index"]) == ("end_to_end", "train", 1.0, 0)
    rows = pq.read_table(release / RL_FILE).to_pylist()
    assert [row["extra_info"]["index"] for row in rows] == list(range(5))
    for row in rows:
        content = "".join(message["content"] for message in row["prompt"])
        assert content.count("<image>") == len(row["images"]) == 1
        assert row["images"][0]["bytes"] == png(row["screen_ids"][0])
        assert row["reward_model"]["style"] == "rule"
        assert row["extra_info"]["split"] == "train"
        assert row["extra_info"]["query_id"] == row["group"] == "a"
    truths = {row["reward_model"]["ground_truth"] for row in rows}
    assert truths == {'{"accuracy": 1, "reward": 1}', '{"accuracy": 0, "reward": 0}'}
    table = pq.read_table(release / SCREENS_FILE)
    shown = {
        i for name in (SFT_FILE, RL_FILE) for ids in pq.read_table(release / name)["screen_ids"] for i in ids.as_py()
    }
    assert table["screen_id"].to_pylist() == sorted(shown)
    assert table.schema.field("elements").type.value_type == ELEMENT
    first = table.to_pylist()[0]
    assert (first["screen_id"], first["width"], first["height"]) == ("d0", 1280, 720)
    assert first["elements"][1]["bounds"] == [1, 2, 3, 4]


@pytest.mark.slow
def test_the_same_rows_give_the_same_bytes_however_they_come(tmp_path: Path) -> None:
    rows, groups = examples([9, 5, 8]), rl_rows()
    files = write_release(tmp_path / "a", rows.to_batches(), groups.to_batches(), StoredScreens())
    again = write_release(tmp_path / "b", rows.to_batches(max_chunksize=7), groups.to_batches(), StoredScreens())
    assert files == again
    tables = {"examples": rows.to_batches(), "rl_steps": groups.to_batches()}
    shown = {screen for table in (rows, groups) for ids in table["screens"].to_pylist() for screen in ids}
    assert files == export_release(tmp_path / "c", EXPORTERS, tables, StoredScreens(), shown=shown)
    for file in files:
        data = (tmp_path / "a" / file.path).read_bytes()
        assert (hashlib.sha256(data).hexdigest(), len(data)) == (file.sha256, file.bytes)
        assert pq.ParquetFile(tmp_path / "a" / file.path).metadata.num_rows == file.rows


@pytest.mark.parametrize("rows", [1, 700, 5000])
def test_a_row_group_has_few_rows_and_few_bytes_of_images(rows: int) -> None:
    third = str(GROUP.repeated // 3)
    shown = [["1"]] * (GROUP.rows + 2) + [[third]] * 4 + [[str(GROUP.repeated + 1)], [third, third], [], ["5"]]
    numbers = pa.array(range(len(shown)), pa.int64())
    table = pa.table({"number": numbers, "screen_ids": pa.array(shown, pa.list_(pa.string()))})
    screens = MadeScreens(lambda screen_id: bytes(int(screen_id)))
    with TemporaryFile() as file:
        groups = list(row_groups(table.to_batches(max_chunksize=rows), ImageCache(file, screens), GROUP))
    assert [group.rows.num_rows for group in groups] == [GROUP.rows, 4, 2, 1, 3]
    assert [number for group in groups for number in group.rows["number"].to_pylist()] == list(range(len(shown)))
    assert [group.bytes for group in groups] == [1, int(third) + 1, int(third), GROUP.repeated + 1, int(third) + 5]


def test_screens_with_equal_pixels_share_an_image(tmp_path: Path) -> None:
    table = examples([40])
    file, _, _ = write_release(tmp_path, table.to_batches(), [], MadeScreens(lambda screen_id: png("s0")))
    assert table.num_rows * len(png("s0")) > 2 * len(png("s0")) + file.bytes // 2
    images = pq.read_table(tmp_path / SFT_FILE)["images"].to_pylist()
    assert images == [[{"bytes": png("s0"), "path": None}]] * table.num_rows
    footer = pq.read_metadata(tmp_path / SFT_FILE).row_group(0)
    column = next(footer.column(i) for i in range(footer.num_columns) if "bytes" in footer.column(i).path_in_schema)
    assert column.total_compressed_size < 2 * len(png("s0"))


def test_a_bad_row_is_named_and_leaves_the_old_file_alone(release: Path) -> None:
    before, table = (release / SFT_FILE).read_bytes(), examples([3])
    rows = table.to_pylist()
    rows[1]["screens"] = ["s1", "s2"]
    with pytest.raises(BadInputError, match=f"{rows[1]['example_id']}: 2 screens"):
        write_release(release, pa.Table.from_pylist(rows, table.schema).to_batches(), [], StoredScreens())
    rows[1]["screens"] = ["missing"]
    with pytest.raises(KeyError):
        write_release(release, pa.Table.from_pylist(rows, table.schema).to_batches(), [], StoredScreens())
    assert (release / SFT_FILE).read_bytes() == before


NO_CALL = [{"type": "text", "text": "hm"}]
LEFT_IN_A_TEXT = [{"type": "text", "text": "a <image>"}, {"type": "image", "text": ""}]


def spoil(path: Path, row: int, **values: Any) -> None:
    table = pq.read_table(path)
    rows = table.to_pylist()
    rows[row] |= values
    pq.write_table(pa.Table.from_pylist(rows, table.schema), path)


def test_what_was_exported_is_sound(release: Path) -> None:
    checked = check_release(release, EXPORTERS, {content_id("test", "t0"): "1. Tap Large first"})
    assert checked == ({SFT_FILE: 7, RL_FILE: 5}, 5, ())
    assert check_release(release, EXPORTERS, {}, images_every=2).images == 2


@pytest.mark.parametrize(
    ("file", "values", "what"),
    [
        (SFT_FILE, {"split": "heldout_slots"}, "split heldout_slots"),
        (SFT_FILE, {"action": '{"kind":"click","x":1,"y":1}'}, "does not say the stored action"),
        (SFT_FILE, {"completion": [{"role": "assistant", "content": NO_CALL}]}, "stored action"),
        (SFT_FILE, {"prompt": [{"role": "user", "content": NO_CALL}]}, "do not match"),
        (SFT_FILE, {"images": [{"bytes": b"no png", "path": None}]}, "does not open"),
        (SFT_FILE, {"images": [{"bytes": png("s0")[:-40], "path": None}]}, "does not open"),
        (SFT_FILE, {"images": [{"bytes": png("d0"), "path": None}]}, "in screens.parquet"),
        (SFT_FILE, {"prompt": [{"role": "user", "content": LEFT_IN_A_TEXT}]}, "left in a text"),
        (RL_FILE, {"advantage": float("nan")}, "advantage nan"),
        (RL_FILE, {"step_weight": 0.0}, "step weight 0.0"),
        (RL_FILE, {"response_token_ids": [5, 7], "old_logprobs": [-0.5]}, "1 log probabilities for 2 tokens"),
        (RL_FILE, {"prompt": [{"role": "user", "content": "<image><image>"}]}, "do not match"),
    ],
)
def test_a_damaged_row_is_found(release: Path, file: str, values: dict[str, Any], what: str) -> None:
    spoil(release / file, 0, **values)
    problems = check_release(release, EXPORTERS, {}).problems
    assert any(what in problem.what for problem in problems)
    row_id = pq.read_table(release / file)["example_id" if file == SFT_FILE else "rl_step_id"][0].as_py()
    assert {(problem.file, problem.row_id) for problem in problems} == {(file, row_id)}


@pytest.mark.parametrize("hint", ["progress: 1 steps", "Thought 1"])
def test_guidance_that_was_left_in_a_prompt_or_a_reply_is_found(release: Path, hint: str) -> None:
    given = {content_id("test", name): f"0. No such words\n {hint} " for name in ("t0", "s")}
    problems = check_release(release, EXPORTERS, given).problems
    assert {problem.what for problem in problems} == {"it quotes the guidance that the agent was given"}
    assert sorted(problem.file for problem in problems) == [SFT_FILE, RL_FILE]


def test_a_sample_of_the_row_groups_can_be_checked(release: Path) -> None:
    path = release / SFT_FILE
    spoil(path, 5, split="heldout_slots")
    pq.write_table(pq.read_table(path), path, row_group_size=1)
    assert len(check_release(release, EXPORTERS, {}).problems) == 1
    sampled = check_release(release, EXPORTERS, {}, groups_every=3)
    assert sampled.rows[SFT_FILE] == 3 and sampled.problems == ()


CONTENTS = CardContents(
    name="round-003",
    licence="apache-2.0",
    run_id="run",
    round=3,
    code_version="0.1.0",
    policy="m2",
    judge="consensus(text,multimodal)",
    tables={"steps": 7, "examples": 4},
    queries=3,
    trajectories=5,
    dropped={"harmful": 4, "judged_incorrect": 12},
)
FILES = [ExportedFile("trl/sft.parquet", 1, "0" * 64, 1)]


def test_the_card_states_files_lineage_and_what_was_left_out() -> None:
    files = [ExportedFile("trl/sft.parquet", 6000, "0" * 64, 123), ExportedFile("verl/rl.parquet", 0, "0" * 64, 9)]
    card = dataset_card(CONTENTS, EXPORTERS, files)
    front = yaml.safe_load(card.split("---\n")[1])
    assert front["license"] == "apache-2.0"
    assert front["size_categories"] == ["1K<n<10K"]
    assert [c["config_name"] for c in front["configs"]] == ["sft"]
    assert "| sft | `trl/sft.parquet` | 6,000 | 123 |" in card
    assert "| judged_incorrect | 12 |" in card
    assert "| table `examples` | 4 |" in card
    assert "| `images` |" in card and "`rl`\n" not in card


def test_the_card_says_whose_words_it_teaches_and_how_varied_they_are_and_odd_names_do_not_break_it() -> None:
    authors = [
        AuthoredRows("sft", "", "embedded-3", 5),
        AuthoredRows("action_semantics", "action", "embedded-3", 4),
        AuthoredRows("action_semantics", "effect", "template", 3),
        AuthoredRows("step", "positive", "owl-7b", 2),
        AuthoredRows("step", "positive", "import.aitz", 1),
    ]
    card = dataset_card(CONTENTS._replace(authors=authors), EXPORTERS, FILES)
    assert "| sft |  | embedded-3 | filled into templates | 5 |" in card
    assert "| action_semantics | action | embedded-3 | none, the call alone | 4 |" in card
    assert "| action_semantics | effect | template | filled into templates | 3 |" in card
    assert "| step | positive | owl-7b | a model's | 2 |" in card
    assert "| step | positive | import.aitz | a data set's | 1 |" in card
    of_apps = Diversity(aspect="app", rows=1200, distinct_values=3, effective=2.24, largest="a|b", largest_share=0.625)
    card = dataset_card(CONTENTS._replace(diversity=(of_apps,), narrowed=("app: 3.0 -> 2.2",)), EXPORTERS, FILES)
    assert "| app | 1,200 | 3 | 2.2 | a\\|b | 62% |\n\n- narrower than the release before in app: 3.0 -> 2.2\n" in card
    assert "## Diversity" not in dataset_card(CONTENTS, EXPORTERS, FILES)
    odd = CONTENTS._replace(name="a: [b]\n---\nlicense: mit", judge="x | y\n| z |")
    card = dataset_card(odd, EXPORTERS, FILES)
    front = yaml.safe_load(card.split("\n---\n", 1)[0])
    assert front["license"] == "apache-2.0"
    assert "| judge | x \\| y \\| z \\| |" in card


def test_the_folder_loads_by_the_configurations_of_its_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from datasets import load_dataset

    folder = tmp_path / "release"
    files = write_release(folder, examples([3]).to_batches(), rl_rows().to_batches(), StoredScreens())
    (folder / "README.md").write_text(dataset_card(CONTENTS, EXPORTERS, files))
    (folder / "manifest.json").write_text("{}")
    for name, rows in (("sft", 5), ("rl", 5), ("screens", 5)):
        data = load_dataset(str(folder), name, split="train", cache_dir=str(tmp_path / "cache"))
        assert data.num_rows == rows
    whole = load_dataset(str(folder), split="train", cache_dir=str(tmp_path / "cache"))
    assert whole[0]["images"][0].size == (720, 1280)
