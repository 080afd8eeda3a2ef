-- Failed attempts with a purpose in a round, by default the last one in which any was made.
SELECT * EXCLUDE (run_id, purpose) FROM failure_clusters
WHERE run_id = $1 AND purpose = $2 AND round = coalesce($3, (
    SELECT max(round) FROM trajectories
    WHERE run_id = $1 AND purpose = $2 AND status = 'finished' AND reward IS NOT NULL
))
