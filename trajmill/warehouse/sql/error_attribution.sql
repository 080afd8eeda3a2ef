-- Why checked attempts failed, in the classes of NaturalGAIA 3.3 and 5.4; each attempt has the first class that fits.
-- The rules read only what is stored of an attempt: its replies, its screens and the judge's first wrong step.
-- `structural_compliance` (SCE): the last reply, or half of all replies, had no action that could be read.
-- `operational` (OE): the first wrong step hit no element or changed nothing; without one, half of all steps did.
-- `perceptual` (PE): the first wrong step, or else the last one, wrote a text: a value was misread.
-- `knowledge_deficit` (KD): the attempt ran into a limit, or the agent gave up.
-- `planning` (PRE): everything else: effective steps to a wrong end.
-- column policy_version: Version of the policy that acted.
-- column purpose: Why the attempts were made.
-- column error: The class.
-- column attempts: Failed attempts of this class.
-- column type: The paper's type: `structural_compliance`, `planning`, or `execution`, which has three classes (EE).
-- column share: Their share of the failed attempts of this version and purpose.
-- column share_of_all: Their share of all its attempts that were checked, as in section 5.4 of the paper.
-- column example: Id of one of them.
-- column round: Round of the run.
-- column run_id: The run.
WITH failed AS (
    SELECT t.run_id, t.round, t.model_version, t.purpose, t.trajectory_id, t.stop_reason, t.steps, t.answer,
        j.first_error_step
    FROM trajectories AS t
    LEFT JOIN latest_judgements AS j USING (run_id, trajectory_id)
    WHERE t.status = 'finished' AND t.reward < 1
),
looked_at AS (
    SELECT
        f.run_id, f.trajectory_id,
        count(*) FILTER (s.action IS NULL) AS unread,
        count(*) FILTER (s.without_effect) AS without_effect,
        coalesce(bool_or(s.action IS NULL) FILTER (s."index" = f.steps - 1), false) AS ends_unread,
        coalesce(bool_or(s.without_effect) FILTER (s."index" = f.first_error_step), false) AS errs_without_effect,
        coalesce(bool_or(s.action_kind IN ('type', 'answer'))
            FILTER (s."index" = coalesce(f.first_error_step, f.steps - 1)), false) AS errs_in_text,
        coalesce(bool_or(s.gives_up) FILTER (s."index" = f.steps - 1), false) AS gives_up
    FROM failed AS f
    JOIN (
        SELECT run_id, trajectory_id, "index", action, action_kind,
            action_kind NOT IN ('unparsed', 'answer', 'terminate', 'wait') AND screen_before = screen_after
                AS without_effect,
            action_kind = 'terminate' AND json_extract_string(action, '$.status') = 'failure' AS gives_up
        FROM steps
    ) AS s USING (run_id, trajectory_id)
    GROUP BY ALL
),
attributed AS (
    SELECT f.run_id, f.round, f.model_version, f.purpose, f.trajectory_id,
        CASE
            WHEN a.ends_unread OR a.unread * 2 >= f.steps AND a.unread > 0 THEN 'structural_compliance'
            WHEN a.errs_without_effect OR f.first_error_step IS NULL AND a.without_effect * 2 >= f.steps
                AND a.without_effect > 0 THEN 'operational'
            WHEN a.errs_in_text THEN 'perceptual'
            WHEN f.stop_reason <> 'agent_done' OR a.gives_up THEN 'knowledge_deficit'
            ELSE 'planning'
        END AS error
    FROM failed AS f
    LEFT JOIN looked_at AS a USING (run_id, trajectory_id)
),
checked AS (
    SELECT run_id, round, model_version, purpose, count(*) AS attempts
    FROM trajectories
    WHERE status = 'finished' AND reward IS NOT NULL
    GROUP BY ALL
)
SELECT
    round,
    model_version AS policy_version,
    purpose,
    error,
    CASE WHEN error IN ('structural_compliance', 'planning') THEN error ELSE 'execution' END AS type,
    count(*) AS attempts,
    count(*) / sum(count(*)) OVER (PARTITION BY run_id, round, model_version, purpose) AS share,
    count(*) / any_value(c.attempts) AS share_of_all,
    min(trajectory_id) AS example,
    run_id
FROM attributed
JOIN checked AS c USING (run_id, round, model_version, purpose)
GROUP BY run_id, round, model_version, purpose, error
ORDER BY run_id, round, policy_version, purpose, attempts DESC, error
