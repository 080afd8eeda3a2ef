import pytest

from tests.stages.queries.splits import CLEAN, SLOTS, TRAIN
from trajmill.stages.curate.leaks import TrainingText, leaks_in_texts
from trajmill.stages.queries.leaks import LeakKind


@pytest.mark.parametrize(
    ("query_id", "text", "kinds"),
    [
        (SLOTS.query_id, "Tap Diavola", [LeakKind.LINEAGE]),
        (TRAIN.query_id, "The user query: order diavola\nTask progress: nothing yet", [LeakKind.INSTRUCTION]),
        (TRAIN.query_id, "The user query: Order Diavola, extra spicy.\nTask progress: nothing yet", []),
    ],
)
def test_a_text_leaks_by_its_query_or_a_whole_instruction(query_id: str, text: str, kinds: list[LeakKind]) -> None:
    leaks = leaks_in_texts(CLEAN, [TrainingText("e1", query_id, text)])
    assert [leak[:3] for leak in leaks] == [(kind, SLOTS.query_id, "e1") for kind in kinds]
