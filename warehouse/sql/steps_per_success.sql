-- What a success takes: steps of all attempts per success, and the median length of the successful ones.
SELECT
    round,
    model_version AS policy_version,
    purpose,
    count(*) AS attempts,
    count(*) FILTER (reward >= 1) AS successes,
    sum(steps) / nullif(count(*) FILTER (reward >= 1), 0) AS steps_per_success,
    median(steps) FILTER (reward >= 1) AS median_steps,
    run_id
FROM trajectories
WHERE status = 'finished' AND reward IS NOT NULL
GROUP BY ALL
ORDER BY run_id, round, policy_version, purpose
