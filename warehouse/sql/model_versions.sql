-- The policy versions in the order of their rounds, with their measured success on each split.
WITH measured AS (
    SELECT run_id, round, model_version, unnest(success, recursive := true)
    FROM models
)
SELECT
    round,
    model_version,
    parent,
    promoted,
    reason,
    updates,
    release,
    any_value(successes / nullif(queries, 0)) FILTER (split = 'train') AS train,
    any_value(successes / nullif(queries, 0)) FILTER (split = 'heldout_slots') AS heldout_slots,
    any_value(successes / nullif(queries, 0)) FILTER (split = 'heldout_phrasings') AS heldout_phrasings,
    any_value(successes / nullif(queries, 0)) FILTER (split = 'heldout_apps') AS heldout_apps,
    any_value(successes / nullif(queries, 0)) FILTER (split = 'validation') AS validation,
    run_id
FROM models
LEFT JOIN measured USING (run_id, round, model_version)
GROUP BY ALL
ORDER BY run_id, round, model_version
