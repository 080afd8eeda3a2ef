"""Planning: the manual of a task, from its successes (GUI-Owl 2.2.2, Task Planning)."""
