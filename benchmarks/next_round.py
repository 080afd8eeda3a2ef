"""Does one more round of the default job stage by stage, as `trajmill evolve` does; prints what each stage took.

    python -m benchmarks.next_round ROOT [STAGE ...]

`benchmarks.scale` calls it for its warehouses. Named stages are done alone, in the first round that is not finished.
Seconds are those of a stage with its commit; CPU seconds are of all processes. The peak is that of this process, which
keeps what earlier stages have imported; processes that draw are others.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks.process_tree import print_measured
from trajmill.flows.cli.app import give_memory_back
from trajmill.flows.configuration.config import Config, RunSection
from trajmill.flows.round import current_round, do_stage, stages_of
from trajmill.flows.tasks.release import release
from trajmill.warehouse.layout import sole_worker
from trajmill.warehouse.views import refresh_views


def main(root: Path, only: Sequence[str]) -> None:
    """Run and print the lines of a table: what, seconds, CPU seconds, peak MiB."""
    context = current_round(Config(run=RunSection(root=root)))
    with sole_worker(context.warehouse, context.run_id):
        if not only:
            # It keeps digests of all rounds so far, which a run has made round by round.
            print_measured("first release, of the round before", partial(release, context.in_round(context.round - 1)))
        for stage in stages_of(context.config):
            if stage.name in only or (not only and stage.fixed_round is None):
                print_measured(f"stage `{stage.name}`", partial(do_stage, stage, context))
    print_measured("refreshing the views", partial(refresh_views, context.warehouse))


if __name__ == "__main__":
    give_memory_back()
    main(Path(sys.argv[1]), sys.argv[2:])
