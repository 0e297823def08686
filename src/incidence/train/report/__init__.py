"""The report of a run: a few lines in the terminal, and one page to keep."""

from incidence.train.report.page import finish, summary

__all__ = ["finish", "summary"]
