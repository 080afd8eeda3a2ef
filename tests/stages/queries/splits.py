"""A small query set: one training query, one of held-out slots, one in held-out words."""

from __future__ import annotations

from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Platform, Query, Slot, Source, Split


def order_query(
    instruction: str,
    dish: str,
    split: Split = Split.TRAIN,
    phrasing: str = "bites.order/0",
    app: str = "bites",
    source: Source = Source.DAG,
    start_state: str = "{}",
) -> Query:
    slots = (Slot(name="dish", value=dish, said=dish, page=f"{app}.menu"),) if dish else ()
    task = f"{app}.order"
    return Query(
        query_id=Query.make_id(Platform.PHONE, task, slots, start_state, instruction),
        platform=Platform.PHONE,
        apps=(app,),
        source=source,
        task=task,
        raw_instruction="",
        instruction=instruction,
        phrasing=phrasing,
        pages=(f"{app}.menu",),
        page_descriptions=("",),
        slots=slots,
        path=(),
        start_state=start_state,
        goal="{}",
        difficulty=1,
        max_steps=10,
        split=split,
        validation="passed",
        **Origin(round=1, run_id="r", code_version="c").common("test"),
    )


TRAIN = order_query("Order Pad Thai.", "Pad Thai")
SLOTS = order_query("Order Diavola.", "Diavola", Split.HELDOUT_SLOTS)
PHRASINGS = order_query("I feel like eating Caesar Salad.", "Caesar Salad", Split.HELDOUT_PHRASINGS, "bites.order/h0")
CLEAN = [TRAIN, SLOTS, PHRASINGS]
