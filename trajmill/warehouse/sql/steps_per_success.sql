-- What a success takes: steps of all attempts per success, and the median length of the successful ones.
-- column policy_version: Version of the policy that acted.
-- column purpose: Why the attempts were made.
-- column attempts: Finished attempts.
-- column successes: Those that the check confirms.
-- column steps_per_success: Steps of all attempts for each success; null without one.
-- column median_steps: Median length of the successful attempts.
-- column round: Round of the run.
-- column run_id: The run.
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
