-- Of all runs without the id of one.
SELECT run_id, round, policy_before, policy_after, trained, reason, release, stages, written_at
FROM rounds WHERE $1 IN ('', run_id) ORDER BY run_id, round
