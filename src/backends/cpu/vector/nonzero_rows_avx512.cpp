#include "backends/cpu/vector/nonzero_rows.inc"
