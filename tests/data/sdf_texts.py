"""Two molecules as SDF files write them."""

TRAIN = """ethanol
  RDKit

  3  2  0  0  0  0  0  0  0  0999 V2000
    0.0000    0.0000    0.0000 C   0  0  0  0  0  0  0  0  0  0  0  0
    1.5000    0.0000    0.0000 C   0  0  0  0  0  0  0  0  0  0  0  0
    2.0000    1.3000    0.0000 O   0  0  0  0  0  0  0  0  0  0  0  0
  1  2  1  0
  2  3  1  0
M  END
>  <SOL>  (1)
1.10

$$$$
"""
TEST = """water

  SciTegic
  1  0  0  0  0  0            999 V2000
    0.2606    0.1503    0.0000 O   0  0
M  END
> <SOL>
1.74

$$$$
""".replace("\n", "\r\n")
