FROM guidance_lift JOIN rounds USING (run_id, round) WHERE run_id = $1 ORDER BY round
