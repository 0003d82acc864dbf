#include "backends/cpu/vector/distances.inc"
