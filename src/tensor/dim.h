#pragma once
// Symbolic dimensions. A Dim is an integer expression over named symbols, kept in a normal form so
// that equal expressions compare equal: a sum of integer multiples of products of atoms, where an
// atom is a symbol or an opaque function (floor division, modulo, min, max, broadcast) of normal
// forms.
//
// Symbols stand for what a run makes known: an input's dim ("n"), an element of a small integer
// input ("pos[0]"), or a size computed during the run ("u3"). A dim symbol is >= 0; an element of a
// value may be negative (SymbolFact). Immutable values, safe to share between threads.

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace xc {

class Dim {
 public:
  Dim() : Dim(int64_t{0}) {}
  Dim(int64_t constant) : constant_(constant) {}  // NOLINT: a number is a dim
  Dim(int constant) : constant_(constant) {}      // NOLINT
  /// A symbol. `can_be_negative` is for elements of integer inputs; sizes never are.
  static Dim symbol(std::string name, bool can_be_negative = false);

  bool is_constant() const { return !node_; }
  /// The value of a constant dim; fails with kInternal for a symbolic one.
  int64_t value() const;
  std::optional<int64_t> constant() const {
    return node_ ? std::nullopt : std::optional<int64_t>(constant_);
  }
  /// The name when this is a lone symbol.
  std::optional<std::string> as_symbol() const;

  /// True only when equality holds for every value of the symbols.
  friend bool operator==(const Dim& a, const Dim& b);

  /// Known bounds from the facts of the symbols (nullopt = unbounded).
  std::optional<int64_t> lower_bound() const;
  std::optional<int64_t> upper_bound() const;
  /// Are all its symbols sizes, none an element of an input?
  bool of_sizes() const;
  /// Does the value lie in [low, high] if the elements of inputs by themselves do? Sizes and
  /// products of sizes are taken to do so, and what is made of them with constants that leave them
  /// room.
  bool stays_within(int64_t low, int64_t high) const;
  /// The largest known constant divisor (0 for the constant 0).
  int64_t divisor() const;

  /// "2*n+1", parsed back by parse().
  std::string text() const;
  static Dim parse(std::string_view text);

  using Lookup = std::function<std::optional<int64_t>(const std::string& symbol)>;
  /// The value under an assignment of symbols; nullopt when one is missing. Overflow fails.
  std::optional<int64_t> evaluate(const Lookup& lookup) const;
  using Rename = std::function<std::optional<Dim>(const std::string& symbol)>;
  /// Replaces symbols; those for which `rename` answers nullopt stay.
  Dim substitute(const Rename& rename) const;
  /// Appends the distinct symbols, in order of appearance.
  void collect_symbols(std::vector<std::string>& out) const;

  struct Node;  // normal form: dim_node.h

 private:
  friend struct DimAccess;
  int64_t constant_ = 0;
  std::shared_ptr<const Node> node_;  // null for a constant
};

/// `d` where it is the size of an axis: a run fails that makes it negative, so it is known to be at
/// least 0. What is computed from it is bounded by that; equality and text are the same.
Dim as_size(const Dim& d);
Dim operator+(const Dim& a, const Dim& b);
Dim operator-(const Dim& a, const Dim& b);
Dim operator*(const Dim& a, const Dim& b);
/// Integer division rounding down; the divisor must not be the constant 0 (kInvalidModel).
Dim floor_div(const Dim& a, const Dim& b);
Dim ceil_div(const Dim& a, const Dim& b);
Dim modulo(const Dim& a, const Dim& b);  ///< of the floor division
Dim min(const Dim& a, const Dim& b);
Dim max(const Dim& a, const Dim& b);
/// The dim of numpy broadcasting: they are equal, or one is 1. Evaluation fails with kRange
/// otherwise.
Dim broadcast(const Dim& a, const Dim& b);

/// A name made fit for a symbol: operators, brackets and spaces, which mean something else in a
/// size expression, become '_'.
std::string symbol_name(std::string_view name);

using Dims = std::vector<int64_t>;  ///< concrete
using SymDims = std::vector<Dim>;   ///< symbolic

/// Product of dims.
Dim element_count(const SymDims& dims);
std::string to_text(const SymDims& dims);  ///< "[n, 3072]"
std::string to_text(const Dims& dims);
SymDims to_symbolic(const Dims& dims);
std::optional<Dims> to_concrete(const SymDims& dims);
/// Row-major strides in elements.
SymDims contiguous_strides(const SymDims& dims);
Dims contiguous_strides(const Dims& dims);
/// Strides in elements of dims N, C, spatial whose elements lie with the channels innermost (NHWC
/// for rank 4). Rank 2 at least.
SymDims channels_last_strides(const SymDims& dims);
Dims channels_last_strides(const Dims& dims);
/// Equal over dims of size > 1.
bool same_strides(std::span<const int64_t> dims, std::span<const int64_t> a,
                  std::span<const int64_t> b);
/// Dense, with several channels that are the innermost axis in memory.
bool lies_channels_last(std::span<const int64_t> dims, std::span<const int64_t> strides);

/// Evaluates many dims quickly against one array of symbol values: compiled once per plan, run at
/// every bind. Symbols are numbered by the caller.
class DimProgram {
 public:
  /// `index(symbol)` numbers the symbols. The result slot of dims[i] is i.
  DimProgram() = default;
  DimProgram(const std::vector<Dim>& dims,
             const std::function<uint32_t(const std::string&)>& index);
  /// Writes dims.size() values. Overflow fails with kLimit.
  void run(const int64_t* symbols, int64_t* out) const;
  size_t size() const { return results_.size(); }

 private:
  enum class Op : uint8_t { kConst, kSymbol, kAdd, kMul, kFloorDiv, kMod, kMin, kMax, kBroadcast };
  struct Code {
    Op op;
    uint32_t a, b;
    int64_t value;
  };
  std::vector<Code> code_;
  std::vector<uint32_t> results_;
};

}  // namespace xc
