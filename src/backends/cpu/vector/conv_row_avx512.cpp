#include "backends/cpu/vector/conv_row.inc"
