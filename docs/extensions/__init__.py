"""What this site adds to Sphinx: formulas without JavaScript, docstrings as they are written here, answers below, pictures in the page."""
