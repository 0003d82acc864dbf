#include "backends/cpu/vector/pool.inc"
