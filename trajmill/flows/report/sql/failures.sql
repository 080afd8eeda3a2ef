SELECT stage, failure_class, sum(failures)::BIGINT AS failures, min(example) AS example
FROM failures_by_class WHERE run_id = $1 GROUP BY ALL ORDER BY 3 DESC, 1, 2
