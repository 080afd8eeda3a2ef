"""Write the pages that come from the code: docs/tables.md, and the tables of docs/configuration.md."""

from __future__ import annotations

from pathlib import Path

from trajmill.flows.configuration.text import configuration_tables
from trajmill.warehouse.views import tables_page

HERE = Path(__file__).parent


def main() -> None:
    """Write both pages; the text before the first table of the configuration stays."""
    (HERE / "tables.md").write_text(tables_page(), encoding="utf-8")
    page, tables = HERE / "configuration.md", configuration_tables()
    written_by_hand = page.read_text(encoding="utf-8").partition(tables.partition("\n")[0] + "\n")[0]
    page.write_text(written_by_hand + tables, encoding="utf-8")


if __name__ == "__main__":
    main()
