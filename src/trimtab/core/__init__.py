"""The few words every room speaks."""
