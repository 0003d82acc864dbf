// Scalar expressions of the loop IR: an immutable, shared, typed DAG, and the affine index maps of
// memory accesses. What every operation means is fixed here; interpreter and code generation
// follow.
//
// SEMANTICS
// Types. Values are f32 f64 i8-i64 u8-u64 bool. f16 and bf16 exist in memory only: a load widens to
//   f32 (exact), a store rounds f32 to nearest even. There is no implicit conversion: operands of a
//   binary operation have one type.
// Integers wrap (two's complement). `div` truncates toward zero; x/0 = 0 and INT_MIN/-1 = INT_MIN.
//   `mod` has the sign of the divisor (Python), `rem` that of the dividend (C); both give 0 for
//   divisor 0 and are defined on integers only. A shift by >= the width gives 0 (sign bits for a
//   signed right shift); negative amounts are unsigned large ones. neg and abs of INT_MIN wrap.
// Floats are IEEE 754, round to nearest even, no flush of denormals, no contraction: an fma happens
//   only where the IR says fma. NaN payloads and signs are unspecified. The floating-point
//   environment is neither read nor changed.
//   max(a, b) = a if a is NaN, else a if a > b, else b (so NaN propagates, and for two zeros b is
//   returned); min likewise with <. Comparisons with NaN are false except ne.
//   scale(a, k) = a 2^k, rounded once, for whole k of at most 300 (f32) or 2200 (f64) either way;
//   beyond that it is unspecified. round is to nearest even; sign(x) is -1, 0, 1 (NaN stays NaN,
//   +-0 gives +0).
// Math (exp ... pow, rsqrt) IS the expansion in math.h: fixed polynomials over the basic
// operations,
//   the same on every target with hardware fma and in the interpreter, bounds stated there.
// Casts: float to integer truncates and saturates, NaN gives 0; integer to float rounds to nearest
//   even; integer to narrower integer wraps; to bool is x != 0; bool to number is 0 or 1.
//   bitcast keeps bits and needs equal width.
// Evaluation order: expressions are pure; a statement evaluates its whole expression (all loads)
//   before it writes. `select` evaluates both arms. A guarded load whose guard is false reads no
//   memory and is 0. There is no short circuit.
// Range errors: a checked index outside [0, extent) makes the kernel return XC_KERNEL_RANGE_ERROR;
//   the load it belongs to then reads nothing and is 0, a store writes nothing.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/dtype.h"

namespace xc::loop {

// Handles: indices into the tables of one Kernel. They mean nothing in another kernel.
struct Var {  // loop variable, an i64
  uint32_t id = 0;
  friend bool operator==(Var, Var) = default;
};
struct DimParam {  // dim parameter, an i64 >= 0
  uint32_t id = 0;
  friend bool operator==(DimParam, DimParam) = default;
};
struct StrideParam {  // stride parameter in elements
  uint32_t id = 0;
  friend bool operator==(StrideParam, StrideParam) = default;
};

enum class Op : uint8_t {
  // leaves
  kConst,
  kLoad,
  kReg,
  kAccValue,
  kAccIndex,
  kLoopVar,
  kDim,
  // arithmetic, any number type
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMod,
  kRem,
  kNeg,
  kAbs,
  kMin,
  kMax,
  kSign,
  // floats
  kFma,
  kFloor,
  kCeil,
  kRound,
  kTrunc,
  kSqrt,
  kScale,
  kIsNan,
  kIsInf,
  kRoundF16,
  kRoundBf16,
  // floats, expanded by math.h
  kRsqrt,
  kReciprocal,
  kExp,
  kExpNormal,
  kExp2,
  kExpm1,
  kLog,
  kLog1p,
  kTanh,
  kErf,
  kSigmoid,
  kOnePlusTanh,
  kOnePlusErf,
  kSin,
  kCos,
  kPow,
  // comparisons (result bool)
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  // bool: logic; integers: bitwise
  kAnd,
  kOr,
  kXor,
  kNot,
  kShl,
  kShr,
  kSelect,
  kCast,
  kBitcast,
};

struct OpInfo {
  Op op;
  const char* name;   // in text
  const char* infix;  // or nullptr
  int arity;
};
const OpInfo& op_info(Op op);
// False for exp, log, ...: those are rewritten by expand_math before code generation.
bool is_math(Op op);

struct Node;

// A value handle of an expression node; cheap to copy, never changed after it was made. A
// default-constructed Expr is absent (`!e`).
class Expr {
 public:
  Expr() = default;
  explicit Expr(std::shared_ptr<const Node> node) : node_(std::move(node)) {}
  Expr(DimParam dim);  // NOLINT: a dim parameter is an i64 value
  const Node* operator->() const { return node_.get(); }
  const Node& operator*() const { return *node_; }
  const Node* get() const { return node_.get(); }
  explicit operator bool() const { return node_ != nullptr; }
  DType type() const;
  // Nothing else leads to the node, so a walk meets it once.
  bool is_only_handle() const { return node_.use_count() == 1; }

 private:
  std::shared_ptr<const Node> node_;
};

// sum(coefficient * symbol) + constant over loop variables and dims; canonical: sorted, no zeros.
class Affine {
 public:
  struct Term {
    bool is_dim;  // else a loop variable
    uint32_t id;
    int64_t coefficient;
    friend bool operator==(const Term&, const Term&) = default;
  };
  Affine() = default;
  Affine(int64_t constant) : constant_(constant) {}    // NOLINT: reads as an index
  Affine(int constant) : constant_(constant) {}        // NOLINT
  Affine(Var var) : terms_{{false, var.id, 1}} {}      // NOLINT
  Affine(DimParam dim) : terms_{{true, dim.id, 1}} {}  // NOLINT

  int64_t constant() const { return constant_; }
  const std::vector<Term>& terms() const { return terms_; }
  int64_t coefficient(Var var) const;
  bool is_constant() const { return terms_.empty(); }
  Affine substitute(Var var, const Affine& by) const;

  friend Affine operator+(const Affine& a, const Affine& b);
  friend Affine operator-(const Affine& a, const Affine& b);
  friend Affine operator*(const Affine& a, int64_t factor);
  friend bool operator==(const Affine&, const Affine&) = default;

 private:
  void add(const Term& term);
  int64_t constant_ = 0;
  std::vector<Term> terms_;
};

Affine operator+(const Affine& a, const Affine& b);
Affine operator-(const Affine& a, const Affine& b);
Affine operator*(const Affine& a, int64_t factor);
inline Affine operator*(int64_t factor, const Affine& a) {
  return a * factor;
}

// One subscript: affine, or a value taken from data with its bound (a gather): `checked`.
struct Index {
  Affine affine;
  Expr checked;  // i64 or i32; when present, `affine` is unused
  Expr extent;   // i64; 0 <= checked < extent or the kernel fails with a range error
  Index() = default;
  template <class T>
    requires std::convertible_to<T, Affine>
  Index(const T& value) : affine(value) {}  // NOLINT: reads as an index
  Index(Expr value, Expr bound) : checked(std::move(value)), extent(std::move(bound)) {}
  bool is_affine() const { return !checked; }
};
inline Index checked(Expr value, Expr extent) {
  return {std::move(value), std::move(extent)};
}
/// Whether affine indices address the same element; of others nothing is compared.
inline bool same_affine(const std::vector<Index>& a, const std::vector<Index>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Index& x, const Index& y) { return x.affine == y.affine; });
}

struct Node {
  Op op;
  DType type;
  uint32_t id = 0;    // kLoad: buffer; kReg, kAccValue, kAccIndex, kLoopVar, kDim: which
  uint64_t bits = 0;  // kConst: the value's bits, zero-extended
  std::vector<Expr> args = {};
  std::vector<Index> indices = {};  // kLoad
  Expr guard = {};                  // kLoad: bool, or absent
};

// --- making expressions. All check types and throw xc::Error (kInvalidArgument) on misuse. ---
Expr constant(DType type, double value);       // rounded / saturated to `type`
Expr constant_int(DType type, int64_t value);  // wrapped to `type`
Expr constant_bits(DType type, uint64_t bits);
Expr loop_var(Var var);  // as an i64 value
Expr dim_value(DimParam dim);
Expr affine_value(const Affine& affine);  // an index map as an i64 value
Expr make_unary(Op op, Expr a);
Expr make_binary(Op op, Expr a, Expr b);
Expr make_node(Op op, DType type, std::vector<Expr> args);  // no type check: parser, rewriting
// The same node with other children (args, then checked indices, extents and guard are kept).
Expr with_args(const Expr& e, std::vector<Expr> args);

inline Expr f32(double v) {
  return constant(DType::kF32, v);
}
inline Expr f64(double v) {
  return constant(DType::kF64, v);
}
inline Expr i32(int64_t v) {
  return constant_int(DType::kI32, v);
}
inline Expr i64(int64_t v) {
  return constant_int(DType::kI64, v);
}
Expr boolean(bool v);

Expr operator+(Expr a, Expr b);
Expr operator-(Expr a, Expr b);
Expr operator*(Expr a, Expr b);
Expr operator/(Expr a, Expr b);
Expr operator-(Expr a);
// A plain number takes the type of the other operand.
Expr operator+(Expr a, double b);
Expr operator-(Expr a, double b);
Expr operator*(Expr a, double b);
Expr operator/(Expr a, double b);
Expr operator+(double a, Expr b);
Expr operator-(double a, Expr b);
Expr operator*(double a, Expr b);
Expr operator/(double a, Expr b);

Expr mod(Expr a, Expr b);
Expr rem(Expr a, Expr b);
Expr abs(Expr a);
Expr min(Expr a, Expr b);
Expr max(Expr a, Expr b);
Expr sign(Expr a);
Expr fma(Expr a, Expr b, Expr c);  // a * b + c, rounded once
Expr floor(Expr a);
Expr ceil(Expr a);
Expr round(Expr a);  // to nearest even
Expr trunc(Expr a);
Expr sqrt(Expr a);
Expr scale(Expr a, Expr k);  // a * 2^k, rounded once; k a whole number, |k| <= 2200
Expr is_nan(Expr a);
Expr is_inf(Expr a);
Expr round_f16(Expr a);   // f32 -> nearest f16 value, as f32
Expr round_bf16(Expr a);  // f32 -> nearest bf16 value, as f32
Expr rsqrt(Expr a);
Expr reciprocal(Expr a);
Expr exp(Expr a);
Expr exp_normal(Expr a);  // e^a for a of at most 0; 0 where that is no normal number
Expr exp2(Expr a);
Expr expm1(Expr a);  // e^a - 1, exact near 0
Expr log(Expr a);
Expr log1p(Expr a);  // log(1 + a), exact near 0
Expr tanh(Expr a);
Expr erf(Expr a);
Expr sigmoid(Expr a);
Expr sin(Expr a);
Expr cos(Expr a);
Expr pow(Expr a, Expr b);
Expr eq(Expr a, Expr b);
Expr ne(Expr a, Expr b);
Expr lt(Expr a, Expr b);
Expr le(Expr a, Expr b);
Expr gt(Expr a, Expr b);
Expr ge(Expr a, Expr b);
Expr bit_and(Expr a, Expr b);  // logic on bool
Expr bit_or(Expr a, Expr b);
Expr bit_xor(Expr a, Expr b);
Expr bit_not(Expr a);
Expr shl(Expr a, Expr b);
Expr shr(Expr a, Expr b);  // arithmetic on signed types, logical on unsigned
Expr select(Expr condition, Expr if_true, Expr if_false);
Expr cast(DType type, Expr a);
Expr bitcast(DType type, Expr a);

// The type a load from memory of type `stored` yields: f32 for f16 and bf16, else the same.
DType value_type(DType stored);
bool is_value_type(DType type);  // f32 f64 i8-i64 u8-u64 bool

// Constant of any type as a double / integer, for printing and simplification.
double const_as_double(const Node& node);
int64_t const_as_int(const Node& node);
bool is_const(const Expr& e);
bool same_expr(const Expr& a, const Expr& b);  // structural equality

}  // namespace xc::loop
