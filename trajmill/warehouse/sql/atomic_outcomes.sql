-- How far attempts came on tasks of atomic tasks that need each other's answers (NaturalGAIA 3.3).
-- An atomic task is done if all before it are, so the first that fails collapses the rest. Of causal pathways the
-- environment says how many were done. Of other tasks the agent LightManus says it, except that the last one is done only
-- if the environment's own check passed.
-- column trajectory_id: The attempt.
-- column query_id: The query that it was made at.
-- column model_version: Version of the policy that acted.
-- column purpose: Why it was made.
-- column atomic_tasks: Number of atomic tasks.
-- column done: How many of them were done one after the other, from the first on.
-- column said_by: `environment` or `agent`.
-- column completed: `done` divided by `atomic_tasks`; its mean is MATCR.
-- column weight_done: p(1) + ... + p(`done`) with p(i) = 2i + 1, the weights of p-ATSR.
-- column weight: p(1) + ... + p(`atomic_tasks`); p-ATSR is the sum of `weight_done` divided by the sum of this.
-- column round: Round of the run.
-- column run_id: The run.
WITH checked AS (
    SELECT
        t.run_id, t.round, t.trajectory_id, t.query_id, t.model_version, t.purpose,
        'environment' AS said_by, len(q.atomic_tasks) AS atomic_tasks, t.atomic_done AS done
    FROM trajectories AS t
    JOIN queries AS q USING (run_id, query_id)
    WHERE t.atomic_done IS NOT NULL AND q.atomic_tasks IS NOT NULL
),
divided AS (
    SELECT
        t.run_id, t.round, t.trajectory_id, t.query_id, t.model_version, t.purpose, t.reward,
        len(string_split(json_extract_string(s.role_outputs, '$.atomic_tasks'), chr(10))) AS atomic_tasks,
        json_extract_string(s.role_outputs, '$.current')::INTEGER AS current
    FROM trajectories AS t
    JOIN steps AS s ON s.run_id = t.run_id AND s.trajectory_id = t.trajectory_id AND s."index" = t.steps - 1
    WHERE t.agent = 'light_manus' AND t.status = 'finished' AND t.reward IS NOT NULL AND t.atomic_done IS NULL
),
walked AS (
    FROM checked
    UNION ALL BY NAME
    SELECT
        * EXCLUDE (reward, current), 'agent' AS said_by,
        CASE WHEN reward >= 1 THEN atomic_tasks ELSE least(current, atomic_tasks - 1) END AS done
    FROM divided
)
SELECT
    trajectory_id, query_id, model_version, purpose, atomic_tasks, done, said_by,
    done / atomic_tasks AS completed,
    done * (done + 2) AS weight_done,
    atomic_tasks * (atomic_tasks + 2) AS weight,
    round, run_id
FROM walked
ORDER BY run_id, round, trajectory_id
