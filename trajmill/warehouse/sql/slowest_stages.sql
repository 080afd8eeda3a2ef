-- The stage of each round that took the most time.
-- column stage: Name of the stage.
-- column seconds: Its duration.
-- column share: Its share of the round's seconds.
-- column round: Round of the run.
-- column run_id: The run.
SELECT round, stage, seconds, share, run_id
FROM cost_by_stage
QUALIFY row_number() OVER (PARTITION BY run_id, round ORDER BY seconds DESC, stage) = 1
ORDER BY run_id, round
