"""The report page: one HTML file with the ranks, which computes scores in the browser, offline."""
