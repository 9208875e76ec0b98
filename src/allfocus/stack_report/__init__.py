"""The report of one fused stack as one HTML page: :mod:`allfocus.stack_report.report` writes it."""

from allfocus.stack_report.contents import StackReport
from allfocus.stack_report.report import build_stack_report, check_report_path, write_stack_report

__all__ = ["StackReport", "build_stack_report", "check_report_path", "write_stack_report"]
