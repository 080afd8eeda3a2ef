-- What did not become a row: how many inputs, whose fault, and one of the messages.
-- column stage: The stage that failed.
-- column failure_class: The cause.
-- column failures: Inputs that gave no row.
-- column attempts: Tries in all.
-- column example: One of the messages.
-- column round: Round of the run.
-- column run_id: The run.
SELECT round, stage, failure_class, count(*) AS failures, sum(attempts) AS attempts, min(message) AS example, run_id
FROM failures
GROUP BY ALL
ORDER BY run_id, round, stage, failure_class
