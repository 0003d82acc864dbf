#include "backends/cpu/vector/integer.inc"
