-- Failed attempts of the last measured round, by class.
SELECT error, sum(attempts)::BIGINT AS attempts FROM error_attribution
WHERE run_id = $1 AND purpose = 'evaluate' AND round = (SELECT max(round) FROM error_attribution WHERE run_id = $1)
GROUP BY ALL ORDER BY 2 DESC, 1
