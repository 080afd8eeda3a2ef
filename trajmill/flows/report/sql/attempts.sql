-- Success of unguided and of guided attempts while collecting.
SELECT purpose AS name, round, count(*) FILTER (reward >= 1) AS successes, count(*) AS n, successes / n AS share,
    wilson_low(successes, n) AS low, wilson_high(successes, n) AS high
FROM trajectories
WHERE run_id = $1 AND status = 'finished' AND reward IS NOT NULL AND purpose IN ('train', 'guided')
GROUP BY ALL ORDER BY round
