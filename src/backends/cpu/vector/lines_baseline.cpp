#include "backends/cpu/vector/lines.inc"
