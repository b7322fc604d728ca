"""Packing: from a source to .rec files, and on after an interruption; and what makes two pictures copies."""
