// The loop IR: a Kernel is a value (copy it, transform it, print it) made of parameters and a list
// of statements. Expressions and their meaning: expr.h. Invariants: verify.h.
//
// SEMANTICS
// A kernel is called through xc_kargs (include/xc/kernel_abi.h), once per task.
// Statements run in order. Loops run their variable from begin to end - 1; begin and end are
//   evaluated once; begin >= end runs nothing. Loop kinds never change a result: a Vector loop may
//   run its iterations in groups (its body has no dependence between iterations), a Parallel loop's
//   iterations are independent. At most one Parallel loop, outermost; a task runs
//   [kargs.begin, kargs.end), a part of its range.
// Aliasing: buffers do not overlap, except that an output may coincide element for element with an
//   input that is read, in each iteration of the parallel loop, at the same indices only, before it
//   is written (in-place use). The index map of every stored access is injective over its
//   vector and parallel loops; a serial loop may update an element again.
// Scratch belongs to one task and is undefined at the start of each iteration of the parallel loop.
//   Each scratch buffer is 64-byte aligned, one after another in declaration order. It is a row, or
//   a table of constant strides.
// Registers are assigned once, at their Let, and visible to the end of its block.
// Reductions. An accumulator of order Lanes keeps 64 partial results P[0..63], each starting at the
//   operation's identity. An Accumulate in the iteration with ordinal t = v - begin of the
//   innermost enclosing loop (the reduction loop) combines into P[t mod 64]: P = op(P, value).
//   Partials live across outer loops. After the last Accumulate the result is
//     Q[l] = op(op(P[l], P[l+16]), op(P[l+32], P[l+48]))            l = 0..15
//     R8[l] = op(Q[l], Q[l+8]), R4[l] = op(R8[l], R8[l+4]), R2, R1 likewise by 2 and 1
//     result = op(init, R1[0])
//   (16 lanes x 4 accumulators of vector code; the same for every type and target.) Order Lanes16
//   keeps 16 partial results, Q[t mod 16], and goes on with R8: for several reductions side by
//   side. An accumulator of order Sequential is one value: acc = op(acc, value), starting at init,
//   in iteration order: for reductions inside a vector loop.
//   A dot accumulator sums products: P = fma(value, second, P); partial results are added.
//   A dot_bf16 accumulator (f32, sequential) does as the matrix units of x86 do (TDPBF16PS, Intel's
//   Software Developer's Manual): factors are rounded to bf16; of each 32 terms the even and the
//   odd ones are summed apart by fma, from 0, then P = P + (even + odd). Denormal numbers are 0.
//   A dot_bf16x3 accumulator (f32, sequential, without init) has f32's digits from the same units.
//   Each factor is the sum of three of bf16, h + m + l: h is the factor with its lower half rounded
//   off, ties away from 0, m the rest so rounded, l the upper half of what is left then. Of each 32
//   terms six products are summed up as dot_bf16 does, with the first and the last sixteen terms
//   apart: l h', m h', m m', h m', h l', h h', of value and second. The result is a dot's where
//   that one is not finite; where no value's h reaches 2^kDotBf16x3Least, but some value is not 0;
//   where the same is true of second in one of these groups; and where splits_product() is false of
//   the rows, columns and terms: the iterations of the loop that declares it, of the loop around
//   that one, and its own.
//   Identities: sum -0.0 (integers 0), prod 1, max -inf or the
//   lowest integer, min the opposite. Absent init: sum 0, prod 1, else the identity.
//   Arg-reductions carry (value, index), index an i64; the better value wins, NaN is better than
//   any number, ties go to the lower index (*Last: the higher). Empty: value = identity, index =
//   -1.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "loop/expr.h"
#include "xc/kernel_abi.h"

namespace xc::loop {

enum class Access : uint8_t { kIn, kOut, kInOut };

struct Stride {  // in elements
  bool is_param = false;
  int64_t value = 0;                                      // constant
  uint32_t param = 0;                                     // index into Kernel::strides
  Stride(int64_t constant) : value(constant) {}           // NOLINT: reads as a stride
  Stride(int constant) : value(constant) {}               // NOLINT
  Stride(StrideParam p) : is_param(true), param(p.id) {}  // NOLINT
  friend bool operator==(const Stride&, const Stride&) = default;
};

// A kernel has so many parameters at most, and so many pieces of scratch.
constexpr size_t kMaxBuffers = 64;

// A buffer parameter, or scratch (constant strides, the last one 1). Both live in Kernel::buffers;
// parameters come first and in the order of kargs.buffers.
struct BufferDecl {
  std::string name;
  DType type = DType::kF32;
  Access access = Access::kIn;
  std::vector<Stride> strides;  // one per dimension, outermost first
  Expr scratch_elements;        // scratch only: its size, an i64 expression over dims
  bool is_scratch() const { return static_cast<bool>(scratch_elements); }
};

// Long sums are added up in blocks of so many elements, then block by block: an error of rounding
// grows with the elements of a block, not with all.
constexpr int64_t kSumBlock = 16384;

enum class LoopKind : uint8_t { kSerial, kParallel, kVector, kUnroll };
enum class AccOp : uint8_t {
  kSum,
  kProd,
  kMax,
  kMin,
  kMaxNumber,  // the largest of those that are no NaN; of two zeros the first. Floats only
  kDot,        // floats only
  kDotBf16,    // f32 only
  kDotBf16x3,  // f32 only
  kArgMax,
  kArgMin,
  kArgMaxLast,
  kArgMinLast
};
enum class AccOrder : uint8_t { kLanes, kSequential, kLanes16 };
constexpr int kReductionLanes = 16;
constexpr int kReductionAccumulators = 4;
constexpr int64_t kScratchAlignment = XC_KERNEL_SCRATCH_ALIGNMENT;  // bytes

struct Stmt;
using Block = std::vector<Stmt>;

struct For {
  Var var;
  Expr begin, end;  // i64 over constants, dims, outer loop variables: add sub mul div min max
  LoopKind kind = LoopKind::kSerial;
  int factor = 1;  // kVector: lanes; kUnroll: copies
  Block body;
};
struct Let {
  uint32_t reg;
  Expr value;
};
struct Store {
  uint32_t buffer;
  std::vector<Index> indices;
  Expr value;
  Expr guard;  // bool or absent: stores nothing when false
};
struct DeclareAcc {
  uint32_t acc;
  Expr init;  // absent: see above; always absent for arg-reductions
};
struct Accumulate {
  uint32_t acc;
  Expr value;
  Expr second;  // arg-reductions: the index, i64; dot: the other factor; else absent
};
struct Stmt {
  std::variant<For, Let, Store, DeclareAcc, Accumulate> node;
};

struct RegDecl {
  std::string name;
  DType type;
};
struct AccDecl {
  std::string name;
  DType type;  // a value type
  AccOp op;
  AccOrder order;
};
// How exact the kernel's math functions are; the bounds of each tier are in math.h.
enum class Accuracy : uint8_t { kDefault, kStrict, kFast };

struct Kernel {
  std::string name;
  Accuracy accuracy = Accuracy::kDefault;
  std::vector<std::string> dims;     // order of kargs.dims
  std::vector<std::string> strides;  // order of kargs.strides
  std::vector<BufferDecl> buffers;   // parameters, then scratch
  std::vector<std::string> vars;
  std::vector<RegDecl> regs;
  std::vector<AccDecl> accs;
  Block body;

  size_t param_count() const;  // buffers that are parameters
};

bool is_sum(AccOp op);  // starts at 0 when there is no initial value
bool is_dot(AccOp op);  // of two factors
bool needs_matrix_units(AccOp op);
bool is_arg_op(AccOp op);
// Partial results an accumulator keeps: 64, 16 or 1.
int partial_results(AccOrder order);

// --- metadata the caller needs; `dims` are the values of the dim parameters ---
// Bytes of scratch one task needs (checked arithmetic; throws on overflow or a negative size).
int64_t scratch_bytes(const Kernel& kernel, std::span<const int64_t> dims);
// Range of the parallel loop; nullopt when there is none (then call once with begin = end = 0).
struct Range {
  int64_t begin, end;
};
std::optional<Range> parallel_range(const Kernel& kernel, std::span<const int64_t> dims);
// Value of an i64 expression over constants and dims (checked).
int64_t evaluate_size(const Expr& e, std::span<const int64_t> dims);
// The largest number that divides an i64 expression over constants, dims and loop variables
// whatever their values, as far as its form tells; 0 for the constant 0.
int64_t known_divisor(const Expr& e);

// --- traversal ---
// Calls `visit` for each statement of the block and of nested blocks, outer first.
void visit_statements(const Block& block, const std::function<void(const Stmt&)>& visit);
// Calls `visit` for each expression the statement itself holds (not those of a loop's body).
void visit_exprs(const Stmt& stmt, const std::function<void(const Expr&)>& visit);
// Calls `visit` for each node that `node` is made of directly: arguments, and of loads the checked
// indices, extents and guards.
template <class Visit>
void for_each_child(const Node& node, Visit&& visit) {
  const auto see = [&](const Expr& child) {
    if (child) visit(child);
  };
  for (const Expr& arg : node.args) see(arg);
  for (const Index& index : node.indices) {
    see(index.checked);
    see(index.extent);
  }
  see(node.guard);
}
// Calls `visit` for each distinct node reachable from `e` (children first), as for_each_child() has
// them. Takes a call per level: of what is parsed or verified, kMaxExprDepth (verify.h).
void visit_nodes(const Expr& e, const std::function<void(const Expr&)>& visit);
// Rebuilds an expression bottom-up; `rewrite` gets a node whose children are already rewritten and
// returns its replacement (or the node). Sharing is kept.
Expr rewrite_expr(const Expr& e, const std::function<Expr(const Expr&)>& rewrite);
// Rewrites every expression of the block (bounds, values, checked indices, guards).
Block rewrite_exprs(const Block& block, const std::function<Expr(const Expr&)>& rewrite);

}  // namespace xc::loop
