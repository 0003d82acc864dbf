// Products of bf16 by the matrix units of x86 (AMX), from and to f32: the sums of a dot_bf16
// accumulator (loop/kernel.h). Terms go by chunks. The panel's rows of a chunk are rounded and laid
// out in pairs of terms, once for all columns; then b's terms of sixteen columns at a time, one
// column after the other, for eight vectors of rows. Four tiles of sums, of sixteen columns by
// sixteen rows, are fed by one tile of b and four of the panel: eight cycles to load each, sixteen
// to multiply.
#include <array>

#include "codegen/library_matrix.h"
#include "loop/dot.h"

namespace xc::codegen {

using llvm::Value;

namespace {

constexpr int kTerms = loop::kDotBf16Terms;  // of a tile
constexpr int kChunk = 64;   // terms; with eight vectors 18 KiB of the caller's stack
constexpr int kVectors = 8;  // of rows, at most

class Bf16Product : MatrixProduct {
 public:
  using MatrixProduct::MatrixProduct;

  void write() {
    write_palette(kTiles);
    panel_ = memory(kVectors * kPanelBytes);
    columns_ = memory(kPanelBytes);
    loop(parts(given_.vectors, kVectors), {given_.vectors, given_.panel, given_.out},
         [&](const Values& now) {
           write_rows(least(now[0], kVectors), now[1], now[2]);
           Value* const behind = number(kVectors * kLanes);
           return Values{b_.CreateSub(now[0], number(kVectors)), on(now[1], behind),
                         on(now[2], behind)};
         });
    release();
  }

 private:
  static constexpr int kPanelBytes = kChunk / kTerms * kTileBytes;  // of a vector of rows
  // Tiles: sums from 0 on, then these.
  static constexpr int kColumnTile = kSums, kPanelTile = kSums + 1, kTiles = kPanelTile + 2;

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
    Value* const chunks = most(parts(given_.count, kChunk), 1);
    // The panel's and b's rows of a chunk, terms left, whether sums are there already.
    loop(chunks, {panel, given_.b, given_.count, b_.getFalse()}, [&](const Values& now) {
      Value* const terms = least(now[2], kChunk);
      Value* const steps = parts(terms, kTerms);
      lay_out_panel(vectors, now[0], terms, steps);
      // Columns left, b's and those of the sums, what tiles are configured for.
      loop(parts(given_.columns, kLanes), {given_.columns, now[1], out, number(0)},
           [&](const Values& at) {
             Value* const columns = least(at[0], kLanes);
             when(b_.CreateICmpNE(columns, at[3]), [&] { configure_for(columns); });
             lay_out_columns(columns, at[1], terms, steps);
             multiply(vectors, at[2], steps, now[3]);
             return Values{b_.CreateSub(at[0], number(kLanes)),
                           on(at[1], times(given_.b_j, kLanes)),
                           on(at[2], times(given_.out_j, kLanes)), columns};
           });
      return Values{on(now[0], times(given_.panel_k, kChunk)),
                    on(now[1], times(given_.b_k, kChunk)), b_.CreateSub(now[2], number(kChunk)),
                    b_.getTrue()};
    });
  }

  // Tiles of sums and of columns have so many rows, those of the panel one per pair of terms.
  void configure_for(Value* rows) {
    Value* const few = b_.CreateTrunc(rows, b_.getInt8Ty());
    Values of_tiles(kSums + 1, few);
    of_tiles.insert(of_tiles.end(), 2, b_.getInt8(kTerms / 2));
    configure(of_tiles);
  }

  // Pairs of terms side by side, zeros behind the last.
  void lay_out_panel(Value* vectors, Value* panel, Value* terms, Value* steps) {
    const auto store = [&](Value* pair, Value* to) {
      b_.CreateAlignedStore(pair, to, llvm::Align(64));
      return byte_at(to, kRowBytes);
    };
    Value* const pairs = parts(terms, 2);
    loop(vectors, {panel, panel_}, [&](const Values& vector) {
      Values at = loop(b_.CreateSDiv(terms, number(2)), vector, [&](const Values& now) {
        Value* const odd = on(now[0], given_.panel_k);
        Value* const next = store(rounded_pairs(sixteen(now[0]), sixteen(odd)), now[1]);
        return Values{on(odd, given_.panel_k), next};
      });
      at = loop(b_.CreateSRem(terms, number(2)), at, [&](const Values& now) {
        return Values{now[0], store(rounded_pairs(sixteen(now[0]), zeros()), now[1])};
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
    const auto terms_of = [&](Value* from, Value* left) {
      return dense ? sixteen(from, left) : sixteen(from, left, given_.b_k);
    };
    loop(rows, {at, columns_}, [&](const Values& column) {
      loop(steps, {column[0], column[1], terms}, [&](const Values& now) {
        Value* const low = terms_of(now[0], now[2]);
        Value* const high =
            terms_of(on(now[0], times(given_.b_k, kLanes)), b_.CreateSub(now[2], number(kLanes)));
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

  // Sums of sixteen columns, laid out, onto those that are there, if any.
  void multiply(Value* vectors, Value* out, Value* steps, Value* there) {
    Values at{out, panel_};
    for (unsigned sums = kSums; sums > 0; sums /= 2)
      tiles(b_, *function_, sums, vectors, at, {number(kLanes), number(kPanelBytes / 4)},
            [&](const Values& now) { write_sums(sums, now[0], now[1], steps, there); });
  }

  void write_sums(unsigned vectors, Value* out, Value* panel, Value* steps, Value* there) {
    Value* const step = times(given_.out_j, 4);
    const auto each = [&](const std::function<void(int, Value*)>& sums) {
      for (unsigned v = 0; v < vectors; ++v)
        sums(static_cast<int>(v), byte_at(out, uint64_t{v} * kRowBytes));
    };
    when(there, [&] { each([&](int v, Value* at) { load_tile(v, at, step); }); });
    when(b_.CreateNot(there),
         [&] { each([&](int v, Value*) { tile(llvm::Intrinsic::x86_tilezero, v); }); });
    loop(steps, {columns_, panel}, [&](const Values& now) {
      load_tile(kColumnTile, now[0], number(kRowBytes));
      each([&](int v, Value*) {
        const int from = kPanelTile + v % 2;
        load_tile(from, byte_at(now[1], static_cast<uint64_t>(v) * kPanelBytes), number(kRowBytes));
        multiply_tiles(v, kColumnTile, from);
      });
      return Values{byte_at(now[0], kTileBytes), byte_at(now[1], kTileBytes)};
    });
    each([&](int v, Value* at) { store_tile(v, at, step); });
  }

  Value *panel_ = nullptr, *columns_ = nullptr;
};

}  // namespace

void write_product_bf16(Builder& b, llvm::Function& function) {
  Bf16Product(b, function).write();
}

}  // namespace xc::codegen
