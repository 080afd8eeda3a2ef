-- How varied the supervised rows of each round are, by aspect (the columns of `example_facets`). The card of a release
-- has the same figures of its rows.
-- column aspect: What is counted: `thought`, `action`, `x`, `y`, `platform`, `app`, `task`, `steps`, `ending`, `words`.
-- column rows: Rows that have a value.
-- column distinct_values: Distinct values among them.
-- column effective: Number of equally frequent values that would be as varied: 2 to the power of the entropy in bits.
-- column largest: The most frequent value.
-- column largest_share: Share of the rows that have it.
-- column round: Round of the run.
-- column run_id: The run.
WITH counted AS (
    SELECT run_id, round, aspect, value, count(*) AS n
    FROM (UNPIVOT example_facets ON thought, action, x, y, platform, app, task, steps, ending, words
        INTO NAME aspect VALUE value)
    GROUP BY ALL
)
SELECT
    round,
    aspect,
    sum(n)::BIGINT AS rows,
    count(*) AS distinct_values,
    2 ** (log2(sum(n)) - sum(n * log2(n)) / sum(n)) AS effective,
    min_by(value, (-n, value)) AS largest,
    max(n) / sum(n) AS largest_share,
    run_id
FROM counted
GROUP BY ALL
ORDER BY run_id, round, aspect
