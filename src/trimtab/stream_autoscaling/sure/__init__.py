"""SURE (IJCAI 2022), done right: parallelism from a learned look at the recent past of a streaming job."""
