"""How nodes, and people who look at them, learn of a pool's image: one adapter for each way of DESIGN §6.4.

Does not belong here: the status file, which is Git's.
"""
