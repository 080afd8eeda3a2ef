"""The advice that messages about unknown names end with."""

from trajmill.schemas.names import instead_of, nearest


def test_the_nearest_known_name_is_proposed_and_without_one_all_are_listed() -> None:
    assert nearest("browserr", ["browser", "desktop"]) == "browser"
    assert nearest("xyz", ["browser", "desktop"]) is None
    assert instead_of("mial", ["mail", "maps"]) == "did you mean mail?"
    assert instead_of("xyz", ["mail", "maps"]) == "there are mail, maps"
    assert instead_of("xyz", []) == "there are none"
    advice = instead_of("x", [f"page-{number}" for number in range(120)])
    assert "page-19, ... (120 in all)" in advice and "page-20" not in advice
