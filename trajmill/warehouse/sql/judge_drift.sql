-- How the agreement of the rounds' own judge with the programmatic check changes from round to round.
-- column precision: Precision of the judge in the round.
-- column precision_change: Its change since the round before.
-- column kappa: Cohen's kappa in the round.
-- column kappa_change: Its change since the round before.
-- column n: Trajectories that both have decided.
-- column round: Round of the run.
-- column run_id: The run.
SELECT
    round,
    precision,
    precision - lag(precision) OVER earlier AS precision_change,
    kappa,
    kappa - lag(kappa) OVER earlier AS kappa_change,
    n,
    run_id
FROM judge_by_round
WHERE level = 'trajectory'
WINDOW earlier AS (PARTITION BY run_id ORDER BY round)
ORDER BY run_id, round
