// The sides of a product by matrix units whose numbers are split into three of bf16
// (library_bf16x3.cpp), and how they are laid out for it.
#pragma once

#include <string>
#include <utility>

#include "codegen/library_matrix.h"
#include "loop/dot.h"

namespace xc::codegen {

class SplitSides : protected MatrixProduct {
 public:
  SplitSides(Builder& b, llvm::Function& function)
      : MatrixProduct(b, function),
        room_(function.getArg(10)),
        bits_(llvm::FixedVectorType::get(b.getInt32Ty(), kLanes)),
        halves_(llvm::FixedVectorType::get(b.getInt16Ty(), 2 * kLanes)) {}

 protected:
  static constexpr int kTerms = loop::kDotBf16Terms;  // of a step
  static constexpr int kParts = 3;                    // in falling order of size
  static constexpr int kVectors = 8;                  // of rows that are taken at a time, at most
  static constexpr int kColumns = 32;                 // likewise, two tiles
  static constexpr int kPieceTerms = 128, kPieceSteps = kPieceTerms / kTerms;  // of 32 columns
  // Where columns are laid out first: so many of them, and of their terms where they are 32.
  static constexpr int kManyColumns = 128, kManyTerms = 2048;

  // Laid out. The panel: [vector of rows][step][part], a tile each. Columns: [step][part], of 32
  // columns, two tiles one behind the other, so that columns follow each other.
  static constexpr int kStepBytes = kParts * kTileBytes, kVectorBytes = kPieceSteps * kStepBytes;
  static constexpr int kColumnsBytes = 2 * kVectorBytes;  // a piece
  static constexpr int kManyBytes = kManyTerms / kTerms * 2 * kStepBytes;
  static constexpr int kTurnedBytes = kColumns * kPieceTerms * 4;
  static constexpr int kPaddedBytes = kColumns * kVectors * kRowBytes;
  // The room: a state of numbers and addresses, NaN of sums, the largest magnitudes of rows,
  // columns that were turned, what is laid out.
  enum Slot : uint8_t {
    kHeld,         // b, where its columns are laid out from the call before on, or 0;
    kHeldColumns,  // what is laid out of it
    kHeldCount,
    kHeldK,
    kHeldJ,
    kPanelK,  // what the product is given
    kBK,
    kBJ,
    kCount,
    kOutJ,
    kPanelLeft,    // units of work,
    kPanelAtOnce,  // how many of them are done at a point,
    kPanelFrom,    // what is to be laid out and where,
    kPanelTo,
    kPanelTerms,
    kPanelFirst,   // the number of the first vector
    kColumnsLeft,  // likewise
    kColumnsAtOnce,
    kColumnsFrom,
    kColumnsTo,
    kColumnsTerms,
    kColumnsApart,  // elements from one column to the next
    kSlots
  };
  static constexpr uint64_t kBad = 192, kLargest = kBad + kRowBytes,
                            kTurned = kLargest + kVectors * kRowBytes,
                            kLaidOut = kTurned + kTurnedBytes,
                            kPadded = kLaidOut + kVectors * kVectorBytes + 2 * kColumnsBytes,
                            kMany = kPadded + kPaddedBytes;
  static_assert(kSlots * sizeof(int64_t) <= kBad && kLaidOut % kRowBytes == 0);
  static_assert(kMany + kManyBytes <= loop::kDotBf16x3Room);

  // In front of anything else: what is given into the room, and the functions of this class.
  void write_sides();

  // Of a vector of conditions.
  llvm::Value* any(llvm::Value* lanes) { return b_.CreateOrReduce(lanes); }
  llvm::Value* in_room(uint64_t bytes) { return byte_at(room_, bytes); }
  llvm::Value* slot(Slot slot) { return in_room(slot * sizeof(int64_t)); }
  llvm::Value* get(Slot from) { return b_.CreateLoad(b_.getInt64Ty(), slot(from)); }
  llvm::Value* get_address(Slot from) { return b_.CreateLoad(b_.getPtrTy(), slot(from)); }
  void set(Slot at, llvm::Value* to) { b_.CreateStore(to, slot(at)); }
  llvm::Value* rounded_up(llvm::Value* n, llvm::Value* by) {
    return b_.CreateUDiv(b_.CreateAdd(n, b_.CreateSub(by, number(1))), by);
  }
  llvm::Value* has_whole_steps(llvm::Value* terms) {
    return b_.CreateICmpEQ(b_.CreateURem(terms, number(kTerms)), number(0));
  }
  llvm::Value* splat(uint32_t n) { return llvm::ConstantInt::get(bits_, n); }

  // What is needed in several places, or at every point, is a function of its own: its arguments
  // are the room and those of `arguments`' types.
  llvm::Function* helper(const char* name, llvm::ArrayRef<llvm::Type*> arguments,
                         const std::function<void(const Values&)>& body);
  void call(llvm::Function* helper, const Values& arguments);

  // The panel. A unit of work is two pairs of terms of each step. `first`: the number of the first
  // vector.
  void begin_panel(llvm::Value* vectors, llvm::Value* first, llvm::Value* panel, llvm::Value* terms,
                   llvm::Value* to);
  // So many units, of whole steps.
  void lay_out_panel(llvm::Value* units) { call(lay_out_panel_, {units}); }
  void finish_panel() { call(finish_panel_, {}); }
  // NaN among the last terms, which are laid out, of rows whose largest element is too small, but
  // not 0. `first` as above, `panel` the rows from their first term on.
  void mark_rows(llvm::Value* vectors, llvm::Value* first, llvm::Value* panel,
                 llvm::Value* laid_out) {
    call(mark_rows_, {vectors, first, panel, laid_out});
  }

  // 32 columns at most, of kPieceTerms. A unit of work is a column.
  void begin_columns(llvm::Value* columns, llvm::Value* at, llvm::Value* terms, llvm::Value* to);
  void lay_out_columns(llvm::Value* count) { call(lay_out_columns_, {count}); }
  void finish_columns() { lay_out_columns(get(kColumnsLeft)); }

  llvm::Value* room_;

 private:
  struct Split {
    llvm::Value* part[kParts];
  };

  // The bf16 that the largest of a row's elements, and of a column's in a step, have to reach.
  static constexpr uint32_t kLeast = static_cast<uint32_t>(127 + loop::kDotBf16x3Least) << 7;
  static constexpr uint32_t kNaN = 0x7fc07fc0;  // two of them

  static constexpr int kPairs = 2, kUnits = kTerms / 2 / kPairs;  // of a vector

  llvm::Value* as_bits(llvm::Value* x) { return b_.CreateBitCast(x, bits_); }
  llvm::Value* as_halves(llvm::Value* x) { return b_.CreateBitCast(x, halves_); }
  llvm::Value* as_numbers(llvm::Value* x) { return b_.CreateBitCast(x, vector_); }
  // Of numbers' bits, or of many numbers' one or the other.
  llvm::Value* is_not_zero(llvm::Value* bits) {
    return b_.CreateICmpNE(b_.CreateAnd(bits, splat(0x7fffffff)), splat(0));
  }
  llvm::Value* larger(llvm::Value* a, llvm::Value* b) {
    return b_.CreateBinaryIntrinsic(llvm::Intrinsic::umax, a, b);
  }
  Split split(llvm::Value* x);
  llvm::Value* paired(llvm::Value* low, llvm::Value* high);
  llvm::Value* store_pairs(llvm::Value* first, llvm::Value* second, llvm::Value* to,
                           uint64_t apart);
  void write_lay_out_panel(llvm::Value* units, bool whole);
  void write_finish_panel();
  void write_mark_rows(llvm::Value* vectors, llvm::Value* first, llvm::Value* panel,
                       llvm::Value* laid_out);
  void write_lay_out_columns(llvm::Value* count);
  void write_gather_columns(llvm::Value* columns);
  void turn(llvm::Value* columns, llvm::Value* at, llvm::Value* sixteens);
  void gather(llvm::Value* columns, llvm::Value* at, llvm::Value* to, llvm::Value* terms,
              llvm::Value* sixteens);

  llvm::FixedVectorType *bits_, *halves_;
  llvm::Function *lay_out_panel_ = nullptr, *lay_out_partial_panel_ = nullptr,
                 *finish_panel_ = nullptr, *mark_rows_ = nullptr, *lay_out_columns_ = nullptr,
                 *gather_columns_ = nullptr;
};

}  // namespace xc::codegen
