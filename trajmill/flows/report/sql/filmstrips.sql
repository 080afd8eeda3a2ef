-- An early failure, a late success at the same query, a guided success and a wrong judgement, if any; and of a run
-- without attempts at training queries, some of the others.
WITH tried AS (
    SELECT run_id, trajectory_id, query_id, round, purpose, status, reward, steps,
        status = 'finished' AND coalesce(reward, 0) >= 1 AS solved
    FROM trajectories WHERE run_id = $1
),
last_success AS (
    SELECT trajectory_id, query_id, round FROM tried WHERE purpose = 'train' AND solved
    ORDER BY round DESC, abs(steps - 9), trajectory_id LIMIT 1
),
first_try AS (
    SELECT t.trajectory_id, t.round FROM tried AS t JOIN last_success AS last USING (query_id)
    WHERE t.purpose = 'train' AND t.status = 'finished' AND t.reward < 1 AND t.round < last.round
    ORDER BY t.round, abs(t.steps - 9), t.trajectory_id LIMIT 1
),
guided_success AS (
    SELECT t.trajectory_id, t.round FROM tried AS t JOIN queries AS q USING (run_id, query_id)
    -- A second join on run_id would begin with every query beside every judgement.
    WHERE t.purpose = 'guided' AND t.solved
    AND t.trajectory_id IN (SELECT trajectory_id FROM latest_judgements WHERE run_id = $1 AND correct)
    ORDER BY len(q.apps) DESC, q.platform, abs(t.steps - 9), t.trajectory_id LIMIT 1
),
disagreement AS (
    SELECT t.trajectory_id, t.round FROM disagreements AS d JOIN tried AS t USING (run_id, trajectory_id)
    ORDER BY t.round DESC, t.steps, t.trajectory_id LIMIT 1
),
others AS (
    SELECT trajectory_id, round, row_number() OVER (ORDER BY solved, abs(steps - 9), trajectory_id) AS place FROM tried
    WHERE NOT EXISTS (SELECT 1 FROM tried WHERE purpose = 'train') QUALIFY place <= 6
)
SELECT 1 AS part, 'The first try' AS title, trajectory_id, round, 1 AS place FROM first_try
UNION ALL SELECT 2, 'The same query, the last round', trajectory_id, round, 1 FROM last_success
UNION ALL SELECT 3, 'Solved with guidance', trajectory_id, round, 1 FROM guided_success
UNION ALL SELECT 4, 'Where the judge and the check disagree', trajectory_id, round, 1 FROM disagreement
UNION ALL SELECT 5, 'Tried', trajectory_id, round, place FROM others
ORDER BY part, place
