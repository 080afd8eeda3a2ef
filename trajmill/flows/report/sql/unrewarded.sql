SELECT if(stop_reason = 'time_limit', 'time limit', failure_class) AS reason, count(*) AS attempts FROM trajectories
WHERE run_id = $1 AND (status = 'failed' OR stop_reason = 'time_limit') GROUP BY ALL ORDER BY 2 DESC, 1
