#pragma once
// The normal form behind a symbolic Dim: what the files dim*.cpp share and nothing outside this
// folder includes.
//
// An atom is a symbol or an opaque function of two dims. A monomial is a sorted list of atoms with
// repetition; a normal form is an ordered map from monomials to non-zero coefficients, the empty
// monomial holding the constant. Ordering is by text, which makes printing and equality cheap to
// reason about; expressions are small.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tensor/dim.h"

namespace xc {

/// nullopt = unbounded.
struct DimBounds {
  std::optional<int64_t> low, high;
};

struct Atom {
  enum class Kind : uint8_t { kSymbol, kFloorDiv, kMod, kMin, kMax, kBroadcast };
  Kind kind = Kind::kSymbol;
  bool can_be_negative = false;
  std::string name;  // of a symbol
  Dim a, b;          // of a function
  std::string key;   // canonical text
};
using AtomRef = std::shared_ptr<const Atom>;

struct Monomial {
  std::vector<AtomRef> atoms;
  std::string key;
};
struct MonomialLess {
  bool operator()(const Monomial& x, const Monomial& y) const { return x.key < y.key; }
};
using Sum = std::map<Monomial, int64_t, MonomialLess>;

/// The bounds are no part of what a dim is: equal dims may have come with different knowledge.
struct Dim::Node {
  Sum sum;
  std::string key;
  DimBounds bounds;
};

/// Between a Dim and its normal form.
struct DimAccess {
  /// Null for a constant.
  static const Sum* sum(const Dim& d) { return d.node_ ? &d.node_->sum : nullptr; }
  static Dim make(Sum sum);
  static const DimBounds* bounds(const Dim& d) { return d.node_ ? &d.node_->bounds : nullptr; }
  /// `d` with the knowledge that it is within `bounds`.
  static Dim within(Dim d, const DimBounds& bounds);
};

// Canonical text (dim_text.cpp): it orders and compares normal forms, and Dim::parse() reads it.

std::string function_text(const char* name, const Dim& a, const Dim& b);
/// Of atoms in order; empty without atoms.
std::string product_text(const std::vector<AtomRef>& atoms);
std::string sum_text(const Sum& sum);

// What is known of values (dim_bounds.cpp).

DimBounds bounds_of(const Dim& d);
/// What the terms tell, each by itself.
DimBounds bounds_of(const Sum& sum);
/// Of a sum and a product, from what is known of the operands; the terms of the result may tell
/// less: (1+a)*(1+b) is at least 0 where both factors are, 1+a+b+a*b might be anything.
DimBounds bounds_of_sum(const DimBounds& a, const DimBounds& b);
DimBounds bounds_of_product(const DimBounds& a, const DimBounds& b);

// What functions make of values (dim_evaluate.cpp).

// Of the floor division. The least integer by -1, which the processor traps, has no quotient
// (kLimit) and no remainder. What 0 divides leaves none either, as the operator Mod has it.
int64_t quotient(int64_t a, int64_t b);
int64_t remainder(int64_t a, int64_t b);
/// Fails with kInvalidModel where they do not broadcast.
int64_t broadcast_value(int64_t a, int64_t b);

}  // namespace xc
