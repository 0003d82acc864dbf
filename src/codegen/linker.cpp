#include "codegen/linker.h"

#include <elf.h>

#include <cstring>
#include <limits>

#include "base/error.h"

namespace xc::codegen {

namespace {

[[noreturn]] void malformed(const char* what) {
  fail(Status::kInternal, "code generation: object file: {}", what);
}

class Linker {
 public:
  explicit Linker(std::span<const char> object) : object_(object) {}

  Image link(std::string_view entry) {
    header_ = read<Elf64_Ehdr>(0);
    if (std::memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0 || header_.e_type != ET_REL)
      malformed("not an ELF relocatable");
    sections_ = table<Elf64_Shdr>(header_.e_shoff, header_.e_shnum);
    place_sections();
    for (const Elf64_Shdr& section : sections_)
      if (section.sh_type == SHT_SYMTAB) read_symbols(section);
    for (const Elf64_Shdr& section : sections_) {
      if (section.sh_type == SHT_REL) malformed("relocations without addends");
      if (section.sh_type == SHT_RELA) relocate(section);
    }
    return finish(entry);
  }

 private:
  static constexpr size_t kNotPlaced = std::numeric_limits<size_t>::max();

  template <class T>
  T read(size_t offset) const {
    if (offset > object_.size() || object_.size() - offset < sizeof(T)) malformed("cut short");
    T out;
    std::memcpy(&out, object_.data() + offset, sizeof(T));
    return out;
  }
  template <class T>
  std::vector<T> table(size_t offset, size_t count) const {
    std::vector<T> out;
    for (size_t i = 0; i < count; ++i) out.push_back(read<T>(offset + i * sizeof(T)));
    return out;
  }
  std::string_view string(const Elf64_Shdr& strings, size_t offset) const {
    const size_t at = strings.sh_offset + offset;
    if (at >= object_.size()) malformed("string outside");
    return std::string_view(object_.data() + at, strnlen(object_.data() + at, object_.size() - at));
  }
  std::string_view section_name(const Elf64_Shdr& section) const {
    return string(sections_.at(header_.e_shstrndx), section.sh_name);
  }

  void place_sections() {
    placed_.assign(sections_.size(), kNotPlaced);
    // Code first: the entry is near the start.
    for (const bool code : {true, false})
      for (size_t i = 0; i < sections_.size(); ++i) {
        const Elf64_Shdr& section = sections_[i];
        if (!(section.sh_flags & SHF_ALLOC) || section.sh_size == 0) continue;
        if (section_name(section) == ".eh_frame") continue;  // nothing unwinds through a kernel
        if (static_cast<bool>(section.sh_flags & SHF_EXECINSTR) != code) continue;
        if ((section.sh_flags & SHF_WRITE) || section.sh_type != SHT_PROGBITS)
          fail(Status::kUnsupported, "code generation: a kernel has a section {}",
               section_name(section));
        const size_t align = std::max<size_t>(section.sh_addralign, 1);
        if (align > 4096 || (align & (align - 1)) != 0) malformed("alignment");
        image_.alignment = std::max(image_.alignment, align);
        const size_t at = (image_.bytes.size() + align - 1) & ~(align - 1);
        if (section.sh_offset > object_.size() ||
            object_.size() - section.sh_offset < section.sh_size)
          malformed("section outside");
        image_.bytes.resize(at + section.sh_size, 0xcc);
        std::memcpy(image_.bytes.data() + at, object_.data() + section.sh_offset, section.sh_size);
        placed_[i] = at;
      }
  }

  void read_symbols(const Elf64_Shdr& section) {
    symbols_ = table<Elf64_Sym>(section.sh_offset, section.sh_size / sizeof(Elf64_Sym));
    strings_ = &sections_.at(section.sh_link);
  }

  size_t symbol_offset(size_t index) const {
    const Elf64_Sym& symbol = symbols_.at(index);
    if (symbol.st_shndx == SHN_UNDEF || symbol.st_shndx >= placed_.size() ||
        placed_[symbol.st_shndx] == kNotPlaced)
      fail(Status::kUnsupported, "code generation: a kernel refers to the external symbol '{}'",
           string(*strings_, symbol.st_name));
    return placed_[symbol.st_shndx] + symbol.st_value;
  }

  void relocate(const Elf64_Shdr& section) {
    const size_t target = placed_.at(section.sh_info);
    if (target == kNotPlaced) return;
    for (const auto& rela :
         table<Elf64_Rela>(section.sh_offset, section.sh_size / sizeof(Elf64_Rela))) {
      const size_t place = target + rela.r_offset;
      if (place + 4 > image_.bytes.size()) malformed("relocation outside");
      const int64_t distance = static_cast<int64_t>(symbol_offset(ELF64_R_SYM(rela.r_info))) +
                               rela.r_addend - static_cast<int64_t>(place);
      apply(ELF64_R_TYPE(rela.r_info), place, distance);
    }
  }

  void apply(uint64_t type, size_t place, int64_t distance) {
    const bool x86 = header_.e_machine == EM_X86_64;
    const bool arm = header_.e_machine == EM_AARCH64;
    if (x86 && (type == R_X86_64_PC32 || type == R_X86_64_PLT32)) {
      if (distance != static_cast<int32_t>(distance)) malformed("distance over 2 GB");
      write(place, static_cast<uint32_t>(distance));
    } else if (arm && type == R_AARCH64_LD_PREL_LO19) {
      instruction(place, distance, 19, 2, 5);
    } else if (arm && type == R_AARCH64_ADR_PREL_LO21) {
      instruction(place, distance >> 2, 19, 0, 5);
      const uint32_t word = load(place) & ~(3u << 29);
      write(place, word | static_cast<uint32_t>(distance & 3) << 29);
    } else {
      fail(Status::kUnsupported, "code generation: relocation kind {}", type);
    }
  }
  // Puts `distance`, divided by 2^scale, into `bits` bits of an instruction word.
  void instruction(size_t place, int64_t distance, int bits, int scale, int shift) {
    const int64_t field = distance >> scale, limit = int64_t{1} << (bits - 1);
    if (field < -limit || field >= limit) malformed("distance too far");
    const uint32_t mask = (1u << bits) - 1;
    write(place, (load(place) & ~(mask << shift)) | (static_cast<uint32_t>(field) & mask) << shift);
  }
  uint32_t load(size_t place) const {
    uint32_t word = 0;
    std::memcpy(&word, image_.bytes.data() + place, 4);
    return word;
  }
  void write(size_t place, uint32_t word) { std::memcpy(image_.bytes.data() + place, &word, 4); }

  Image finish(std::string_view entry) {
    for (size_t i = 0; i < symbols_.size(); ++i)
      if (strings_ && ELF64_ST_TYPE(symbols_[i].st_info) == STT_FUNC &&
          string(*strings_, symbols_[i].st_name) == entry) {
        image_.entry = symbol_offset(i);
        return std::move(image_);
      }
    fail(Status::kInternal, "code generation: no entry '{}' in the object", entry);
  }

  std::span<const char> object_;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Shdr> sections_;
  std::vector<size_t> placed_;  // offset in the image, by section
  std::vector<Elf64_Sym> symbols_;
  const Elf64_Shdr* strings_ = nullptr;
  Image image_;
};

}  // namespace

Image link_object(std::span<const char> object, std::string_view entry) {
  return Linker(object).link(entry);
}

}  // namespace xc::codegen
