"""The report of a run: one page for people, the same in Markdown for a pull request."""
