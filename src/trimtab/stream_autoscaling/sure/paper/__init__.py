"""The published table of SURE, learned again under the published rules (`simulator.paper`)."""
