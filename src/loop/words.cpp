#include "loop/words.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "loop/text.h"

namespace xc::loop {

namespace {

constexpr std::array kAccOps = {"sum",        "prod",   "max",         "min",
                                "max_number", "dot",    "dot_bf16",    "dot_bf16x3",
                                "argmax",     "argmin", "argmax_last", "argmin_last"};

constexpr std::array kAccOrders = {"lanes", "seq", "lanes16"};

constexpr std::array kAccuracies = {"default", "strict", "fast"};

constexpr std::array<std::string_view, 23> kReserved = {
    "kernel", "in",    "out", "inout", "scratch", "for",     "parallel", "vector",
    "unroll", "let",   "acc", "if",    "true",    "false",   "inf",      "nan",
    "check",  "lanes", "seq", "index", "cast",    "bitcast", "lanes16"};

/// The enumerator whose name stands at its place in `names`.
template <class Enum, size_t N>
std::optional<Enum> named_in(const std::array<const char*, N>& names, std::string_view name) {
  const auto at = std::find(names.begin(), names.end(), name);
  if (at == names.end()) return std::nullopt;
  return static_cast<Enum>(at - names.begin());
}

template <class Match>
std::optional<Op> find_op(Match match) {
  for (int i = 0; i <= static_cast<int>(Op::kBitcast); ++i)
    if (match(op_info(static_cast<Op>(i)))) return static_cast<Op>(i);
  return std::nullopt;
}

}  // namespace

const char* acc_op_name(AccOp op) {
  return kAccOps[static_cast<size_t>(op)];
}

std::optional<AccOp> acc_op_from_name(std::string_view name) {
  return named_in<AccOp>(kAccOps, name);
}

const char* acc_order_name(AccOrder order) {
  return kAccOrders[static_cast<size_t>(order)];
}

std::optional<AccOrder> acc_order_from_name(std::string_view name) {
  return named_in<AccOrder>(kAccOrders, name);
}

const char* accuracy_name(Accuracy accuracy) {
  return kAccuracies[static_cast<size_t>(accuracy)];
}

std::optional<Accuracy> accuracy_from_name(std::string_view name) {
  return named_in<Accuracy>(kAccuracies, name);
}

std::optional<Op> op_from_name(std::string_view name) {
  return find_op([&](const OpInfo& op) { return op.arity > 0 && name == op.name; });
}

std::optional<Op> op_from_infix(std::string_view infix) {
  return find_op([&](const OpInfo& op) { return op.infix && infix == op.infix; });
}

bool is_reserved_name(std::string_view name) {
  return std::find(kReserved.begin(), kReserved.end(), name) != kReserved.end();
}

}  // namespace xc::loop
