"""The commands `trajmill graph ...`: explore, check, show, verify and annotate graphs of apps."""
