#include "backends/cpu/vector/product.inc"
