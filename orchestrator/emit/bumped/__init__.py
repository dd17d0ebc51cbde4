"""The verdicts of a bump for each audience: a terminal, a pull request, GitHub's annotations."""
