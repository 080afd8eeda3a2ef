-- Type, GR and SR of CES (5.1): the steps of evaluated attempts against the actions of accepted trajectories of the same
-- query on the same screen, without those that the step critic calls HARMFUL. A step on a screen that no other accepted
-- trajectory has seen is not compared; where several actions are known to be right, the closest counts. A position is
-- right within the element under the right one; where no element is known, within 14 % of the screen. A drag's end is
-- right within 14 % of the screen, or half of the drag's length if that is less. A text typed twice is not right.
-- column policy_version: Version of the policy that was measured.
-- column split: The split of the queries.
-- column steps: Steps that were compared.
-- column type: Share of steps whose action has the right type; a swipe or drag of less than 4 % of the screen is none.
-- column gr: Share of right points among steps where both actions are clicks or long presses; null without any.
-- column sr: Share of steps with the right type and parameters: positions, direction, text with F1 over 0.5.
-- column round: Round of the run.
-- column run_id: The run.
WITH acted AS NOT MATERIALIZED (
    -- Read anew by each part: kept, the steps would take twice the memory, and no time less.
    SELECT
        t.run_id, t.round, t.model_version, t.query_id, t.purpose, t.trajectory_id, s."index", s.screen_before,
        s.action_kind, s.action, s.target.bounds AS box,
        coalesce(t.reward >= 1, j.correct, false) AS accepted
    FROM trajectories AS t
    JOIN steps AS s USING (run_id, trajectory_id)
    LEFT JOIN latest_judgements AS j USING (run_id, trajectory_id)
    WHERE t.status = 'finished' AND s.action IS NOT NULL
),
harmful AS (
    SELECT run_id, trajectory_id, "index"
    FROM step_verdicts
    WHERE judge IS NULL AND label = 'HARMFUL'
),
-- Each action is parsed once, and compared once with all steps that did the same on the same screen.
read AS (
    SELECT
        action_kind, action,
        concat_ws(
            '/', action_kind, action ->> '$.button', action ->> '$.count', action ->> '$.status', action ->> '$.device',
            lower(action ->> '$.keys')
        ) AS type,
        (action ->> '$.x')::INTEGER AS x,
        (action ->> '$.y')::INTEGER AS y,
        (action ->> '$.x2')::INTEGER AS x2,
        (action ->> '$.y2')::INTEGER AS y2,
        CASE
            WHEN action_kind IN ('scroll', 'hscroll') THEN sign((action ->> '$.clicks')::INTEGER)::VARCHAR
            WHEN action_kind = 'swipe' THEN swipe_direction(x2 - x, y2 - y)
        END AS direction,
        string_split_regex(lower(trim(coalesce(action ->> '$.text', action ->> '$.app'))), '\s+') AS words
    FROM (SELECT DISTINCT action_kind, action FROM acted)
),
sized AS (
    SELECT screen_id, any_value(width) AS width, any_value(height) AS height FROM screens GROUP BY screen_id
),
known AS (
    SELECT
        run_id, query_id, screen_before, action_kind, action, box,
        min(trajectory_id) AS least_trajectory, max(trajectory_id) AS greatest_trajectory
    FROM acted
    ANTI JOIN harmful USING (run_id, trajectory_id, "index")
    WHERE accepted
    GROUP BY ALL
),
compared AS (
    SELECT
        e.run_id, e.round, e.model_version, e.query_id, e.trajectory_id, e."index",
        a.type = r.type AND CASE
            WHEN r.x2 IS NULL THEN true
            ELSE moves(a.x, a.y, a.x2, a.y2, width, height) = moves(r.x, r.y, r.x2, r.y2, width, height)
        END AS right_type,
        -- An action of another type has no point: Table 2 has a GR of 53 % beside a Type of 26 % and an SR of 14 %, which
        -- no other count allows.
        right_type AND a.action_kind IN ('click', 'long_press') AS pointed,
        CASE
            WHEN NOT right_type THEN false
            WHEN r.words IS NOT NULL THEN word_f1(a.words, r.words) > 0.5
            WHEN a.action_kind IN ('scroll', 'hscroll')
                OR a.action_kind = 'swipe' AND moves(r.x, r.y, r.x2, r.y2, width, height)
                THEN a.direction = r.direction
            WHEN r.x IS NULL THEN true
            WHEN k.box IS NOT NULL AND NOT (a.x >= k.box[1] AND a.y >= k.box[2] AND a.x < k.box[3] AND a.y < k.box[4])
                THEN false
            WHEN k.box IS NULL AND share_apart(a.x, a.y, r.x, r.y, width, height) > 0.14 THEN false
            WHEN a.action_kind = 'drag'
                THEN share_apart(a.x2, a.y2, r.x2, r.y2, width, height)
                    <= least(0.14, share_apart(r.x, r.y, r.x2, r.y2, width, height) / 2)
            ELSE true
        END AS right_parameters
    FROM acted AS e
    JOIN known AS k ON e.run_id = k.run_id AND e.query_id = k.query_id AND e.screen_before = k.screen_before
        AND (e.trajectory_id <> k.least_trajectory OR e.trajectory_id <> k.greatest_trajectory)
    JOIN read AS a ON e.action_kind = a.action_kind AND e.action = a.action
    JOIN read AS r ON k.action_kind = r.action_kind AND k.action = r.action
    JOIN sized AS z ON z.screen_id = k.screen_before
    WHERE e.purpose = 'evaluate'
),
by_step AS (
    SELECT
        run_id, round, model_version, query_id,
        bool_or(right_type) AS right_type, bool_or(pointed) AS pointed, bool_or(right_parameters) AS right_parameters
    FROM compared
    GROUP BY run_id, round, model_version, query_id, trajectory_id, "index"
)
SELECT
    round,
    model_version AS policy_version,
    split,
    count(*) AS steps,
    avg(right_type::INTEGER) AS type,
    avg(right_parameters::INTEGER) FILTER (pointed) AS gr,
    avg(right_parameters::INTEGER) AS sr,
    run_id
FROM by_step
JOIN (SELECT DISTINCT run_id, query_id, split FROM queries) USING (run_id, query_id)
GROUP BY ALL
ORDER BY run_id, round, policy_version, split
