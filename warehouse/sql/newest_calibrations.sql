-- The newest calibration of each judge on each set of labels, in percent, as CODA's Table 2 has it.
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
