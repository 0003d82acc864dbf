// The linker of kernels on object files written by hand. It is hidden inside libxcrt-jit, so the
// test compiles its own copy (which needs no LLVM).
#include <doctest/doctest.h>
#include <elf.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"
#include "codegen/linker.cpp"  // NOLINT

using namespace xc;

namespace {

struct Relocation {
  uint32_t type;
  uint32_t symbol;  // 1: entry `k`, 2: constant in .rodata, 3: undefined `expf`
  int64_t addend = 0;
};

// An ELF object with 16 bytes of .text at the entry k, 8 bytes of .rodata aligned to 64, and one
// relocation at byte 4 of .text.
std::string object(const Relocation& relocation, uint64_t rodata_flags = SHF_ALLOC) {
  std::string file(sizeof(Elf64_Ehdr), '\0');
  const auto append = [&](const void* data, size_t size) {
    const size_t at = file.size();
    file.append(static_cast<const char*>(data), size);
    return at;
  };
  const std::string names("\0.text\0.rodata\0.rela.text\0.symtab\0.strtab\0k\0expf\0", 49);
  const std::string text(16, '\x90'), rodata(8, '\x11');
  const size_t text_at = append(text.data(), text.size());
  const size_t rodata_at = append(rodata.data(), rodata.size());
  const size_t names_at = append(names.data(), names.size());
  Elf64_Sym symbols[4] = {};
  symbols[1] = {42, ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), 0, 1, 0, 16};
  symbols[2] = {0, ELF64_ST_INFO(STB_LOCAL, STT_SECTION), 0, 2, 0, 0};
  symbols[3] = {44, ELF64_ST_INFO(STB_GLOBAL, STT_NOTYPE), 0, SHN_UNDEF, 0, 0};
  const size_t symbols_at = append(symbols, sizeof(symbols));
  const Elf64_Rela rela{4, ELF64_R_INFO(static_cast<uint64_t>(relocation.symbol), relocation.type),
                        relocation.addend};
  const size_t rela_at = append(&rela, sizeof(rela));
  const Elf64_Shdr sections[] = {
      {},
      {1, SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, 0, text_at, text.size(), 0, 0, 16, 0},
      {7, SHT_PROGBITS, rodata_flags, 0, rodata_at, rodata.size(), 0, 0, 64, 0},
      {15, SHT_RELA, 0, 0, rela_at, sizeof(rela), 4, 1, 8, sizeof(rela)},
      {26, SHT_SYMTAB, 0, 0, symbols_at, sizeof(symbols), 5, 0, 8, sizeof(Elf64_Sym)},
      {34, SHT_STRTAB, 0, 0, names_at, names.size(), 0, 0, 1, 0},
  };
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_type = ET_REL;
  header.e_machine = EM_X86_64;
  header.e_shoff = append(sections, sizeof(sections));
  header.e_shnum = 6;
  header.e_shstrndx = 5;
  std::memcpy(file.data(), &header, sizeof(header));
  return file;
}

std::string refusal(const std::string& file, std::string_view entry = "k") {
  try {
    (void)codegen::link_object(file, entry);
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

}  // namespace

TEST_CASE("codegen/linker: constants are addressed relative to the place") {
  const codegen::Image image = codegen::link_object(object({R_X86_64_PC32, 2, -4}), "k");
  CHECK(image.entry == 0);
  CHECK(image.alignment == 64);
  CHECK(image.bytes.size() == 72);  // .rodata at 64
  int32_t distance = 0;
  std::memcpy(&distance, image.bytes.data() + 4, 4);
  CHECK(distance == 64 - 4 - 4);
  CHECK(image.bytes[64] == 0x11);
}

TEST_CASE("codegen/linker: what an image cannot hold is refused") {
  CHECK(refusal(object({R_X86_64_PLT32, 3})) ==
        "code generation: a kernel refers to the external symbol 'expf'");
  CHECK(refusal(object({R_X86_64_64, 2})) == "code generation: relocation kind 1");
  CHECK(refusal(object({R_X86_64_GOTPCREL, 2})) == "code generation: relocation kind 9");
  CHECK(refusal(object({R_X86_64_PC32, 2}, SHF_ALLOC | SHF_WRITE)) ==
        "code generation: a kernel has a section .rodata");
  CHECK(refusal(object({R_X86_64_PC32, 2, int64_t{1} << 40})) ==
        "code generation: object file: distance over 2 GB");
  CHECK(refusal(object({R_X86_64_PC32, 2}), "other") ==
        "code generation: no entry 'other' in the object");
}

TEST_CASE("codegen/linker: a damaged object is an error at any length") {
  const std::string whole = object({R_X86_64_PC32, 2, -4});
  for (size_t length = 0; length < whole.size(); ++length) {
    CAPTURE(length);
    CHECK(refusal(whole.substr(0, length)) != "");
  }
}
