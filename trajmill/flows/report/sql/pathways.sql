FROM pathways_by_program WHERE run_id = $1 ORDER BY program
