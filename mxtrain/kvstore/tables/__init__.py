"""Rows of tables on their way between the workers that use them and the processes that own them (docs/adr/0053)."""
