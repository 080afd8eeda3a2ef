-- Success of the queries that were guided in a round, with guidance and without: the mean over queries of the guided
-- attempts of the round, and of all unguided training attempts of the run so far. Guided queries are chosen because
-- they failed, so `success_without` is lower than a fresh unguided attempt would be.
WITH attempts AS (
    SELECT run_id, round, query_id, purpose, (reward >= 1)::INTEGER AS success
    FROM trajectories
    WHERE status = 'finished' AND reward IS NOT NULL
),
guided AS (
    SELECT run_id, round, query_id, avg(success) AS success
    FROM attempts
    WHERE purpose = 'guided'
    GROUP BY ALL
),
unguided AS (
    SELECT g.run_id, g.round, g.query_id, avg(a.success) AS success
    FROM guided AS g
    JOIN attempts AS a ON a.run_id = g.run_id AND a.query_id = g.query_id AND a.round <= g.round
    WHERE a.purpose = 'train'
    GROUP BY ALL
)
SELECT
    round,
    count(*) AS queries,
    avg(unguided.success) AS success_without,
    avg(guided.success) AS success_with,
    run_id
FROM guided
LEFT JOIN unguided USING (run_id, round, query_id)
GROUP BY ALL
ORDER BY run_id, round
