from pathlib import Path

import pytest
import yaml

from tests.stages.export.stored import EXPORTERS, StoredScreens, examples, rl_rows, write_release
from trajmill.stages.curate.diversity import Diversity
from trajmill.stages.export.card import AuthoredRows, CardContents, DroppedRows, dataset_card
from trajmill.stages.export.release import ExportedFile

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
    dropped=(DroppedRows("harmful", 4), DroppedRows("judged_incorrect", 12)),
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


def test_the_card_says_for_each_sort_whose_words_it_teaches() -> None:
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


def test_the_card_says_how_varied_the_rows_are_and_where_they_narrow() -> None:
    of_apps = Diversity(aspect="app", rows=1200, distinct_values=3, effective=2.24, largest="a|b", largest_share=0.625)
    card = dataset_card(CONTENTS._replace(diversity=(of_apps,), narrowed=("app: 3.0 -> 2.2",)), EXPORTERS, FILES)
    assert "| app | 1,200 | 3 | 2.2 | a\\|b | 62% |\n\n- narrower than the release before in app: 3.0 -> 2.2\n" in card
    assert "## Diversity" not in dataset_card(CONTENTS, EXPORTERS, FILES)


def test_odd_names_break_neither_the_front_matter_nor_a_table() -> None:
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
