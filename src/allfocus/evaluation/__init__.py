"""Benchmarks: methods x data sets x metrics -> tables with statistics, and a report to look at."""
