-- Agents that made guided attempts in place of the policy.
SELECT DISTINCT agent FROM trajectories WHERE run_id = $1 AND purpose = 'guided' AND guidance_id IS NULL ORDER BY 1
