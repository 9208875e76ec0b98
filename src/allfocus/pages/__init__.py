"""Pages that stand alone: what reports, contact sheets and tables share."""
