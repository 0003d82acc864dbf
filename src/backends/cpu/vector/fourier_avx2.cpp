#include "backends/cpu/vector/fourier.inc"
