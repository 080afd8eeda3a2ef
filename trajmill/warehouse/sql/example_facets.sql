-- What each supervised row (kind `end_to_end`) shows and teaches, in values that can be counted.
-- column example_id: The row of `examples`.
-- column thought: Skeleton of the thought: `…` for quoted texts, numbers, the target's text and values of the query.
-- column action: Kind of the action.
-- column x: Tenth of the screen's width where the action presses, 0 at the left; null for other actions.
-- column y: Tenth of the screen's height where the action presses, 0 at the top; null for other actions.
-- column platform: Platform of the query.
-- column app: App on the screen; `launcher` outside of apps.
-- column task: Task of the query.
-- column steps: Steps of the trajectory; only on its last row.
-- column ending: How the trajectory ends: `success`, `failure`, `answer`; only on that row.
-- column words: Whose words the thought has: `template`, `model` or `import`.
-- column round: Round of the run.
-- column run_id: The run.
WITH sized AS (
    SELECT screen_id, any_value(width) AS width, any_value(height) AS height FROM screens GROUP BY screen_id
),
learned AS (
    SELECT e.run_id, e.round, e.example_id, q.task, q.platform, q.slots, t.model_version, t.steps, s.*
        EXCLUDE (run_id, round),
        action_kind IN ('click', 'long_press', 'drag') AS presses,
        action_kind IN ('terminate', 'answer') AS ends,
        regexp_replace(thought, '"[^"]*"|“[^”]*”', '…', 'g') AS unquoted
    FROM examples AS e
    JOIN queries AS q ON q.run_id = e.run_id AND q.query_id = e.query_id
    -- Without the query, DuckDB may first join all trajectories of a run with all its queries.
    JOIN trajectories AS t ON t.run_id = e.run_id AND t.query_id = e.query_id AND t.trajectory_id = e.trajectory_id
    JOIN steps AS s ON s.run_id = e.run_id AND s.trajectory_id = e.trajectory_id AND s."index" = e.step_index
    WHERE e.kind = 'end_to_end'
),
-- Few thoughts have a value outside of quotes: patterns are made for these alone.
named AS (
    SELECT *,
        list_filter(
            [target.text, app_before] || [slot.value FOR slot IN slots],
            LAMBDA text: len(text) > 1 AND contains(unquoted, text)
        ) AS known
    FROM learned
)
SELECT
    round,
    example_id,
    regexp_replace(
        CASE
            WHEN len(known) = 0 THEN unquoted
            ELSE regexp_replace(
                unquoted,
                '\b(' || array_to_string([regexp_escape(text) FOR text IN known], '|') || ')\b', '…', 'g'
            )
        END,
        '[0-9]+([.,:][0-9]+)*', '…', 'g'
    ) AS thought,
    action_kind AS action,
    CASE WHEN presses THEN least(9, (action ->> '$.x')::INTEGER * 10 // width)::VARCHAR END AS x,
    CASE WHEN presses THEN least(9, (action ->> '$.y')::INTEGER * 10 // height)::VARCHAR END AS y,
    platform,
    coalesce(nullif(app_before, ''), 'launcher') AS app,
    task,
    CASE WHEN ends THEN steps::VARCHAR END AS steps,
    CASE WHEN ends THEN coalesce(action ->> '$.status', action_kind) END AS ending,
    CASE
        WHEN model_version LIKE 'embedded-%' OR model_version IN ('reference', 'element_walk', 'explorer')
            THEN 'template'
        WHEN model_version LIKE 'import.%' THEN 'import'
        ELSE 'model'
    END AS words,
    run_id
FROM named
LEFT JOIN sized ON screen_id = screen_before
