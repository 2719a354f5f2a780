"""The operators of sources and flows, by group: each method puts one stage of `streams.stages` behind what it is called on."""
