"""The program of the pod of ``helm test``: calls every component and creates objects as dry runs.

It is part of the operator's image, but shares no code with the operator.
"""
