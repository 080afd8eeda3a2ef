-- What every judge says of every trajectory: `judge` is null for the rounds' own, else the NAME of a `[judges.NAME]`;
-- `made_by` and `rule` tell versions of a judge apart. `right` compares with the programmatic check, where there is one.
-- column trajectory_id: The trajectory.
-- column instruction: What the agent was asked.
-- column purpose: Why the attempt was made.
-- column judge: NAME of a `[judges.NAME]`; null for the rounds' own judge.
-- column correct: What this judge decided.
-- column reward: The reward of the programmatic check; null without one.
-- column right: Whether the judge agrees with the check; null without one.
-- column rule: The rule that combined the votes.
-- column made_by: Version of the judge.
-- column round: Round of the run.
-- column run_id: The run.
SELECT DISTINCT
    t.round,
    t.trajectory_id,
    q.instruction,
    t.purpose,
    j.judge,
    j.correct,
    t.reward,
    j.correct = (t.reward >= 1) AS "right",
    j.rule,
    j.made_by,
    t.run_id
FROM trajectories AS t
JOIN judgements AS j USING (run_id, trajectory_id)
LEFT JOIN queries AS q USING (run_id, query_id)
ORDER BY t.run_id, t.round, t.trajectory_id, j.judge NULLS FIRST, j.made_by
