-- The papers' metrics of the policy that was measured last.
FROM metrics_by_round LEFT JOIN action_match USING (run_id, round, policy_version, split)
WHERE run_id = $1 AND purpose = 'evaluate'
QUALIFY round = max(round) OVER () AND policy_version = last_value(policy_version) OVER (ORDER BY round, policy_version
    ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
ORDER BY list_position(['train', 'heldout_slots', 'heldout_phrasings', 'heldout_apps', 'validation'], split)
