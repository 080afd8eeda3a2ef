-- What did not become a row: how many inputs, whose fault, and one of the messages.
SELECT round, stage, failure_class, count(*) AS failures, sum(attempts) AS attempts, min(message) AS example, run_id
FROM failures
GROUP BY ALL
ORDER BY run_id, round, stage, failure_class
