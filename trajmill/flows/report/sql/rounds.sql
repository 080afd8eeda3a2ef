SELECT r.*, r.written_at AS ended, c.accepted, coalesce(c.seconds, 0) AS seconds, coalesce(c.cost, 0) AS cost,
    c.cost_per_accepted
FROM rounds AS r LEFT JOIN cost_per_accepted AS c USING (run_id, round) WHERE r.run_id = $1 ORDER BY r.round
