"""Make `laya-mini`, the checkpoint that ships in the package; not part of the wheel."""
