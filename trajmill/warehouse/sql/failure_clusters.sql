-- Failed attempts of each round and purpose, grouped by task and by where they went wrong: the first error that the judge
-- named, else the last step. Values of the query in a title are masked, so that attempts with other values are together.
-- column purpose: Why the attempts were made.
-- column task: The task that they failed.
-- column app: The app on the screen of that step; empty for a launcher.
-- column screen: Title of that screen, `…` for a value of the query; empty for a screen without a heading.
-- column judged: Whether the judge named the step; else attempts ended there.
-- column did: What most of them did there.
-- column attempts: Failed attempts of the group.
-- column tried: Attempts of the round at the task, failed or not.
-- column is_new: Whether no attempt of the purpose failed there in the round before that has any; null for its first.
-- column examples: Up to three of the trajectories, and the number of the step in them, from 1.
-- column round: Round of the run.
-- column run_id: The run.
WITH attempts AS (
    SELECT
        t.run_id, t.round, t.purpose, t.trajectory_id, t.reward < 1 AS failed, q.task,
        [s.value FOR s IN q.slots IF len(s.value) > 1] AS slots,
        coalesce(j.first_error_step, t.steps - 1) AS place, j.first_error_step IS NOT NULL AS judged
    FROM trajectories AS t
    JOIN queries AS q USING (run_id, query_id)
    LEFT JOIN latest_judgements AS j USING (run_id, trajectory_id)
    WHERE t.status = 'finished' AND t.reward IS NOT NULL
),
placed AS (
    SELECT a.*, s.screen_before, s.app_before AS app, s.action_kind, s.target.text AS target
    FROM attempts AS a
    LEFT JOIN steps AS s ON s.run_id = a.run_id AND s.trajectory_id = a.trajectory_id AND s."index" = a.place
    WHERE a.failed
),
titles AS (
    -- The title bar of a website has only its host, and the address as its value.
    SELECT screen_id, any_value(
        CASE WHEN coalesce(bars[1].value, '') = '' THEN bars[1].text ELSE coalesce(bars[2].text, bars[1].value) END
    ) AS title
    FROM (SELECT screen_id, [e FOR e IN elements IF e.role = 'heading'] AS bars FROM screens SEMI JOIN placed ON screen_id = screen_before)
    GROUP BY screen_id
),
masked AS (
    SELECT
        placed.*,
        list_reduce(list_prepend(coalesce(title, ''), slots), LAMBDA text, slot: replace(text, slot, '…')) AS screen,
        list_reduce(list_prepend(coalesce(target, ''), slots), LAMBDA text, slot: replace(text, slot, '…')) AS shown,
        trim(action_kind || ' ' || shown) AS did
    FROM placed
    LEFT JOIN titles ON screen_id = screen_before
),
grouped AS (
    SELECT
        run_id, round, purpose, task, coalesce(app, '') AS app, screen, judged, mode(did ORDER BY trajectory_id) AS did, count(*) AS attempts,
        list({'trajectory_id': trajectory_id, 'step': place + 1} ORDER BY trajectory_id)[:3] AS examples
    FROM masked
    GROUP BY ALL
),
tried AS (
    SELECT run_id, round, purpose, task, count(*) AS tried FROM attempts GROUP BY ALL
),
rounds_before AS (
    SELECT run_id, purpose, round, lag(round) OVER (PARTITION BY run_id, purpose ORDER BY round) AS before
    FROM (SELECT DISTINCT run_id, purpose, round FROM attempts)
)
SELECT
    g.round, g.purpose, g.task, g.app, g.screen, g.judged, g.did, g.attempts, n.tried,
    CASE WHEN b.before IS NOT NULL THEN old.task IS NULL END AS is_new,
    g.examples, g.run_id
FROM grouped AS g
JOIN tried AS n USING (run_id, round, purpose, task)
JOIN rounds_before AS b USING (run_id, purpose, round)
LEFT JOIN (SELECT DISTINCT run_id, round, purpose, task, app, screen FROM grouped) AS old
    ON old.run_id = g.run_id AND old.round = b.before AND old.purpose = g.purpose AND old.task = g.task
    AND old.app = g.app AND old.screen = g.screen
ORDER BY g.run_id, g.round, g.purpose, g.attempts DESC, g.task, g.app, g.screen
