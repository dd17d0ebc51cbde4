"""A stand-in for the vendor's compiled library, for machines without the device.

It has the names that the vendor's vLLM imports and no others: a name that is absent in the image is absent
here too. What computes is a plain reference on the CPU and refuses what the device refuses.
"""
