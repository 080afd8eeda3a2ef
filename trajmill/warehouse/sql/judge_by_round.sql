-- Agreement of the judge (level `trajectory`) and its channels with the programmatic check, and of the step critic with the distance to the goal.
-- `n` counts what both have decided; precision, recall and Cohen's kappa are null where they are not defined.
-- column level: `trajectory` for the judge, else one of its channels, or `step` for the step critic.
-- column precision: Share of what it called Correct that the check confirms; null if nothing was called so.
-- column recall: Share of what the check confirms that it called Correct; null if there is none.
-- column kappa: Cohen's kappa: agreement beyond chance; null where it is not defined.
-- column n: Trajectories or steps that both have decided.
-- column round: Round of the run.
-- column run_id: The run.
WITH counted AS (
    SELECT run_id, round, unnest(judge, recursive := true), generate_subscripts(judge, 1) AS place
    FROM rounds
),
summed AS (
    SELECT
        *,
        true_positive + false_positive + true_negative + false_negative AS n,
        (true_positive + true_negative)::DOUBLE AS agreed,
        (true_positive + false_positive)::DOUBLE * (true_positive + false_negative)
        + (true_negative + false_negative)::DOUBLE * (true_negative + false_positive) AS by_chance
    FROM counted
)
SELECT
    round,
    level,
    true_positive / nullif(true_positive + false_positive, 0) AS precision,
    true_positive / nullif(true_positive + false_negative, 0) AS recall,
    (agreed * n - by_chance) / nullif(n::DOUBLE * n - by_chance, 0) AS kappa,
    n,
    run_id
FROM summed
ORDER BY run_id, round, place
