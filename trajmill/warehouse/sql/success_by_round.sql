-- Success of each policy version on each split, from evaluation attempts that the environment itself checked.
-- `queries` counts distinct queries, `low` and `high` bound the rate at 95 % (Wilson). Void attempts are no evidence.
-- column policy_version: Version of the policy that was measured.
-- column split: The split of the queries.
-- column queries: Distinct queries that were checked.
-- column success_rate: Mean success over these queries.
-- column low: Lower end of the 95 % interval of the rate.
-- column high: Upper end of the 95 % interval of the rate.
-- column round: Round of the run.
-- column run_id: The run.
WITH by_query AS (
    SELECT t.run_id, t.round, t.model_version, q.split, t.query_id, avg((t.reward >= 1)::INTEGER) AS success
    FROM trajectories AS t
    JOIN queries AS q USING (run_id, query_id)
    WHERE t.purpose = 'evaluate' AND t.status = 'finished' AND t.reward IS NOT NULL
    GROUP BY ALL
)
SELECT
    round,
    model_version AS policy_version,
    split,
    count(*) AS queries,
    avg(success) AS success_rate,
    wilson_low(sum(success), count(*)) AS low,
    wilson_high(sum(success), count(*)) AS high,
    run_id
FROM by_query
GROUP BY ALL
ORDER BY run_id, round, policy_version, split
