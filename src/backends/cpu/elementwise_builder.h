#pragma once
// Turns an elementwise op into instructions of a ChunkProgram: directly where an inner loop exists
// for the whole op, else from its scalar definition as loop IR.

#include <optional>
#include <span>
#include <string>

#include "backends/cpu/chunk_program.h"
#include "ops/op.h"

namespace xc::cpu {

/// Appends op(args...) to the program; kNoReg stands for an absent optional input. Returns the
/// result, of type `result`, or nullopt with `reason` set.
inline constexpr ChunkProgram::Reg kNoReg = UINT16_MAX;
std::optional<ChunkProgram::Reg> build_elementwise(ChunkProgram& program, const OpDef& op,
                                                   const Attrs& attrs,
                                                   std::span<const ChunkProgram::Reg> args,
                                                   DType result, Isa isa, std::string& reason);

/// The type elements are computed in: f32 for the 16-bit floats, else their own.
DType compute_type(DType type);

/// Appends the conversion, if one is needed; fails with kUnsupported for strings and the like.
std::optional<ChunkProgram::Reg> build_cast(ChunkProgram& program, ChunkProgram::Reg value,
                                            DType to, Isa isa);

}  // namespace xc::cpu
