#include "backends/cpu/vector/winograd.inc"
