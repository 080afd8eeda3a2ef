FROM model_versions WHERE run_id = $1 ORDER BY round, model_version
