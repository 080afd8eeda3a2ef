SELECT *, count(*) OVER () AS in_all FROM disagreements WHERE run_id = $1 ORDER BY round DESC, trajectory_id LIMIT 10
