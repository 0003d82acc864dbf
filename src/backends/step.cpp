#include "backends/step.h"

#include <algorithm>

#include "backends/backend.h"

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

const Implementation* first_to_support(const Backend& backend, const StepSpec& spec) {
  const auto rows = backend.implementations();
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const Implementation& r) {
    return asked_for(r.op, *spec.op) && r.asked_in(spec.numerics) && r.supports(spec).yes();
  });
  return row == rows.end() ? nullptr : &*row;
}

}  // namespace xc
