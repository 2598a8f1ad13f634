"""Faults on purpose, on real processes, and an oracle that compares every result with what the target saw.

Read in this order: `campaign` (what is run), `scenarios` and `nemesis` (what is done to a fleet), `fleet` and `lab`
(how), `oracle` (what must hold).
"""
