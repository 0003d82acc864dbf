#include "codegen/linker.h"

#include <elf.h>

#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <string>

#include "base/error.h"

namespace xc::codegen {

namespace {

[[noreturn]] void malformed(const char* what) {
  fail(Status::kInternal, "code generation: object file: {}", what);
}

// One object file, and where its sections lie in the image.
struct Object {
  explicit Object(std::span<const char> file) : bytes(file) {
    header = read<Elf64_Ehdr>(0);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_type != ET_REL)
      malformed("not an ELF relocatable");
    sections = table<Elf64_Shdr>(header.e_shoff, header.e_shnum);
    for (const Elf64_Shdr& section : sections) {
      if (section.sh_type == SHT_REL) malformed("relocations without addends");
      if (section.sh_type != SHT_SYMTAB) continue;
      symbols = table<Elf64_Sym>(section.sh_offset, section.sh_size / sizeof(Elf64_Sym));
      strings = &sections.at(section.sh_link);
    }
    placed.assign(sections.size(), kNotPlaced);
  }

  static constexpr size_t kNotPlaced = std::numeric_limits<size_t>::max();

  template <class T>
  T read(size_t offset) const {
    if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) malformed("cut short");
    T out;
    std::memcpy(&out, bytes.data() + offset, sizeof(T));
    return out;
  }
  template <class T>
  std::vector<T> table(size_t offset, size_t count) const {
    std::vector<T> out;
    for (size_t i = 0; i < count; ++i) out.push_back(read<T>(offset + i * sizeof(T)));
    return out;
  }
  std::vector<Elf64_Rela> relocations(const Elf64_Shdr& section) const {
    return table<Elf64_Rela>(section.sh_offset, section.sh_size / sizeof(Elf64_Rela));
  }
  std::string_view string(const Elf64_Shdr& from, size_t offset) const {
    const size_t at = from.sh_offset + offset;
    if (at >= bytes.size()) malformed("string outside");
    return std::string_view(bytes.data() + at, strnlen(bytes.data() + at, bytes.size() - at));
  }
  std::string_view section_name(const Elf64_Shdr& section) const {
    return string(sections.at(header.e_shstrndx), section.sh_name);
  }
  std::string_view symbol_name(const Elf64_Sym& symbol) const {
    return strings ? string(*strings, symbol.st_name) : std::string_view();
  }

  std::span<const char> bytes;
  Elf64_Ehdr header{};
  std::vector<Elf64_Shdr> sections;
  std::vector<size_t> placed;  // offset in the image, by section
  std::vector<Elf64_Sym> symbols;
  const Elf64_Shdr* strings = nullptr;
};

class Linker {
 public:
  explicit Linker(const Resolve& resolve) : resolve_(resolve) {}

  Image link(std::span<const char> object, std::string_view entry) {
    add(object);
    // Objects that are called come behind, and may call others.
    for (size_t i = 0; i < objects_.size(); ++i) add_called(*objects_[i]);
    for (const auto& o : objects_)
      for (const Elf64_Shdr& section : o->sections)
        if (section.sh_type == SHT_RELA) relocate(*o, section);
    const auto found = functions_.find(entry);
    if (found == functions_.end())
      fail(Status::kInternal, "code generation: no entry '{}' in the object", entry);
    image_.entry = found->second;
    return std::move(image_);
  }

 private:
  void add(std::span<const char> file) {
    objects_.push_back(std::make_unique<Object>(file));
    Object& object = *objects_.back();
    place_sections(object);
    for (const Elf64_Sym& symbol : object.symbols)
      if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_shndx != SHN_UNDEF)
        functions_.emplace(object.symbol_name(symbol), offset_of(object, symbol));
  }

  void add_called(const Object& object) {
    for (const Elf64_Shdr& section : object.sections) {
      if (section.sh_type != SHT_RELA || object.placed.at(section.sh_info) == Object::kNotPlaced)
        continue;
      for (const Elf64_Rela& rela : object.relocations(section)) {
        const Elf64_Sym& symbol = object.symbols.at(ELF64_R_SYM(rela.r_info));
        if (symbol.st_shndx != SHN_UNDEF) continue;
        const std::string_view name = object.symbol_name(symbol);
        if (functions_.contains(name)) continue;
        const std::span<const char> called = resolve_ ? resolve_(name) : std::span<const char>();
        if (called.empty())
          fail(Status::kUnsupported, "code generation: a kernel refers to the external symbol '{}'",
               name);
        add(called);
      }
    }
  }

  void place_sections(Object& object) {
    // Code first: the entry is near the start.
    for (const bool code : {true, false})
      for (size_t i = 0; i < object.sections.size(); ++i) {
        const Elf64_Shdr& section = object.sections[i];
        if (!(section.sh_flags & SHF_ALLOC) || section.sh_size == 0) continue;
        const std::string_view name = object.section_name(section);
        if (name == ".eh_frame") continue;  // nothing unwinds through a kernel
        if (static_cast<bool>(section.sh_flags & SHF_EXECINSTR) != code) continue;
        if ((section.sh_flags & SHF_WRITE) || section.sh_type != SHT_PROGBITS)
          fail(Status::kUnsupported, "code generation: a kernel has a section {}", name);
        const size_t align = std::max<size_t>(section.sh_addralign, 1);
        if (align > 4096 || (align & (align - 1)) != 0) malformed("alignment");
        image_.alignment = std::max(image_.alignment, align);
        const size_t at = (image_.bytes.size() + align - 1) & ~(align - 1);
        if (section.sh_offset > object.bytes.size() ||
            object.bytes.size() - section.sh_offset < section.sh_size)
          malformed("section outside");
        image_.bytes.resize(at + section.sh_size, 0xcc);
        std::memcpy(image_.bytes.data() + at, object.bytes.data() + section.sh_offset,
                    section.sh_size);
        object.placed[i] = at;
      }
  }

  static size_t offset_of(const Object& object, const Elf64_Sym& symbol) {
    if (symbol.st_shndx >= object.placed.size() ||
        object.placed[symbol.st_shndx] == Object::kNotPlaced)
      fail(Status::kUnsupported, "code generation: a kernel refers to the external symbol '{}'",
           object.symbol_name(symbol));
    return object.placed[symbol.st_shndx] + symbol.st_value;
  }

  void relocate(const Object& object, const Elf64_Shdr& section) {
    const size_t target = object.placed.at(section.sh_info);
    if (target == Object::kNotPlaced) return;
    for (const Elf64_Rela& rela : object.relocations(section)) {
      const size_t place = target + rela.r_offset;
      if (place + 4 > image_.bytes.size()) malformed("relocation outside");
      const Elf64_Sym& symbol = object.symbols.at(ELF64_R_SYM(rela.r_info));
      const size_t to = symbol.st_shndx == SHN_UNDEF
                            ? functions_.at(std::string(object.symbol_name(symbol)))
                            : offset_of(object, symbol);
      const int64_t distance =
          static_cast<int64_t>(to) + rela.r_addend - static_cast<int64_t>(place);
      apply(object.header.e_machine, ELF64_R_TYPE(rela.r_info), place, distance);
    }
  }

  void apply(unsigned machine, uint64_t type, size_t place, int64_t distance) {
    const bool x86 = machine == EM_X86_64;
    const bool arm = machine == EM_AARCH64;
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

  const Resolve& resolve_;
  std::vector<std::unique_ptr<Object>> objects_;
  std::map<std::string, size_t, std::less<>> functions_;  // offset in the image
  Image image_;
};

}  // namespace

Image link_object(std::span<const char> object, std::string_view entry, const Resolve& resolve) {
  return Linker(resolve).link(object, entry);
}

}  // namespace xc::codegen
