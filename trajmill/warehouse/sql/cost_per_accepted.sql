-- Money and seconds of each round for each trajectory that the rounds' own judge accepted.
-- column accepted: Attempts at training queries, guided or not, that were judged correct.
-- column cost: Price of all model calls of the round.
-- column cost_per_accepted: Price for each accepted trajectory; null without one.
-- column seconds: Duration of all stages of the round.
-- column seconds_per_accepted: Seconds for each accepted trajectory; null without one.
-- column round: Round of the run.
-- column run_id: The run.
WITH spent AS (
    SELECT run_id, round, sum(cost) AS cost, sum(seconds) AS seconds FROM cost_by_stage GROUP BY ALL
),
landed AS (
    SELECT t.run_id, t.round, count(*) FILTER (j.correct) AS accepted
    FROM trajectories AS t
    JOIN latest_judgements AS j USING (run_id, trajectory_id)
    WHERE t.purpose IN ('train', 'guided')
    GROUP BY ALL
)
SELECT
    round,
    coalesce(accepted, 0) AS accepted,
    cost,
    cost / nullif(accepted, 0) AS cost_per_accepted,
    seconds,
    seconds / nullif(accepted, 0) AS seconds_per_accepted,
    run_id
FROM spent
LEFT JOIN landed USING (run_id, round)
ORDER BY run_id, round
