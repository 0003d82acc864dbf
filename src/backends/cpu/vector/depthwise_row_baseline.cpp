#include "backends/cpu/vector/depthwise_row.inc"
