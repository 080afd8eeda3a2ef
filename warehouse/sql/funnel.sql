-- Rows into and out of each stage of each round, in the order of the stages.
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
