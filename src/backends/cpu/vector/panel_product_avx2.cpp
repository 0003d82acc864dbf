#include "backends/cpu/vector/panel_product.inc"
