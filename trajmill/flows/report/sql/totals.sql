SELECT (SELECT count(*) FROM trajectories WHERE run_id = $1) AS trajectories,
    (SELECT count(*) FROM steps WHERE run_id = $1) AS steps,
    (SELECT count(*) FROM screens WHERE run_id = $1) AS screens,
    (SELECT count(*) FROM examples WHERE run_id = $1) AS examples,
    (SELECT coalesce(sum(seconds), 0) FROM cost_by_stage WHERE run_id = $1) AS seconds
