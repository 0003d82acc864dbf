// Local rewriting that keeps every bit (NaN payloads aside): constant folding with the
// interpreter's arithmetic, x*1, x+(-0), x-0, x/1, integer x+0, x*0, neg(neg), select with constant
// condition, casts to the same type, equal subexpressions merged, dead registers removed, loops of
// constant zero trip removed.
#pragma once

#include "loop/kernel.h"

namespace xc::loop {

Expr simplify(const Expr& e);
Kernel simplify(Kernel kernel);

}  // namespace xc::loop
