import itertools

import pytest

from trajmill.stages.metrics.pass_at_k import QueryAttempts, mean_pass_at_k, pass_at_k


def test_four_attempts_at_each_of_fifteen_tasks_as_in_naturalgaia() -> None:
    """Mobile-Agent-e at level 1: P@4 is 100.0 %, PC-Agent's 66.7 %."""
    assert mean_pass_at_k([QueryAttempts(4, 1)] * 15, 4) == 1.0
    solved = [QueryAttempts(4, 2)] * 10 + [QueryAttempts(4, 0)] * 5
    assert mean_pass_at_k(solved, 4) == pytest.approx(0.667, abs=5e-4)
    assert mean_pass_at_k(solved, 1) == pytest.approx(20 / 60)


@pytest.mark.parametrize(("n", "c", "k"), [(5, 2, 3), (6, 1, 1), (4, 4, 2), (3, 0, 2)])
def test_the_estimate_is_the_mean_over_all_draws_of_k_attempts(n: int, c: int, k: int) -> None:
    outcomes = [True] * c + [False] * (n - c)
    draws = list(itertools.combinations(outcomes, k))
    assert pass_at_k(QueryAttempts(n, c), k) == pytest.approx(sum(map(any, draws)) / len(draws))


def test_queries_with_too_few_attempts_do_not_count() -> None:
    assert mean_pass_at_k([QueryAttempts(3, 3), QueryAttempts(4, 0)], 4) == 0.0
    assert mean_pass_at_k([QueryAttempts(1, 1)], 4) is None
    with pytest.raises(ValueError, match="pass@4 of 1 successes in 1 attempts"):
        pass_at_k(QueryAttempts(1, 1), 4)
