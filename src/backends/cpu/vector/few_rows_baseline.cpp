#include "backends/cpu/vector/few_rows.inc"
