-- Trajectories on which the judge and the environment's own check differ, with what each channel said.
-- column trajectory_id: The trajectory.
-- column instruction: What the agent was asked.
-- column split: The split of its query.
-- column purpose: Why the attempt was made.
-- column reward: The reward of the programmatic check.
-- column judged_correct: What the judge decided.
-- column rule: The rule that combined the votes.
-- column reasons: What each channel said.
-- column round: Round of the run.
-- column run_id: The run.
SELECT
    t.round,
    t.trajectory_id,
    q.instruction,
    q.split,
    t.purpose,
    t.reward,
    j.correct AS judged_correct,
    j.rule,
    (
        SELECT string_agg(v.channel || ': ' || v.reason, '; ' ORDER BY v.channel, v.vote)
        FROM trajectory_verdicts AS v
        WHERE v.run_id = t.run_id AND v.trajectory_id = t.trajectory_id AND v.channel <> 'programmatic'
            AND v.judge IS NULL
    ) AS reasons,
    t.run_id
FROM trajectories AS t
JOIN latest_judgements AS j USING (run_id, trajectory_id)
LEFT JOIN queries AS q USING (run_id, query_id)
WHERE t.reward IS NOT NULL AND j.correct <> (t.reward >= 1)
ORDER BY t.run_id, t.round, t.trajectory_id
