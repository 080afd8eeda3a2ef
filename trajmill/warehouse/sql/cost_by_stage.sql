-- Seconds and money per stage of each round, and the stage's share of the round's seconds.
-- column stage: Name of the stage.
-- column seconds: Its duration.
-- column share: Its share of the round's seconds.
-- column cost: Price of its model calls.
-- column round: Round of the run.
-- column run_id: The run.
SELECT
    round,
    stage.stage AS stage,
    stage.seconds AS seconds,
    stage.seconds / nullif(sum(stage.seconds) OVER (PARTITION BY run_id, round), 0) AS share,
    stage.cost AS cost,
    run_id
FROM (
    SELECT run_id, round, unnest(stages) AS stage, generate_subscripts(stages, 1) AS place
    FROM rounds
)
ORDER BY run_id, round, place
