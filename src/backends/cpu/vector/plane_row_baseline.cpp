#include "backends/cpu/vector/plane_row.inc"
