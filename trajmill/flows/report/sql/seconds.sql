SELECT round, stage, seconds FROM cost_by_stage WHERE run_id = $1
