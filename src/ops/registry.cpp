#include "ops/registry.h"

#include <map>

#include "base/error.h"
#include "ir/op_ref.h"

namespace xc {

#define XC_OPS(file) void register_##file(OpList& ops);
#include "ops/all_ops.inc"
#undef XC_OPS

namespace {

using Key = std::pair<std::string_view, std::string_view>;  // domain, name

struct Table {
  OpList ops;
  std::vector<const OpDef*> sorted;
  std::map<Key, const OpDef*> by_name;

  Table() {
#define XC_OPS(file) register_##file(ops);
#include "ops/all_ops.inc"
#undef XC_OPS
    // `ops` does not move from here on.
    for (const OpDef& op : ops) {
      if (!by_name.emplace(Key{op.domain, op_name(op)}, &op).second)
        fail(Status::kInternal, "operator {} is registered twice", op.name);
      XC_CHECK(op.infer && (op.reference || op.evaluate || op.control_flow));
    }
    for (const auto& [key, op] : by_name) sorted.push_back(op);
  }
};

// Made at the first use, so that no order of static initialisation matters; immutable afterwards.
const Table& table() {
  static const Table instance;
  return instance;
}

}  // namespace

const OpDef* find_op(std::string_view name, std::string_view domain) {
  const auto& by_name = table().by_name;
  const auto it = by_name.find({domain, name});
  return it == by_name.end() ? nullptr : it->second;
}

const OpDef& get_op(std::string_view name, std::string_view domain) {
  if (const OpDef* op = find_op(name, domain)) return *op;
  fail(Status::kUnsupported, "unsupported: operator {}{}{}", domain, domain.empty() ? "" : ".",
       name);
}

std::span<const OpDef* const> all_ops() {
  return table().sorted;
}

}  // namespace xc
