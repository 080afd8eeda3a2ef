"""The dialect of UI-TARS."""
