#include "backends/cpu/vector/transpose.inc"
