-- The decision that counts for each trajectory: that of the rounds' own judge; the latest round and judge version wins.
-- columns of judgements
SELECT *
FROM judgements
WHERE judge IS NULL
QUALIFY row_number() OVER (PARTITION BY run_id, trajectory_id ORDER BY round DESC, made_by DESC) = 1
