-- What has landed on each day (UTC): attempts at training queries and imports, and what the run's own judge accepted.
-- column day: The day on which the trajectories were written; null for those of an earlier trajmill.
-- column trajectories: Attempts, guided or not, and imported trajectories.
-- column finished: Those that finished.
-- column accepted: Those that were judged correct.
-- column guided: Those with guidance.
-- column imported: Those that were recorded elsewhere.
-- column round: Round of the run.
-- column run_id: The run.
SELECT
    t.written_at::DATE AS day,
    t.round,
    count(*) AS trajectories,
    count(*) FILTER (t.status = 'finished') AS finished,
    count(*) FILTER (j.correct) AS accepted,
    count(*) FILTER (t.purpose = 'guided') AS guided,
    count(*) FILTER (t.purpose = 'imported') AS imported,
    t.run_id
FROM trajectories AS t
LEFT JOIN latest_judgements AS j USING (run_id, trajectory_id)
WHERE t.purpose IN ('train', 'guided', 'imported')
GROUP BY ALL
ORDER BY t.run_id, day, t.round
