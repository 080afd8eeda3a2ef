-- The policy versions in the order of their rounds, with their measured success on each split.
-- column model_version: The version.
-- column parent: The version that it was trained from.
-- column promoted: Whether it was put in force.
-- column reason: Why, or why not.
-- column updates: Optimiser updates so far.
-- column release: The release that it was trained on.
-- column train: Success on training queries.
-- column heldout_slots: Success on new slot combinations.
-- column heldout_phrasings: Success on new phrasings.
-- column heldout_apps: Success on apps that training never sees.
-- column validation: Success on the validation queries.
-- column round: Round of the run.
-- column run_id: The run.
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
