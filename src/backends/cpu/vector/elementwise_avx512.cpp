#include "backends/cpu/vector/elementwise.inc"
