"""Kubernetes' own autoscalers, exactly: HPA (replicas, behaviour) and VPA (histogram, recommender, updater).

Plain values in and out, time as an argument, state in objects that the caller keeps: they serve a simulated
service and, as the fallback of a controller, a real one. Written after the sources of Kubernetes (HPA from
1.33 on) and of the vertical pod autoscaler (1.7); `make bench-pod-exact` counts the vectors they meet.
"""
