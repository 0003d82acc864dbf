// Functions that many kernels call: compiled when xc is built (library_objects.h), and put behind
// the code of each kernel that calls them. Written out, what they do took a third of attention's
// compile; compiled in every process, a third to a half of what its first compile took.
#pragma once

#include <llvm/IR/Module.h>

#include <span>
#include <string_view>
#include <vector>

#include "codegen/object.h"
#include "codegen/target.h"
#include "loop/kernel.h"

namespace xc::codegen {

// Elements of a vector register, f32; there is a library for targets that have masked vectors.
inline unsigned register_lanes(const Target& target) {
  return target.masked_all ? 16 : 8;
}
inline bool has_library(const Target& target) {
  return target.masked_words;
}

// Steps are in elements of 4 bytes.
//
// void (from, from_row, from_tile, to, to_row, to_tile, tiles): transposes tiles of as many rows as
// a register has elements, and four columns.
llvm::Function* transpose_function(llvm::Module& module, const Target& target);
constexpr unsigned kTransposeColumns = 4;

// Whether it has products of bf16 by matrix units (AMX). Who runs them has seen to it that there
// are such units (grant_matrix_units()).
inline bool has_matrix_library(const Target& target) {
  return target.masked_all;
}

// void (panel, panel_k, b, b_k, b_j, count, out, out_j, vectors, columns), r over the elements of
// so many vectors, j over so many columns: out[j, r] = sum over k = 0 .. count - 1, in that order,
// of fma(panel[k, r], b[k, j], sum). `op`: of which dot accumulator (loop/kernel.h) the sums are,
// and what is given besides:
// - dot: i1, whether sums start at out[j, r] rather than at 0;
// - dot_bf16x3: kDotBf16x3Room bytes. What is laid out there of b is used again by the next call
//   with the same b; an i64 0 at the room's beginning says that there is nothing, at first and when
//   b changes.
llvm::Function* product_function(llvm::Module& module, const Target& target, loop::AccOp op);

// The object file of one of these, by the name of its declaration; empty when there is no such
// function. Any thread.
std::span<const char> library_object(std::string_view name, const Target& target);

// For the build: what there is to compile, and the object file of one, in `backend` until its next
// call. Throws xc::Error.
std::vector<std::string_view> library_names(const Target& target);
std::span<const char> compile_library_function(std::string_view name, const Target& target,
                                               Backend& backend);

// What every function is compiled for.
void set_attributes(llvm::Function& function, const Target& target);

}  // namespace xc::codegen
