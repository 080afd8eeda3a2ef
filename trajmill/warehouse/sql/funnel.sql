-- Rows into and out of each stage of each round, in the order of the stages.
-- column stage: Name of the stage.
-- column rows_in: Rows that the stage was given.
-- column rows_out: Rows that it made.
-- column dropped: Rows in that gave no row out.
-- column round: Round of the run.
-- column run_id: The run.
SELECT
    round,
    stage.stage AS stage,
    stage.rows_in AS rows_in,
    stage.rows_out AS rows_out,
    stage.rows_in - stage.rows_out AS dropped,
    run_id
FROM (
    SELECT run_id, round, unnest(stages) AS stage, generate_subscripts(stages, 1) AS place
    FROM rounds
)
ORDER BY run_id, round, place
