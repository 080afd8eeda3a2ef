from __future__ import annotations

from tests.stages.environments.simulated.worlds import task_of
from tests.stages.queries.samples import chosen, chosen_through, described
from trajmill.stages.environments.simulated.world import TaskGraph, World


def test_pages_carry_their_settings_in_the_order_of_the_screen(order: TaskGraph) -> None:
    metadata = described(order, chosen(order, dish="Pad Thai", note="ring twice", spicy=True, size="Large"))
    by_page = {page.page: [(s.label, s.kind, s.value) for s in page.settings] for page in metadata.pages}
    assert by_page["bites.home"] == [("categories", "list", "Noodles")]
    assert by_page["bites.menu"] == [("dishes", "list", "Pad Thai")]
    assert by_page["bites.dish"] == [("Size", "choice", "Large"), ("Extra spicy", "switch", "on")]
    assert by_page["bites.checkout"] == [("Note for the kitchen", "field", "ring twice")]


def test_a_page_is_left_by_its_button_unless_a_choice_leads_on(order: TaskGraph) -> None:
    metadata = described(order, chosen(order, dish="Pad Thai"))
    assert [page.leave_by for page in metadata.pages][:4] == ["", "", "Go to checkout", "Place order"]
    assert metadata.pages[-1].leave_by == ""


def test_only_what_the_user_asks_for_is_a_constraint(order: TaskGraph) -> None:
    metadata = described(order, chosen(order, dish="Pad Thai", size="Large"))
    assert [slot.name for slot in metadata.constraints] == ["dish", "size"]
    assert metadata.constraints[0].words == ("Pad Thai",)
    assert "large" in metadata.constraints[1].words


def test_a_branch_of_the_path_shows_only_its_own_settings(world: World) -> None:
    wish = task_of(world, "bazaar.wish")
    searched = described(wish, chosen_through(wish, "bazaar.search", product="Yoga Mat"))
    browsed = described(wish, chosen_through(wish, "bazaar.shelf", product="Yoga Mat"))
    assert [(s.kind, s.value) for p in searched.pages for s in p.settings] == [
        ("search", "Yoga Mat"),
        ("list", "Yoga Mat"),
    ]
    assert [(s.kind, s.value) for p in browsed.pages for s in p.settings] == [("list", "Sport"), ("list", "Yoga Mat")]
    assert searched.constraints == browsed.constraints
