"""What a bisection writes: the smallest failing program, a script that repeats the failure, and a report of both."""
