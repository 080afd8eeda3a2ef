-- What the deep-search chains found in each program, and how fast; a walk counts up to the last pathway that it found.
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
