-- Training examples with the same messages and screens, where there are several.
-- column examples: How many there are.
-- column queries: Distinct queries among them.
-- column first_round: The round of the first one.
-- column last_round: The round of the last one.
-- column example_id: One of them.
-- column run_id: The run.
SELECT
    count(*) AS examples,
    count(DISTINCT query_id) AS queries,
    min(round) AS first_round,
    max(round) AS last_round,
    min(example_id) AS example_id,
    run_id
FROM examples
GROUP BY run_id, messages, screens
HAVING count(*) > 1
ORDER BY run_id, examples DESC, example_id
