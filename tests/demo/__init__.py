"""`make demo`: the whole story on this machine, with a real registry, a real repository and real builds."""
