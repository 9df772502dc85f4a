"""One pass, through ports only: snapshot → observe → plan → apply → record."""
