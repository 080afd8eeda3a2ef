-- How good a policy version is, and what its successes take: attempts that the environment itself checked.
-- WPSR is the success rate weighted by difficulty (NaturalGAIA 3.3): atomic tasks, or else pages on which something
-- is done, plus apps.
-- column agent: The agent that acted.
-- column policy_version: Version of the policy that acted.
-- column purpose: Why the attempts were made.
-- column split: The split of the queries.
-- column queries: Distinct queries that were checked.
-- column attempts: Attempts at them.
-- column success_rate: Mean over the queries of the share of attempts that succeeded; this is pass@1.
-- column pass_at_4: Mean chance that one of four attempts succeeds, over queries with four or more; null without any.
-- column wpsr: Success rate in which a query weighs as much as it is difficult.
-- column matcr: Mean share of the atomic tasks done one after the other (NaturalGAIA 3.3); null where no task has any.
-- column p_atsr: Share of the atomic tasks done, later ones weighing more (NaturalGAIA 3.3); null where no task has any.
-- column yield: Share of the attempts that the rounds' own judge accepted; null if none was judged.
-- column false_complete_rate: Share of the attempts in which the agent reported success though the check failed.
-- column side_effect_rate: Share of the attempts that changed state beyond the goal; null in a world that cannot tell.
-- column steps_per_success: Steps of all attempts for each success; null without one.
-- column tokens_per_success: Tokens of all requests and replies for each success; null without one.
-- column seconds_per_success: Seconds of all episodes for each success; null without one.
-- column round: Round of the run.
-- column run_id: The run.
WITH difficulties AS (
    SELECT
        run_id,
        query_id,
        any_value(split) AS split,
        any_value(len(apps) + coalesce(len(atomic_tasks), greatest(1, len(list_distinct(
            [step.page FOR step IN path IF step.operation IN ('tap', 'type')]
        ))))) AS difficulty
    FROM queries
    GROUP BY ALL
),
tried AS (
    SELECT
        t.run_id, t.round, t.agent, t.model_version, t.purpose, t.query_id,
        count(*) AS attempts,
        count(*) FILTER (t.reward >= 1) AS successes,
        count(*) FILTER (j.correct) AS accepted,
        count(j.correct) AS judged,
        count(*) FILTER (t.false_complete) AS false_completes,
        count(t.false_complete) AS reported,
        count(*) FILTER (len(t.side_effects) > 0) AS with_side_effects,
        count(t.side_effects) AS compared,
        sum(t.steps) AS steps,
        sum(t.input_tokens + t.output_tokens) AS tokens,
        sum(t.wall_ms) / 1000 AS seconds,
        avg(a.completed) AS completed,
        avg(a.weight_done) AS weight_done,
        avg(a.weight) AS weight
    FROM trajectories AS t
    LEFT JOIN latest_judgements AS j USING (run_id, trajectory_id)
    LEFT JOIN atomic_outcomes AS a USING (run_id, trajectory_id)
    WHERE t.status = 'finished' AND t.reward IS NOT NULL
    GROUP BY ALL
),
rated AS (
    SELECT
        *,
        successes / attempts AS success,
        CASE WHEN attempts >= 4 THEN 1 - list_product(
            [greatest(0, attempts - successes - i) / (attempts - i) FOR i IN range(4)]
        ) END AS pass_at_4
    FROM tried
    JOIN difficulties USING (run_id, query_id)
)
SELECT
    round,
    agent,
    model_version AS policy_version,
    purpose,
    split,
    count(*) AS queries,
    sum(attempts)::BIGINT AS attempts,
    avg(success) AS success_rate,
    avg(pass_at_4) AS pass_at_4,
    sum(difficulty * success) / sum(difficulty) AS wpsr,
    avg(completed) AS matcr,
    sum(weight_done) / sum(weight) AS p_atsr,
    sum(accepted) / nullif(sum(judged), 0) AS yield,
    sum(false_completes) / nullif(sum(reported), 0) AS false_complete_rate,
    sum(with_side_effects) / nullif(sum(compared), 0) AS side_effect_rate,
    sum(steps) / nullif(sum(successes), 0) AS steps_per_success,
    sum(tokens) / nullif(sum(successes), 0) AS tokens_per_success,
    sum(seconds) / nullif(sum(successes), 0) AS seconds_per_success,
    run_id
FROM rated
GROUP BY ALL
ORDER BY run_id, round, agent, policy_version, purpose, split
