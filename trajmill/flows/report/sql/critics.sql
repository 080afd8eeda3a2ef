-- Trajectories that each critic voted on, by channel and by how their queries were made.
SELECT v.made_by AS critic, v.channel, q.source, count(DISTINCT v.trajectory_id)::BIGINT AS judged,
    count(DISTINCT v.trajectory_id) FILTER (WHERE v.correct)::BIGINT AS correct
FROM trajectory_verdicts AS v
JOIN trajectories AS t USING (run_id, trajectory_id) JOIN queries AS q USING (run_id, query_id)
WHERE v.run_id = $1 GROUP BY ALL ORDER BY 2, 1, 3
