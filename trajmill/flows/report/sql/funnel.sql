SELECT *, stage AS name FROM funnel WHERE run_id = $1
