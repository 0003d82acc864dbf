#include "ir/op_ref.h"

#include "ops/op.h"

namespace xc {

std::string_view op_name(const OpDef& op) {
  // Those of com.microsoft and of the host are named with their domain (op.h, custom.h).
  const size_t colons = op.name.rfind("::");
  return colons == std::string_view::npos ? op.name : op.name.substr(colons + 2);
}
std::string_view op_domain(const OpDef& op) {
  return op.domain;
}

}  // namespace xc
