-- One row for each trajectory, joined with its query and its judgements.
CREATE OR REPLACE TABLE attempts AS
WITH own AS (
    SELECT run_id, trajectory_id, correct, agreed
    FROM read_judgements
    WHERE judge IS NULL
    QUALIFY row_number() OVER (PARTITION BY run_id, trajectory_id ORDER BY round DESC, made_by DESC) = 1
),
all_judges AS (
    SELECT run_id, trajectory_id, bool_or(correct) AND NOT bool_and(correct) AS differ
    FROM read_judgements
    GROUP BY ALL
),
asked AS (
    SELECT * FROM read_queries
    QUALIFY row_number() OVER (PARTITION BY run_id, query_id ORDER BY round DESC) = 1
),
joined AS (
    SELECT
        t.*,
        q.platform, q.apps, q.source, q.task, q.instruction, q.difficulty, q.split,
        own.correct,
        own.agreed,
        coalesce(all_judges.differ, false) AS judges_differ
    FROM read_trajectories AS t
    LEFT JOIN asked AS q USING (run_id, query_id)
    LEFT JOIN own USING (run_id, trajectory_id)
    LEFT JOIN all_judges USING (run_id, trajectory_id)
)
SELECT
    row_number() OVER (ORDER BY written_at NULLS FIRST, run_id, round, trajectory_id) AS place,
    * EXCLUDE (correct, agreed, judges_differ, apps, instruction),
    coalesce(apps, []) AS apps,
    coalesce(instruction, '') AS instruction,
    CASE
        WHEN status <> 'finished' THEN 'void'
        WHEN reward IS NULL THEN 'unchecked'
        WHEN reward >= 1 THEN 'passed'
        ELSE 'not passed'
    END AS outcome,
    CASE correct WHEN true THEN 'correct' WHEN false THEN 'incorrect' ELSE 'unjudged' END AS judged,
    list_filter([
        CASE WHEN correct IS NOT NULL AND reward IS NOT NULL AND correct <> (reward >= 1) THEN 'with the check' END,
        CASE WHEN NOT agreed THEN 'between votes' END,
        CASE WHEN judges_differ THEN 'between judges' END
    ], lambda kind: kind IS NOT NULL) AS disagreement,
    lower(concat_ws(' ', instruction, task, answer, failure_message)) AS searched
FROM joined
