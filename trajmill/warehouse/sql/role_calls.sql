-- What each role of an agent was asked and answered: Worker, Manager, Reflector, Notetaker and
-- the roles of other agents; `policy` is the only role of an end-to-end agent. Training data of roles is derived from it.
-- The Reflector's, the Notetaker's and the Manager's calls at a step are about the action of the step before it; the
-- Worker's call decided on the action of the step itself.
-- column trajectory_id: The trajectory.
-- column step_index: The step at which the role was asked.
-- column agent: The kind of agent.
-- column role: The role.
-- column model: Version of its model; `embedded-...` for the rules that come with trajmill.
-- column messages: JSON of the input, with screen ids in place of images.
-- column response: The output, word for word; untrusted.
-- column malformed: Why the output is not what the role was asked for; null if it is. `count(malformed)` counts such
-- outputs. The role decided nothing by one, and nothing is learned from it.
-- column input_tokens: Tokens of the input.
-- column output_tokens: Tokens of the output.
-- column call_id: Identifies the call.
-- column round: Round of the run.
-- column run_id: The run.
SELECT
    c.round,
    c.trajectory_id,
    c.step_index,
    t.agent,
    c.role,
    c.made_by AS model,
    c.messages,
    c.response,
    c.malformed,
    c.input_tokens,
    c.output_tokens,
    c.call_id,
    c.run_id
FROM model_calls AS c
JOIN trajectories AS t USING (run_id, trajectory_id)
WHERE c.step_index IS NOT NULL AND c.response IS NOT NULL AND NOT starts_with(c.role, 'critic')
ORDER BY c.run_id, c.round, c.trajectory_id, c.step_index, c.call_id
