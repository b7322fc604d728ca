"""The sections of a run, a module and a frozen dataclass each: names, defaults and help of every flag of `fit`.

A field `batch_size` is the flag `--batch-size` and the YAML key `batch_size`. The run that they make up is
`config/schema.py`'s.
"""
