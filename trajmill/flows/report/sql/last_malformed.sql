-- Malformed replies of each role in the last round.
SELECT role, count(malformed)::BIGINT AS malformed, count(*)::BIGINT AS replies FROM role_calls
WHERE run_id = $1 AND round = (SELECT max(round) FROM trajectories WHERE run_id = $1)
GROUP BY 1 HAVING count(malformed) > 0 ORDER BY 2 DESC, 1
