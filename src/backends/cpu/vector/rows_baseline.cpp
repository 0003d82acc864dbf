#include "backends/cpu/vector/rows.inc"
