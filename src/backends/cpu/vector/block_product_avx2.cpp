#include "backends/cpu/vector/block_product.inc"
