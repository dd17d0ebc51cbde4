"""The sweep: start a server for each value of a parameter, put a load on it, measure, recommend. Outside the layers."""
