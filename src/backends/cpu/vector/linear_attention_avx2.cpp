#include "backends/cpu/vector/linear_attention.inc"
