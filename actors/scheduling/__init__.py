"""Schedules: when each message of one is due, and what is done about times that have passed. Pure; every time is passed in."""
