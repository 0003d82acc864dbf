#include "backends/cpu/vector/casts.inc"
