SELECT model_version AS policy, max(round) AS round FROM trajectories
WHERE run_id = $1 AND purpose IN ('evaluate', 'compare') AND status = 'finished' AND reward IS NOT NULL
GROUP BY ALL ORDER BY max(written_at) DESC, policy
