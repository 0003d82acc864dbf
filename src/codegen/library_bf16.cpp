// Products of bf16 by the matrix units of x86 (AMX), from and to f32: the sums of a dot_bf16
// accumulator (loop/kernel.h). Terms go by chunks. The panel's rows of a chunk are rounded and laid
// out in pairs of terms, once for all columns; then b's terms of sixteen columns at a time, one
// column after the other, for eight vectors of rows. Four tiles of sums, of sixteen columns by
// sixteen rows, are fed by one tile of b and four of the panel: eight cycles to load each, sixteen
// to multiply.
#include <llvm/IR/IntrinsicsX86.h>

#include <array>
#include <cstdint>

#include "codegen/library_write.h"
#include "loop/kernel.h"

namespace xc::codegen {

using llvm::Value;

namespace {

constexpr int kLanes = 16;                   // of a register, and rows of a tile
constexpr int kTerms = loop::kDotBf16Terms;  // of a tile
constexpr int kChunk = 64;   // terms; with eight vectors 18 KiB of the caller's stack
constexpr int kVectors = 8;  // of rows, at most
constexpr int kSums = 4;     // tiles
constexpr int kTileBytes = 1024, kRowBytes = 64;
constexpr int kPanelBytes = kChunk / kTerms * kTileBytes;  // of a vector of rows
// Tiles: sums from 0 on, then these.
constexpr int kColumnTile = kSums, kPanelTile = kSums + 1;

class Bf16Product {
 public:
  Bf16Product(Builder& b, llvm::Function& function, bool adds)
      : b_(b),
        function_(function),
        given_(function),
        adds_(adds),
        element_(b.getFloatTy()),
        vector_(llvm::FixedVectorType::get(element_, kLanes)) {
    function.addFnAttr("target-features", "+amx-tile,+amx-bf16,+avx512bf16");
    config_ = memory(64);
    panel_ = memory(kVectors * kPanelBytes);
    columns_ = memory(kPanelBytes);
  }

  void write() {
    // The palette, and the bytes of a row of each tile (Intel's manual, LDTILECFG).
    b_.CreateMemSet(config_, b_.getInt8(0), 64, llvm::Align(64));
    b_.CreateStore(b_.getInt8(1), config_);
    for (uint64_t tile = 0; tile <= kPanelTile + 1; ++tile)
      b_.CreateStore(b_.getInt16(kRowBytes), byte_at(config_, 16 + 2 * tile));
    loop(parts(given_.vectors, kVectors), {given_.vectors, given_.panel, given_.out},
         [&](const Values& now) {
           write_rows(least(now[0], kVectors), now[1], now[2]);
           Value* const behind = number(kVectors * kLanes);
           return Values{b_.CreateSub(now[0], number(kVectors)), on(now[1], behind),
                         on(now[2], behind)};
         });
    b_.CreateIntrinsic(llvm::Intrinsic::x86_tilerelease, {}, {});
  }

 private:
  using Values = std::vector<Value*>;

  Value* number(int64_t n) { return b_.getInt64(static_cast<uint64_t>(n)); }
  Value* memory(uint64_t bytes) {
    auto* out = b_.CreateAlloca(llvm::ArrayType::get(b_.getInt8Ty(), bytes));
    out->setAlignment(llvm::Align(64));
    return out;
  }
  Value* byte_at(Value* base, uint64_t bytes) {
    return b_.CreateConstGEP1_64(b_.getInt8Ty(), base, bytes);
  }
  Value* on(Value* base, Value* elements) { return b_.CreateGEP(element_, base, elements); }
  Value* times(Value* n, int64_t by) { return b_.CreateMul(n, number(by)); }
  Value* least(Value* n, int64_t other) {
    return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, n, number(other));
  }
  // Parts of `size`, the last of which may be smaller.
  Value* parts(Value* n, int64_t size) {
    return b_.CreateSDiv(b_.CreateAdd(n, number(size - 1)), number(size));
  }
  Values loop(Value* count, const Values& start, const std::function<Values(const Values&)>& body) {
    return countdown(b_, function_, count, start, body);
  }
  void when(Value* condition, const std::function<void()>& then) {
    loop(b_.CreateZExt(condition, b_.getInt64Ty()), {}, [&](const Values&) {
      then();
      return Values{};
    });
  }

  Value* lane_numbers() {
    llvm::SmallVector<llvm::Constant*, kLanes> numbers;
    for (int l = 0; l < kLanes; ++l) numbers.push_back(b_.getInt64(static_cast<uint64_t>(l)));
    return llvm::ConstantVector::get(numbers);
  }
  // The lanes below a number.
  Value* lanes_below(Value* limit) {
    return b_.CreateICmpSLT(lane_numbers(), b_.CreateVectorSplat(kLanes, limit));
  }
  Value* zeros() { return llvm::ConstantFP::get(vector_, 0.0); }

  // Two vectors rounded, one behind the other: <32 x i16>.
  Value* rounded(Value* low, Value* high) {
    Value* const both =
        b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_cvtne2ps2bf16_512, {}, {high, low});
    return b_.CreateBitCast(both, llvm::FixedVectorType::get(b_.getInt16Ty(), 2 * kLanes));
  }
  // In turn.
  Value* rounded_pairs(Value* even, Value* odd) {
    llvm::SmallVector<int, 2 * kLanes> mask;
    for (int l = 0; l < kLanes; ++l) mask.insert(mask.end(), {l, l + kLanes});
    return b_.CreateShuffleVector(rounded(even, odd), mask);
  }

  // Sums of so many vectors of rows, over all columns.
  void write_rows(Value* vectors, Value* panel, Value* out) {
    Value* const chunks =
        b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, number(1), parts(given_.count, kChunk));
    // The panel's and b's rows of a chunk, terms left, whether sums are there already.
    loop(chunks, {panel, given_.b, given_.count, b_.getInt1(adds_)}, [&](const Values& now) {
      Value* const terms = least(now[2], kChunk);
      Value* const steps = parts(terms, kTerms);
      lay_out_panel(vectors, now[0], terms, steps);
      // Columns left, b's and those of the sums, what tiles are configured for.
      loop(parts(given_.columns, kLanes), {given_.columns, now[1], out, number(0)},
           [&](const Values& at) {
             Value* const columns = least(at[0], kLanes);
             when(b_.CreateICmpNE(columns, at[3]), [&] { configure(columns); });
             lay_out_columns(columns, at[1], terms, steps);
             multiply(vectors, at[2], steps, now[3]);
             return Values{b_.CreateSub(at[0], number(kLanes)),
                           on(at[1], times(given_.b_j, kLanes)),
                           on(at[2], times(given_.out_j, kLanes)), columns};
           });
      return Values{on(now[0], times(given_.panel_k, kChunk)),
                    on(now[1], times(given_.b_k, kChunk)), b_.CreateSub(now[2], number(kChunk)),
                    b_.getInt1(true)};
    });
  }

  // Tiles of sums and of columns have so many rows, those of the panel one per pair of terms.
  void configure(Value* rows) {
    Value* const few = b_.CreateTrunc(rows, b_.getInt8Ty());
    for (uint64_t tile = 0; tile <= kPanelTile + 1; ++tile)
      b_.CreateStore(tile < kPanelTile ? few : b_.getInt8(kTerms / 2), byte_at(config_, 48 + tile));
    b_.CreateIntrinsic(llvm::Intrinsic::x86_ldtilecfg, {}, {config_});
  }

  // Pairs of terms side by side, zeros behind the last.
  void lay_out_panel(Value* vectors, Value* panel, Value* terms, Value* steps) {
    const auto store = [&](Value* pair, Value* to) {
      b_.CreateAlignedStore(pair, to, llvm::Align(64));
      return byte_at(to, kRowBytes);
    };
    const auto row = [&](Value* at) -> Value* {
      return b_.CreateAlignedLoad(vector_, at, llvm::Align(4));
    };
    Value* const pairs = parts(terms, 2);
    loop(vectors, {panel, panel_}, [&](const Values& vector) {
      Values at = loop(b_.CreateSDiv(terms, number(2)), vector, [&](const Values& now) {
        Value* const odd = on(now[0], given_.panel_k);
        Value* const next = store(rounded_pairs(row(now[0]), row(odd)), now[1]);
        return Values{on(odd, given_.panel_k), next};
      });
      at = loop(b_.CreateSRem(terms, number(2)), at, [&](const Values& now) {
        return Values{now[0], store(rounded_pairs(row(now[0]), zeros()), now[1])};
      });
      loop(b_.CreateSub(times(steps, kTerms / 2), pairs), {at[1]},
           [&](const Values& now) { return Values{store(zeros(), now[0])}; });
      return Values{on(vector[0], number(kLanes)), byte_at(vector[1], kPanelBytes)};
    });
  }

  // Terms of a column side by side, zeros behind the last.
  void lay_out_columns(Value* rows, Value* at, Value* terms, Value* steps) {
    Value* const along = b_.CreateICmpEQ(given_.b_k, number(1));
    Value* const across = b_.CreateAnd(b_.CreateICmpEQ(given_.b_j, number(1)), b_.CreateNot(along));
    when(along, [&] { column_by_column(rows, at, terms, steps, true); });
    when(across, [&] { pair_by_pair(rows, at, terms, steps); });
    when(b_.CreateNot(b_.CreateOr(along, across)),
         [&] { column_by_column(rows, at, terms, steps, false); });
  }

  void column_by_column(Value* rows, Value* at, Value* terms, Value* steps, bool dense) {
    const auto sixteen = [&](Value* from, Value* left) -> Value* {
      Value* const mask = lanes_below(left);
      if (dense) return b_.CreateMaskedLoad(vector_, from, llvm::Align(4), mask, zeros());
      Value* const places = b_.CreateMul(lane_numbers(), b_.CreateVectorSplat(kLanes, given_.b_k));
      return b_.CreateMaskedGather(vector_, b_.CreateGEP(element_, from, places), llvm::Align(4),
                                   mask, zeros());
    };
    loop(rows, {at, columns_}, [&](const Values& column) {
      loop(steps, {column[0], column[1], terms}, [&](const Values& now) {
        Value* const low = sixteen(now[0], now[2]);
        Value* const high =
            sixteen(on(now[0], times(given_.b_k, kLanes)), b_.CreateSub(now[2], number(kLanes)));
        b_.CreateAlignedStore(rounded(low, high), now[1], llvm::Align(64));
        return Values{on(now[0], times(given_.b_k, kTerms)), byte_at(now[1], kTileBytes),
                      b_.CreateSub(now[2], number(kTerms))};
      });
      return Values{on(column[0], given_.b_j), byte_at(column[1], kRowBytes)};
    });
  }

  void pair_by_pair(Value* rows, Value* at, Value* terms, Value* steps) {
    auto* const words = llvm::FixedVectorType::get(b_.getInt32Ty(), kLanes);
    Value* const below = lanes_below(rows);
    loop(steps, {at, columns_, terms}, [&](const Values& now) {
      std::array<Value*, kLanes> pairs;
      Value* from = now[0];
      int64_t term = 0;
      const auto next = [&] {
        Value* const there = b_.CreateICmpSGT(now[2], number(term++));
        Value* const mask = b_.CreateAnd(below, b_.CreateVectorSplat(kLanes, there));
        Value* const out = b_.CreateMaskedLoad(vector_, from, llvm::Align(4), mask, zeros());
        from = on(from, given_.b_k);
        return out;
      };
      for (Value*& pair : pairs) {
        Value* const even = next();
        pair = b_.CreateBitCast(rounded_pairs(even, next()), words);
      }
      transpose(pairs);
      for (uint64_t column = 0; column < kLanes; ++column)
        b_.CreateAlignedStore(pairs[column], byte_at(now[1], column * kRowBytes), llvm::Align(64));
      return Values{from, byte_at(now[1], kTileBytes), b_.CreateSub(now[2], number(kTerms))};
    });
  }

  // Squares of half the size change places, within each of four, and so on.
  void transpose(std::array<Value*, kLanes>& rows) {
    for (int half = kLanes / 2; half > 0; half /= 2)
      for (int row = 0; row < kLanes; ++row) {
        if ((row & half) != 0) continue;
        llvm::SmallVector<int, kLanes> upper, lower;
        for (int l = 0; l < kLanes; ++l) {
          const bool right = (l & half) != 0;
          upper.push_back(right ? kLanes + l - half : l);
          lower.push_back(right ? kLanes + l : l + half);
        }
        Value*& a = rows[static_cast<size_t>(row)];
        Value*& c = rows[static_cast<size_t>(row + half)];
        Value* const first = b_.CreateShuffleVector(a, c, upper);
        c = b_.CreateShuffleVector(a, c, lower);
        a = first;
      }
  }

  void tile(llvm::Intrinsic::ID id, int number, llvm::ArrayRef<Value*> more = {}) {
    llvm::SmallVector<Value*, 3> arguments{b_.getInt8(static_cast<uint8_t>(number))};
    arguments.append(more.begin(), more.end());
    b_.CreateIntrinsic(id, {}, arguments);
  }

  // Sums of sixteen columns, laid out, onto those that are there, if any.
  void multiply(Value* vectors, Value* out, Value* steps, Value* there) {
    Values at{out, panel_};
    for (unsigned sums = kSums; sums > 0; sums /= 2)
      tiles(b_, function_, sums, vectors, at, {number(kLanes), number(kPanelBytes / 4)},
            [&](const Values& now) { write_sums(sums, now[0], now[1], steps, there); });
  }

  void write_sums(unsigned vectors, Value* out, Value* panel, Value* steps, Value* there) {
    Value* const step = times(given_.out_j, 4);
    const auto each = [&](const std::function<void(int, Value*)>& sums) {
      for (unsigned v = 0; v < vectors; ++v)
        sums(static_cast<int>(v), byte_at(out, uint64_t{v} * kRowBytes));
    };
    when(there, [&] {
      each([&](int v, Value* at) { tile(llvm::Intrinsic::x86_tileloadd64, v, {at, step}); });
    });
    when(b_.CreateNot(there),
         [&] { each([&](int v, Value*) { tile(llvm::Intrinsic::x86_tilezero, v); }); });
    loop(steps, {columns_, panel}, [&](const Values& now) {
      tile(llvm::Intrinsic::x86_tileloadd64, kColumnTile, {now[0], number(kRowBytes)});
      each([&](int v, Value*) {
        const int from = kPanelTile + v % 2;
        tile(llvm::Intrinsic::x86_tileloadd64, from,
             {byte_at(now[1], static_cast<uint64_t>(v) * kPanelBytes), number(kRowBytes)});
        tile(llvm::Intrinsic::x86_tdpbf16ps, v,
             {b_.getInt8(kColumnTile), b_.getInt8(static_cast<uint8_t>(from))});
      });
      return Values{byte_at(now[0], kTileBytes), byte_at(now[1], kTileBytes)};
    });
    each([&](int v, Value* at) { tile(llvm::Intrinsic::x86_tilestored64, v, {at, step}); });
  }

  Builder& b_;
  llvm::Function& function_;
  ProductArguments given_;
  bool adds_;
  llvm::Type* element_;
  llvm::FixedVectorType* vector_;
  Value *config_, *panel_, *columns_;
};

}  // namespace

void write_product_bf16(Builder& b, llvm::Function& function, bool adds) {
  Bf16Product(b, function, adds).write();
}

}  // namespace xc::codegen
