-- Failures and attempts without a reward in the last round that has any, by class.
WITH ended AS (
    SELECT run_id, round, failure_class FROM failures
    UNION ALL
    SELECT run_id, round, 'time limit' FROM trajectories WHERE stop_reason = 'time_limit'
)
SELECT failure_class, count(*)::BIGINT AS failures FROM ended
WHERE run_id = $1 AND round = (SELECT max(round) FROM ended WHERE run_id = $1) GROUP BY 1 ORDER BY 2 DESC
