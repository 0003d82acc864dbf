// Words of the text form that printer, parser and verifier share.
#pragma once

#include <optional>
#include <string_view>

#include "loop/kernel.h"

namespace xc::loop {

const char* acc_op_name(AccOp op);
std::optional<AccOp> acc_op_from_name(std::string_view name);
const char* acc_order_name(AccOrder order);
std::optional<AccOrder> acc_order_from_name(std::string_view name);
const char* accuracy_name(Accuracy accuracy);
std::optional<Accuracy> accuracy_from_name(std::string_view name);
std::optional<Op> op_from_name(std::string_view name);  // call form
std::optional<Op> op_from_infix(std::string_view infix);

}  // namespace xc::loop
