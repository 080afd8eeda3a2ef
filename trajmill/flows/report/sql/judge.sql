-- Of all runs without the id of one.
SELECT *, level AS name FROM judge_by_round WHERE $1 IN ('', run_id) ORDER BY round
