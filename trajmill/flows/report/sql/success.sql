-- Success on each split after each round, and before the first one; of all runs without the id of one.
WITH measured AS (
    SELECT run_id, round, unnest(success_after, recursive := true) FROM rounds
    UNION ALL
    SELECT run_id, round - 1, unnest(success_before, recursive := true) FROM rounds
    QUALIFY round = min(round) OVER (PARTITION BY run_id)
)
SELECT run_id, split AS name, round, successes, queries AS n, successes / n AS share, wilson_low(successes, n) AS low,
    wilson_high(successes, n) AS high
FROM measured WHERE queries > 0 AND $1 IN ('', run_id) ORDER BY round
