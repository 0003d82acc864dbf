#include "codegen/library.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Verifier.h>

#include <array>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.h"
#include "codegen/library_objects.h"
#include "codegen/library_write.h"

namespace xc::codegen {

using llvm::Value;
using loop::AccOp;

namespace {

constexpr std::string_view kTranspose = "xc.transpose", kProduct = "xc.product",
                           kProductBf16 = "xc.product.bf16", kProductBf16x3 = "xc.product.bf16x3";

// Within each four lanes, `pattern` of them; 4 and above are y's.
Value* unpack(Builder& b, Value* x, Value* y, const std::array<int, 4>& pattern) {
  const auto lanes = llvm::cast<llvm::FixedVectorType>(x->getType())->getNumElements();
  llvm::SmallVector<int, 16> mask;
  for (int base = 0; base < static_cast<int>(lanes); base += 4)
    for (const int from : pattern)
      mask.push_back(base + (from < 4 ? from : from - 4 + static_cast<int>(lanes)));
  return b.CreateShuffleVector(x, y, mask);
}

// Chunks of four lanes one after the other.
Value* joined(Builder& b, llvm::ArrayRef<Value*> chunks) {
  if (chunks.size() == 1) return chunks[0];
  const size_t half = chunks.size() / 2;
  Value* const low = joined(b, chunks.take_front(half));
  Value* const high = joined(b, chunks.drop_front(half));
  llvm::SmallVector<int, 16> mask(chunks.size() * 4);
  std::iota(mask.begin(), mask.end(), 0);
  return b.CreateShuffleVector(low, high, mask);
}

}  // namespace

std::vector<Value*> countdown(
    Builder& b, llvm::Function& function, Value* left, const std::vector<Value*>& start,
    const std::function<std::vector<Value*>(const std::vector<Value*>&)>& body) {
  auto* before = b.GetInsertBlock();
  auto* inside = llvm::BasicBlock::Create(b.getContext(), "loop", &function);
  auto* done = llvm::BasicBlock::Create(b.getContext(), "done", &function);
  b.CreateCondBr(b.CreateICmpSGT(left, b.getInt64(0)), inside, done);
  b.SetInsertPoint(inside);
  auto* count = b.CreatePHI(b.getInt64Ty(), 2);
  count->addIncoming(left, before);
  std::vector<Value*> now, out;
  for (Value* v : start) {
    auto* phi = b.CreatePHI(v->getType(), 2);
    phi->addIncoming(v, before);
    now.push_back(phi);
  }
  const std::vector<Value*> next = body(now);
  auto* latch = b.GetInsertBlock();  // the body may have loops
  Value* const rest = b.CreateSub(count, b.getInt64(1));
  count->addIncoming(rest, latch);
  for (size_t i = 0; i < now.size(); ++i)
    llvm::cast<llvm::PHINode>(now[i])->addIncoming(next[i], latch);
  b.CreateCondBr(b.CreateICmpSGT(rest, b.getInt64(0)), inside, done);
  b.SetInsertPoint(done);
  for (size_t i = 0; i < now.size(); ++i) {
    auto* phi = b.CreatePHI(now[i]->getType(), 2);
    phi->addIncoming(start[i], before);
    phi->addIncoming(next[i], latch);
    out.push_back(phi);
  }
  return out;
}

void tiles(Builder& b, llvm::Function& function, unsigned size, Value*& left,
           std::vector<Value*>& at, const std::vector<Value*>& steps, const TileBody& body) {
  Value* const count = b.CreateSDiv(left, b.getInt64(size));
  left = b.CreateSRem(left, b.getInt64(size));
  at = countdown(b, function, count, at, [&](const std::vector<Value*>& now) {
    body(now);
    std::vector<Value*> next;
    for (size_t i = 0; i < now.size(); ++i)
      next.push_back(b.CreateGEP(b.getFloatTy(), now[i], b.CreateMul(steps[i], b.getInt64(size))));
    return next;
  });
}

// Each vector takes four elements of every fourth row, then two unpacks within each chunk of four
// lanes make columns.
std::array<Value*, kTransposeColumns> columns_of(Builder& b, llvm::ArrayRef<Value*> rows) {
  auto* const chunk = llvm::FixedVectorType::get(b.getFloatTy(), kTransposeColumns);
  std::array<llvm::SmallVector<Value*, 4>, 4> chunks;  // of rows k, k + 4, k + 8 and k + 12
  for (size_t row = 0; row < rows.size(); ++row)
    chunks[row % 4].push_back(b.CreateAlignedLoad(chunk, rows[row], llvm::Align(4)));
  std::array<Value*, 4> by_four;
  for (size_t k = 0; k < 4; ++k) by_four[k] = joined(b, chunks[k]);
  Value* const low[2] = {unpack(b, by_four[0], by_four[1], {0, 4, 1, 5}),
                         unpack(b, by_four[2], by_four[3], {0, 4, 1, 5})};
  Value* const high[2] = {unpack(b, by_four[0], by_four[1], {2, 6, 3, 7}),
                          unpack(b, by_four[2], by_four[3], {2, 6, 3, 7})};
  return {unpack(b, low[0], low[1], {0, 1, 4, 5}), unpack(b, low[0], low[1], {2, 3, 6, 7}),
          unpack(b, high[0], high[1], {0, 1, 4, 5}), unpack(b, high[0], high[1], {2, 3, 6, 7})};
}

namespace {

// What it is given, by the names that library.h has.
struct TransposeArguments {
  explicit TransposeArguments(llvm::Function& f)
      : from(f.getArg(0)),
        from_row(f.getArg(1)),
        from_tile(f.getArg(2)),
        to(f.getArg(3)),
        to_row(f.getArg(4)),
        to_tile(f.getArg(5)),
        tiles(f.getArg(6)) {}
  Value *from, *from_row, *from_tile, *to, *to_row, *to_tile, *tiles;
};
void write_transpose(Builder& b, llvm::Function& function, const Target& target) {
  const TransposeArguments given(function);
  const auto step = [&](Value* p, Value* by) { return b.CreateGEP(b.getInt32Ty(), p, by); };
  countdown(b, function, given.tiles, {given.from, given.to},
            [&](const std::vector<Value*>& at_tile) -> std::vector<Value*> {
              llvm::SmallVector<Value*, 16> rows;
              Value* at = at_tile[0];
              for (unsigned row = 0; row < register_lanes(target); ++row) {
                rows.push_back(at);
                at = step(at, given.from_row);
              }
              at = at_tile[1];
              for (Value* const column : columns_of(b, rows)) {
                b.CreateAlignedStore(column, at, llvm::Align(4));
                at = step(at, given.to_row);
              }
              return {step(at_tile[0], given.from_tile), step(at_tile[1], given.to_tile)};
            });
}

// A panel of terms: its rows, b's, how many there are, and whether sums are there already.
struct Panel {
  Value *rows, *b, *count, *there;
};

// Sums of one tile: so many registers of rows by columns. `from`: the panel's rows of the tile.
void write_tile(Builder& b, llvm::Function& function, const Target& target, const Panel& panel,
                unsigned registers, unsigned columns, Value* from, Value* b_column, Value* out) {
  const ProductArguments given(function);
  const unsigned lanes = register_lanes(target);
  llvm::Type* const element = b.getFloatTy();
  auto* const vector = llvm::FixedVectorType::get(element, lanes);
  const auto parts = [&](Value* at, const std::function<void(unsigned, Value*)>& each) {
    for (unsigned part = 0; part < registers; ++part)
      each(part, b.CreateConstGEP1_64(element, at, uint64_t{part} * lanes));
  };
  std::vector<Value*> columns_of_b, outs, loaded;
  auto* const before = b.GetInsertBlock();
  auto* const load = llvm::BasicBlock::Create(b.getContext(), "load", &function);
  auto* const start_sums = llvm::BasicBlock::Create(b.getContext(), "sums", &function);
  for (unsigned j = 0; j < columns; ++j) {
    columns_of_b.push_back(b_column);
    outs.push_back(out);
    b_column = b.CreateGEP(element, b_column, given.b_j);
    out = b.CreateGEP(element, out, given.out_j);
  }
  b.CreateCondBr(panel.there, load, start_sums);
  b.SetInsertPoint(load);
  for (Value* const sums : outs)
    parts(sums, [&](unsigned, Value* at) {
      loaded.push_back(b.CreateAlignedLoad(vector, at, llvm::Align(4)));
    });
  b.CreateBr(start_sums);
  b.SetInsertPoint(start_sums);
  // The variables: the panel's row, the distance of b's from its first, the sums.
  std::vector<Value*> start{from, b.getInt64(0)};
  for (Value* const sum : loaded) {
    auto* const phi = b.CreatePHI(vector, 2);
    phi->addIncoming(llvm::ConstantFP::get(vector, 0.0), before);
    phi->addIncoming(sum, load);
    start.push_back(phi);
  }
  const std::vector<Value*> sums =
      countdown(b, function, panel.count, start, [&](const std::vector<Value*>& now) {
        std::vector<Value*> next{b.CreateGEP(element, now[0], given.panel_k),
                                 b.CreateAdd(now[1], given.b_k)};
        std::vector<Value*> row;
        parts(now[0], [&](unsigned, Value* at) {
          row.push_back(b.CreateAlignedLoad(vector, at, llvm::Align(4)));
        });
        for (unsigned j = 0; j < columns; ++j) {
          Value* const factor = b.CreateVectorSplat(
              lanes, b.CreateAlignedLoad(element, b.CreateGEP(element, columns_of_b[j], now[1]),
                                         llvm::Align(4)));
          for (Value* const part : row)
            next.push_back(b.CreateIntrinsic(llvm::Intrinsic::fma, {vector},
                                             {part, factor, now[next.size()]}));
        }
        return next;
      });
  for (unsigned j = 0; j < columns; ++j)
    parts(outs[j], [&](unsigned part, Value* at) {
      b.CreateAlignedStore(sums[2 + size_t{j} * registers + part], at, llvm::Align(4));
    });
}

// Tiles of the most registers and columns, then of fewer. 32 registers hold 4 x 6 vectors of sums,
// a row of 4 and what they are multiplied by: an element that is loaded serves four to six
// multiplications, which two loads a cycle keep up with. (f32 of AVX-512, from the first-level
// cache: 4 x 6 190 GFLOP/s, 4 x 4 181, 2 x 8 169.) 16 registers hold 2 x 6, a row and one more.
void write_tiles(Builder& b, llvm::Function& function, const Target& target, const Panel& panel) {
  const ProductArguments given(function);
  const unsigned lanes = register_lanes(target), most_registers = target.masked_all ? 4 : 2;
  Value* columns = given.columns;
  std::vector<Value*> at{panel.b, given.out};
  for (const unsigned width : {6U, 2U, 1U})
    tiles(
        b, function, width, columns, at, {given.b_j, given.out_j},
        [&](const std::vector<Value*>& column) {
          Value* rows = given.vectors;
          std::vector<Value*> from{panel.rows, column[1]};  // and out
          const std::vector<Value*> vector(2, b.getInt64(lanes));
          for (unsigned registers = most_registers; registers > 0; registers /= 2)
            tiles(b, function, registers, rows, from, vector, [&](const std::vector<Value*>& row) {
              write_tile(b, function, target, panel, registers, width, row[0], column[0], row[1]);
            });
        });
}

// Long sums go by panels of so many terms, whose rows stay in the first-level cache.
void write_product(Builder& b, llvm::Function& function, const Target& target) {
  constexpr uint64_t kPanelTerms = 64;
  const ProductArguments given(function);
  Value* const size = b.getInt64(kPanelTerms);
  Value* const panels = b.CreateUDiv(b.CreateAdd(given.count, b.getInt64(kPanelTerms - 1)), size);
  // Of no terms sums are 0, too.
  countdown(b, function, b.CreateBinaryIntrinsic(llvm::Intrinsic::umax, panels, b.getInt64(1)),
            {given.panel, given.b, given.count, function.getArg(10)},
            [&](const std::vector<Value*>& now) -> std::vector<Value*> {
              write_tiles(b, function, target,
                          {now[0], now[1],
                           b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, now[2], size), now[3]});
              const auto behind = [&](Value* at, Value* step) {
                return b.CreateGEP(b.getFloatTy(), at, b.CreateMul(step, size));
              };
              return {behind(now[0], given.panel_k), behind(now[1], given.b_k),
                      b.CreateSub(now[2], size), b.getTrue()};
            });
}

llvm::Function* declared(llvm::Module& module, const Target& target, llvm::StringRef name,
                         llvm::ArrayRef<llvm::Type*> arguments) {
  if (llvm::Function* known = module.getFunction(name)) return known;
  auto* signature =
      llvm::FunctionType::get(llvm::Type::getVoidTy(module.getContext()), arguments, false);
  auto* function = llvm::Function::Create(signature, llvm::Function::ExternalLinkage, name, module);
  function->setDSOLocal(true);
  set_attributes(*function, target);
  return function;
}

// The function of that name, written; null when there is none.
llvm::Function* written(std::string_view name, llvm::Module& module, const Target& target) {
  Builder b(module.getContext());
  llvm::Function* function = nullptr;
  const auto begin = [&](llvm::Function* made) {
    function = made;
    b.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "entry", function));
  };
  if (name == kTranspose) {
    begin(transpose_function(module, target));
    write_transpose(b, *function, target);
  } else if (name == kProduct) {
    begin(product_function(module, target, AccOp::kDot));
    write_product(b, *function, target);
  } else if (name == kProductBf16) {
    begin(product_function(module, target, AccOp::kDotBf16));
    write_product_bf16(b, *function);
  } else if (name == kProductBf16x3) {
    begin(product_function(module, target, AccOp::kDotBf16x3));
    write_product_bf16x3(b, *function);
  } else {
    return nullptr;
  }
  b.CreateRetVoid();
  return function;
}

}  // namespace

void set_attributes(llvm::Function& function, const Target& target) {
  function.addFnAttr(llvm::Attribute::NoUnwind);
  function.addFnAttr("no-builtins");
  function.addFnAttr("target-cpu", target.cpu);
  if (!target.features.empty()) function.addFnAttr("target-features", target.features);
  if (target.masked_all) function.addFnAttr("prefer-vector-width", "512");
}

llvm::Function* transpose_function(llvm::Module& module, const Target& target) {
  auto* const ptr = llvm::PointerType::getUnqual(module.getContext());
  auto* const i64 = llvm::Type::getInt64Ty(module.getContext());
  return declared(module, target, kTranspose, {ptr, i64, i64, ptr, i64, i64, i64});
}

llvm::Function* product_function(llvm::Module& module, const Target& target, AccOp op) {
  auto* const ptr = llvm::PointerType::getUnqual(module.getContext());
  auto* const i64 = llvm::Type::getInt64Ty(module.getContext());
  llvm::SmallVector<llvm::Type*, 11> arguments{ptr, i64, ptr, i64, i64, i64, ptr, i64, i64, i64};
  switch (op) {
    case AccOp::kDotBf16:
      return declared(module, target, kProductBf16, arguments);
    case AccOp::kDotBf16x3:
      arguments.push_back(ptr);
      return declared(module, target, kProductBf16x3, arguments);
    default:
      arguments.push_back(llvm::Type::getInt1Ty(module.getContext()));
      return declared(module, target, kProduct, arguments);
  }
}

std::vector<std::string_view> library_names(const Target& target) {
  std::vector<std::string_view> out{kTranspose, kProduct};
  if (has_matrix_library(target)) out.insert(out.end(), {kProductBf16, kProductBf16x3});
  return out;
}

std::span<const char> compile_library_function(std::string_view name, const Target& target,
                                               Backend& backend) {
  llvm::LLVMContext context;
  llvm::Module module("library", context);
  backend.prepare(module);
  llvm::Function* const function = written(name, module, target);
  if (!function) fail(Status::kInternal, "code generation: the library has no {}", name);
  std::string problem;
  llvm::raw_string_ostream out(problem);
  if (llvm::verifyModule(module, &out))
    fail(Status::kInternal, "code generation of {} made invalid IR: {}", name, problem);
  return backend.emit(module);
}

std::span<const char> library_object(std::string_view name, const Target& target) {
  for (const LibraryObject& object : library_objects())
    if (object.name == name && object.target == target.name)
      return {reinterpret_cast<const char*>(object.file.data()), object.file.size()};
  return {};
}

}  // namespace xc::codegen
