#pragma once
// Turns an elementwise op into instructions of a ChunkProgram: directly where an inner loop exists
// for the whole op, else from its scalar definition as loop IR.

#include <optional>
#include <span>
#include <string>

#include "backends/cpu/chunk_program.h"
#include "backends/step.h"
#include "base/function_ref.h"
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

/// Whether it may come behind the rounding to halves as well as in front: it gives its operand or
/// 0, and runs on halves as they lie.
bool commutes_with_rounding(const PostOp& post);

/// Appends a step's post-ops, each over the result of the one before it, in `type`, which they must
/// keep (a Cast is none of them: who takes it leaves it to build_cast()). `operand` gives the
/// register of a step's input, in that type, or nullopt. Nullopt with `reason` set where one has no
/// form.
std::optional<ChunkProgram::Reg> build_post_ops(
    ChunkProgram& program, std::span<const PostOp> post_ops, ChunkProgram::Reg value, DType type,
    Isa isa, FunctionRef<std::optional<ChunkProgram::Reg>(uint32_t)> operand, std::string& reason);

/// Appends the conversion, if one is needed; fails with kUnsupported for strings and the like.
std::optional<ChunkProgram::Reg> build_cast(ChunkProgram& program, ChunkProgram::Reg value,
                                            DType to, Isa isa);

}  // namespace xc::cpu
