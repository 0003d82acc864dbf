#pragma once
// Rewrite rules as data: what the parser makes of a rule's text and the matcher reads.

#include <cstdint>
#include <string>
#include <vector>

#include "ops/op.h"

namespace xc {

class OpLibrary;  // ops/custom.h

/// An attribute of a pattern (what it must be) or of a replacement (what it becomes).
struct AttrTerm {
  std::string name;
  Attr value;
  uint32_t variable = kNone;  ///< instead of `value`: bound by the match, put in by the replacement
  bool may_be_absent = false;  ///< `?=`: a missing attribute means `value`
};

/// A node of the tree of a pattern or of a replacement. Trees lie in Rule::terms, children by
/// index.
struct Term {
  enum class Kind : uint8_t {
    kOp,           ///< Op(args) {attrs}, its first output
    kAlternative,  ///< (a | b | ...), patterns only
    kVariable,     ///< ?x, ?x:const, ?x:scalar
    kNumber,       ///< a constant of one element
    kInts,         ///< [1, -1]: an integer constant of rank 1
    kAxes,    ///< axes[-1]: the same, negative axes counting from the rank of the op's first input
    kAbsent,  ///< _
  };
  enum class Only : uint8_t { kAny, kConstant, kScalar };
  Kind kind = Kind::kAbsent;
  Only only = Only::kAny;
  bool other_attrs = false;  ///< `...`: attributes not named may be anything, not just absent
  const OpDef* op = nullptr;
  uint32_t variable = kNone;  ///< of kVariable; of kOp when written ?d@Op(...)
  double number = 0;
  std::vector<int64_t> ints = {};
  std::vector<uint32_t> args = {};
  std::vector<AttrTerm> attrs = {};
};

/// A term of a condition, by index in Rule::expressions.
struct Expression {
  enum class Kind : uint8_t {
    kNumber,
    kDType,
    kRank,
    kDim,
    kCount,
    kValue,
    kTypeOf,
    kAdd,
    kSub,
    kMul,
    kDiv,
    kSqrt
  };
  Kind kind = Kind::kNumber;
  double number = 0;
  DType dtype = DType::kUndefined;
  uint32_t variable = kNone;
  int64_t axis = 0;
  uint32_t a = kNone, b = kNone;
};

struct Condition {
  enum class Compare : uint8_t { kEqual, kNotEqual, kLess, kLessEqual, kMore, kMoreEqual, kAbout };
  Compare compare = Compare::kEqual;
  uint32_t left = kNone, right = kNone;
};

struct Rule {
  std::string name;
  std::vector<Term> terms;
  uint32_t pattern = kNone, replacement = kNone;
  std::vector<std::string> variables;  ///< by number, without '?'
  std::vector<Expression> expressions;
  std::vector<Condition> conditions;  ///< all must hold
};

}  // namespace xc
