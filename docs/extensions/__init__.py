"""Add to Sphinx what this site needs: formulas without JavaScript, docstrings as they are written
here, pictures in the page, notebooks of guides, and a reference of every public name.
"""
