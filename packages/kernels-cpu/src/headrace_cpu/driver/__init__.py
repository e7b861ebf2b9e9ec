"""Drivers: functions that run units one after the other in one native call."""
