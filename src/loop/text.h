// Text form of kernels; parse(print(k)) prints the same text again. Grammar by example:
//
//   kernel bias_relu(n, m; xs, ys) {
//     in x: f32[xs, 1]
//     in bias: f32[1]
//     out y: f32[ys, 1]
//     scratch t: f32[m]
//     parallel i = 0 .. n {
//       acc s: f32 sum lanes = 0:f32          # order lanes | seq; init optional
//       vector(16) j = 0 .. m {               # for | parallel | vector(lanes) | unroll(copies)
//         let v: f32 = (x[i, j] + bias[j])
//         s <- v                              # arg-reductions: a <- v, j
//         t[j] = max(v, 0:f32)
//       }
//       %0 = sqrt(s)                          # shared subexpression of the next statement
//       y[i, 0] = (%0 * %0)
//     }
//   }
//
// After the parameters, `math strict` or `math fast` names a tier of accuracy other than the
// default. Binary operations with an infix form are parenthesised: (a + b). Others are calls:
// fma(a, b, c), cast<f32>(x); a.index is the index of an arg-reduction. Constants carry their type:
// 0.5:f32, true, inf:f32, nan:f32; a plain number is an i64. Loads: x[i, 2*j + 1], guarded (x[i, j]
// if cond), gathered x[check(k, n), j]. A guarded store: y[i] = v if cond. Comments start with #.
#pragma once

#include <string>
#include <string_view>

#include "loop/kernel.h"
#include "loop/verify.h"

namespace xc::loop {

std::string print(const Kernel& kernel);
std::string print(const Kernel& kernel, const Expr& e);  // one expression, for messages
// Throws xc::Error with line and column on malformed text; the result is verified, for `level`.
Kernel parse(std::string_view text, Level level = Level::kBuilt);
// Words that cannot name anything.
bool is_reserved_name(std::string_view name);

}  // namespace xc::loop
