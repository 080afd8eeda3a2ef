-- Why attempts of the last round failed, those that measure the policy first.
SELECT *, sum(attempts) OVER (PARTITION BY purpose)::BIGINT AS failed, count(*) OVER (PARTITION BY purpose) AS in_all
FROM failure_clusters WHERE run_id = $1 AND round = (SELECT max(round) FROM rounds WHERE run_id = $1)
QUALIFY row_number() OVER (PARTITION BY purpose ORDER BY attempts DESC, is_new DESC, task, app, screen) <= 10
ORDER BY list_position(['evaluate', 'train', 'guided'], purpose), attempts DESC, is_new DESC, task, app, screen
