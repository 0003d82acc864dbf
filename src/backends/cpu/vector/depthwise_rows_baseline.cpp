#include "backends/cpu/vector/depthwise_rows.inc"
