"""AWARE: replicas, CPU and memory of services by a learned policy that reads what each service is like."""
