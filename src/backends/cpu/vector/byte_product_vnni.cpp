#include "backends/cpu/vector/byte_product.inc"
