#include "ir/op_ref.h"

#include "ops/op.h"

namespace xc {

std::string_view op_name(const OpDef& op) {
  // The host's operators are named with their domain (ops/custom.h).
  const size_t colons = op.name.rfind("::");
  return colons == std::string_view::npos ? op.name : op.name.substr(colons + 2);
}
std::string_view op_domain(const OpDef& op) {
  return op.domain;
}

}  // namespace xc
