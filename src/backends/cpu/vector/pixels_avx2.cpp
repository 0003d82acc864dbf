#include "backends/cpu/vector/pixels.inc"
