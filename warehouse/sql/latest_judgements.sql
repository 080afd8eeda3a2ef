-- The decision that counts for each trajectory: judging again adds rows, the latest round and judge version wins.
SELECT *
FROM judgements
QUALIFY row_number() OVER (PARTITION BY run_id, trajectory_id ORDER BY round DESC, made_by DESC) = 1
