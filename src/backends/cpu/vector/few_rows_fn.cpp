#include "backends/cpu/vector/few_rows_fn.h"

namespace xc::cpu {

FewRowsFn few_rows_fn() {
#if defined(__x86_64__)
  return avx512::few_rows_fn();
#else
  return nullptr;
#endif
}

}  // namespace xc::cpu
