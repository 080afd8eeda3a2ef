-- What the deep-search chains found in each program, and how fast; a walk counts up to the last pathway that it found.
-- column program: The program that was walked.
-- column environment: The environment in which it ran.
-- column pathways: Places that were found.
-- column dialogs: Dialogs among them.
-- column tabs: Tabs among them.
-- column need_selection: Those that something must be selected for.
-- column seconds: Duration of the walk.
-- column pathways_per_second: Places found in a second.
-- column round: Round of the run.
-- column run_id: The run.
SELECT
    round,
    program,
    environment,
    count(*) AS pathways,
    count(*) FILTER (end_kind = 'dialog') AS dialogs,
    count(*) FILTER (end_kind = 'tab') AS tabs,
    count(*) FILTER (needs_selection) AS need_selection,
    max(found_after) AS seconds,
    count(*) / nullif(max(found_after), 0) AS pathways_per_second,
    run_id
FROM pathways
GROUP BY ALL
ORDER BY run_id, round, program
