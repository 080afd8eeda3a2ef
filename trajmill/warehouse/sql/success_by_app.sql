-- Success of each policy version by app and difficulty, from evaluation attempts that the environment itself checked.
-- A query of several apps counts for each of them.
-- column policy_version: Version of the policy that was measured.
-- column split: The split of the queries.
-- column app: An app of the queries.
-- column difficulty: 1 to 3, by path length and number of apps.
-- column queries: Distinct queries that were checked.
-- column success_rate: Mean success over these queries.
-- column round: Round of the run.
-- column run_id: The run.
WITH by_query AS (
    SELECT t.run_id, t.round, t.model_version, q.split, q.apps, q.difficulty, t.query_id,
        avg((t.reward >= 1)::INTEGER) AS success
    FROM trajectories AS t
    JOIN queries AS q USING (run_id, query_id)
    WHERE t.purpose = 'evaluate' AND t.status = 'finished' AND t.reward IS NOT NULL
    GROUP BY ALL
),
by_app AS (
    SELECT run_id, round, model_version, split, unnest(apps) AS app, difficulty, success FROM by_query
)
SELECT
    round,
    model_version AS policy_version,
    split,
    app,
    difficulty,
    count(*) AS queries,
    avg(success) AS success_rate,
    run_id
FROM by_app
GROUP BY ALL
ORDER BY run_id, round, policy_version, split, app, difficulty
