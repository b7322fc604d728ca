"""Checking .rec files: their structure, contents, classes and copies."""
