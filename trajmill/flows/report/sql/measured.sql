-- Success of the measured policy by task and by app; a query of several apps counts for each of them.
WITH measured AS (
    SELECT q.task, q.apps, t.round, t.reward >= 1 AS passed
    FROM trajectories AS t JOIN queries AS q USING (run_id, query_id)
    WHERE t.run_id = $1 AND t.purpose = 'evaluate' AND t.status = 'finished' AND t.reward IS NOT NULL
),
named AS (
    SELECT 'task' AS kind, task AS name, round, passed FROM measured
    UNION ALL
    SELECT 'app', unnest(apps), round, passed FROM measured
)
SELECT kind, name, round, count(*) FILTER (passed) AS successes, count(*) AS n, successes / n AS share,
    wilson_low(successes, n) AS low, wilson_high(successes, n) AS high
FROM named GROUP BY ALL ORDER BY name, round
