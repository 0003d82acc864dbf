#include "backends/step.h"

namespace xc {

bool Operand::contiguous() const {
  if (strides.size() != dims.size()) return false;
  Dim expected(1);
  for (size_t axis = dims.size(); axis-- > 0;) {
    // The stride of a dim of size 1 is never used.
    if (!(dims[axis] == Dim(1)) && !(strides[axis] == expected)) return false;
    expected = expected * dims[axis];
  }
  return true;
}

}  // namespace xc
