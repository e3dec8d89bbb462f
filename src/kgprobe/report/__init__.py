"""Results for people: tables, figures and the one-file page."""
