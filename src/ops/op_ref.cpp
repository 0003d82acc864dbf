#include "ir/op_ref.h"

#include "ops/op.h"

namespace xc {

std::string_view op_name(const OpDef& op) {
  return op.name;
}
std::string_view op_domain(const OpDef& op) {
  return op.domain;
}

}  // namespace xc
