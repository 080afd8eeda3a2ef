-- Rounds whose attempts were made by another version than the one that was then trained on them.
SELECT DISTINCT r.round, t.model_version AS acted, r.policy_before AS trained
FROM rounds AS r JOIN trajectories AS t USING (run_id, round)
WHERE r.run_id = $1 AND t.purpose = 'train' AND t.model_version <> r.policy_before ORDER BY ALL
