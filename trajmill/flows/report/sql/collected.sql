-- Attempts that were made to collect training data.
FROM metrics_by_round WHERE run_id = $1 AND purpose IN ('train', 'guided') ORDER BY round, purpose DESC
