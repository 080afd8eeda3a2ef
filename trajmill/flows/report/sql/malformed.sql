SELECT agent, role, count(*)::BIGINT AS replies, count(malformed)::BIGINT AS malformed, mode(malformed) AS reason
FROM role_calls WHERE run_id = $1 GROUP BY ALL HAVING count(malformed) > 0 ORDER BY 4 DESC, 1, 2
