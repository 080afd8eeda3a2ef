-- Success of the queries that were guided in a round. `success_without` and `success_with` compare attempts of the same
-- round, so of the same policy: the mean over the `compared` queries, which have both guided and unguided attempts in
-- it. `success_guided` is the mean over all guided queries, and `success_so_far` that of all their unguided attempts in
-- this round and earlier ones, by older policies. Guided queries are chosen because they failed, so figures without
-- guidance are lower than those of fresh unguided attempts would be.
-- column queries: Guided queries.
-- column compared: Those that were attempted without guidance, too, in the same round.
-- column success_without: Success of the compared queries without guidance.
-- column success_with: Their success with guidance.
-- column success_guided: Success of all guided queries with guidance.
-- column success_so_far: Success of all their unguided attempts in this round and earlier ones.
-- column round: Round of the run.
-- column run_id: The run.
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
    SELECT
        g.run_id,
        g.round,
        g.query_id,
        avg(a.success) FILTER (a.round = g.round) AS of_round,
        avg(a.success) AS so_far
    FROM guided AS g
    JOIN attempts AS a ON a.run_id = g.run_id AND a.query_id = g.query_id AND a.round <= g.round
    WHERE a.purpose = 'train'
    GROUP BY ALL
)
SELECT
    round,
    count(*) AS queries,
    count(of_round) AS compared,
    avg(of_round) AS success_without,
    avg(guided.success) FILTER (of_round IS NOT NULL) AS success_with,
    avg(guided.success) AS success_guided,
    avg(so_far) AS success_so_far,
    run_id
FROM guided
LEFT JOIN unguided USING (run_id, round, query_id)
GROUP BY ALL
ORDER BY run_id, round
