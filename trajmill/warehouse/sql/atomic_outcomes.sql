-- How far attempts came on causal pathways: queries of atomic tasks that need each other's answers (NaturalGAIA 3.3).
-- The query has the atomic tasks; the environment checks how many were done. An atomic task is done if all before it
-- are, so the first that fails collapses the rest. An agent's own division of another query is no measure and has no row.
-- column trajectory_id: The attempt.
-- column query_id: The query that it was made at.
-- column model_version: Version of the policy that acted.
-- column purpose: Why it was made.
-- column atomic_tasks: Number of atomic tasks of the query.
-- column done: How many of them were done one after the other, from the first on.
-- column said_by: Always `environment`.
-- column completed: `done` divided by `atomic_tasks`; its mean is MATCR.
-- column weight_done: p(1) + ... + p(`done`) with p(i) = 2i + 1, the weights of p-ATSR.
-- column weight: p(1) + ... + p(`atomic_tasks`); p-ATSR is the sum of `weight_done` divided by the sum of this.
-- column round: Round of the run.
-- column run_id: The run.
SELECT
    t.trajectory_id,
    t.query_id,
    t.model_version,
    t.purpose,
    len(q.atomic_tasks) AS atomic_tasks,
    t.atomic_done AS done,
    'environment' AS said_by,
    done / len(q.atomic_tasks) AS completed,
    done * (done + 2) AS weight_done,
    len(q.atomic_tasks) * (len(q.atomic_tasks) + 2) AS weight,
    t.round,
    t.run_id
FROM trajectories AS t
JOIN queries AS q USING (run_id, query_id)
WHERE t.atomic_done IS NOT NULL AND len(q.atomic_tasks) > 0
ORDER BY t.run_id, t.round, t.trajectory_id
