#include "backends/cpu/vector/cells.inc"
