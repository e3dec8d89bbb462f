"""Tables as text: for the terminal, Markdown, LaTeX, HTML, CSV and JSON; one file for each."""
