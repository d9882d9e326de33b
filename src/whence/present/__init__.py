"""Answers as text, tables, JSON and CSV.

Each `*_report` function makes a `Report` of an answer; `write` gives it out in one of three forms.
"""

from whence.present.answers import check_report, impact_report, trace_report
from whence.present.catalog import gc_report, runs_report
from whence.present.cells import cells_report
from whence.present.report import Format, Grid, Report, write
from whence.present.show import show_report
from whence.present.text import grid_text

__all__ = [
    "Format",
    "Grid",
    "Report",
    "cells_report",
    "check_report",
    "gc_report",
    "grid_text",
    "impact_report",
    "runs_report",
    "show_report",
    "trace_report",
    "write",
]
