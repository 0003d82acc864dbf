#pragma once
// What the graph IR asks of the operator table, which lies above it: the names of an op, and the op
// of a name. Defined in ops/ (op_ref.cpp, registry.cpp).

#include <string>
#include <string_view>

namespace xc {

struct OpDef;
class OpLibrary;  // the host's operators

std::string_view op_name(const OpDef& op);    ///< without its domain
std::string_view op_domain(const OpDef& op);  ///< "" = ai.onnx
/// Null when there is none.
const OpDef* find_op(std::string_view name, std::string_view domain);
/// Also among the host's operators (null = none).
const OpDef* find_op(std::string_view name, std::string_view domain, const OpLibrary* library);
/// Fails with kUnsupported: no such operator, at `where`, and what to do about it.
[[noreturn]] void fail_unknown_op(std::string_view name, std::string_view domain,
                                  std::string where = {});

}  // namespace xc
