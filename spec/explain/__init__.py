"""`python -m spec explain`: one budget with its reader's numbers, term by term.

Nothing is priced here: every value is what a formula of the table in `spec/__init__.py` returns. The equation beside it
is text, and the tests work it out again. Pictures are drawn by matplotlib, which is imported when one is asked for.
"""
