-- The newest calibration of each judge on each set of labels, in percent, as CODA's Table 2 has it.
-- column judge: Name of the judge.
-- column labels: What it was compared with.
-- column ingredient: What was measured: a part of the judge, or all of it.
-- column channel: The channel of the part; null for the whole judge.
-- column resolution: `full`, or the scale of the screenshots.
-- column models: The models of the part.
-- column votes: Votes of the part on each trajectory.
-- column precision: Precision in percent.
-- column recall: Recall in percent.
-- column f1: Harmonic mean of both, in percent.
-- column kappa: Cohen's kappa.
-- column n: Trajectories that were decided.
-- column undecided: Trajectories without a decision.
-- column unjudged: Trajectories that could not be judged.
-- column calls: Model calls for each verdict.
-- column tokens: Tokens for each verdict.
-- column seconds: Seconds for each verdict.
-- column run_id: The run.
SELECT
    judge,
    coalesce(labels, 'programmatic rewards') AS labels,
    ingredient,
    channel,
    resolution,
    models,
    votes,
    round(100 * precision, 1) AS precision,
    round(100 * recall, 1) AS recall,
    round(100 * f1, 1) AS f1,
    round(kappa, 3) AS kappa,
    true_positive + false_positive + true_negative + false_negative AS n,
    undecided,
    unjudged,
    calls,
    tokens,
    seconds,
    run_id
FROM calibrations
QUALIFY rank() OVER (PARTITION BY run_id, judge, labels ORDER BY number DESC) = 1
ORDER BY run_id, labels NULLS FIRST, judge, number
