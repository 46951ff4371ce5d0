"""A scenario's layers and options, run by PyTorch itself: ``python -m paceline.replay PLAN``.

``paceline calibrate replay SCENARIO --with torch`` writes the plan. The folder needs torch and
nothing else, so it can be copied to a cluster alone: ``python -m replay PLAN`` beside it.
"""
