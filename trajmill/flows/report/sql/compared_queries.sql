-- The last attempt of each of two policies at each query. All have the same seed, whatever the policy and the round.
WITH measured AS (
    SELECT t.query_id, t.model_version, t.trajectory_id, t.reward >= 1 AS passed FROM trajectories AS t
    WHERE t.run_id = $1 AND t.purpose IN ('evaluate', 'compare') AND t.status = 'finished' AND t.reward IS NOT NULL
        AND t.model_version IN ($2, $3)
    QUALIFY row_number() OVER (PARTITION BY model_version, query_id ORDER BY t.written_at DESC, t.trajectory_id) = 1
)
SELECT a.query_id, q.split, q.task, q.apps, q.instruction, a.trajectory_id AS a, b.trajectory_id AS b,
    CASE WHEN a.passed AND b.passed THEN 'both' WHEN b.passed THEN 'gained' WHEN a.passed THEN 'lost' ELSE 'neither' END
        AS side
FROM measured AS a JOIN measured AS b USING (query_id) JOIN queries AS q USING (query_id)
WHERE a.model_version = $2 AND b.model_version = $3 AND q.run_id = $1
ORDER BY q.split, q.task, a.query_id
