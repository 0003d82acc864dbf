#pragma once
// All operators, from an explicit list (all_ops.inc): one line per file of ops.

#include <span>
#include <string_view>

#include "ops/op.h"

namespace xc {

/// The op of that name, null when there is none. Safe from any thread.
const OpDef* find_op(std::string_view name, std::string_view domain = "");
/// As find_op; fails with kUnsupported naming the op.
const OpDef& get_op(std::string_view name, std::string_view domain = "");
/// Every op, ordered by domain and name.
std::span<const OpDef* const> all_ops();

/// What an op file defines: `void register_<file>(OpList& ops)`; it appends its rows.
using OpList = std::vector<OpDef>;

}  // namespace xc
