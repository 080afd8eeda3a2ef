-- Where each training example comes from: its trajectory, step, screens and query, and the release that first offered it.
-- column example_id: The example.
-- column kind: What it teaches.
-- column trajectory_id: The trajectory that it was derived from.
-- column step_index: The step that it teaches.
-- column screen_before: Id of the screen that the agent saw.
-- column screen_after: Id of the screen after the action.
-- column query_id: The query of the trajectory.
-- column instruction: What the agent was asked.
-- column policy_version: Version of the policy that acted.
-- column purpose: Why the attempt was made.
-- column release: The release of the example's round; later ones of the run may have it, too.
-- column round: Round of the run.
-- column run_id: The run.
SELECT
    e.round,
    e.example_id,
    e.kind,
    e.trajectory_id,
    e.step_index,
    s.screen_before,
    s.screen_after,
    e.query_id,
    q.instruction,
    t.model_version AS policy_version,
    t.purpose,
    r.release,
    e.run_id
FROM examples AS e
LEFT JOIN trajectories AS t USING (run_id, trajectory_id)
LEFT JOIN steps AS s ON s.run_id = e.run_id AND s.trajectory_id = e.trajectory_id AND s.index = e.step_index
LEFT JOIN queries AS q ON q.run_id = e.run_id AND q.query_id = e.query_id
LEFT JOIN rounds AS r ON r.run_id = e.run_id AND r.round = e.round
