#include "base/build_id.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <unistd.h>

#include <cstring>
#include <string_view>
#include <vector>

namespace xc {
namespace {

constexpr size_t kMaxNotes = 1 << 16;  // bytes of a segment of notes that are looked at

/// The build id among the notes of one segment, in hexadecimal; empty without one.
std::string find_in_notes(std::string_view notes) {
  while (notes.size() >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) header;
    std::memcpy(&header, notes.data(), sizeof header);
    notes.remove_prefix(sizeof header);
    const size_t name = (size_t{header.n_namesz} + 3) & ~size_t{3};
    const size_t content = (size_t{header.n_descsz} + 3) & ~size_t{3};
    if (name > notes.size() || content > notes.size() - name) break;
    if (header.n_type == NT_GNU_BUILD_ID && notes.substr(0, 4) == std::string_view("GNU\0", 4)) {
      std::string text;
      for (const char c : notes.substr(name, header.n_descsz))
        text += fmt::format("{:02x}", static_cast<unsigned char>(c));
      return text;
    }
    notes.remove_prefix(name + content);
  }
  return {};
}

struct Search {
  uintptr_t address;
  std::string found;
};

/// For dl_iterate_phdr: stops at the object that contains the address.
int look(dl_phdr_info* info, size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  bool mine = false;
  for (size_t k = 0; k < info->dlpi_phnum; ++k) {
    const ElfW(Phdr)& part = info->dlpi_phdr[k];
    const uintptr_t begin = info->dlpi_addr + part.p_vaddr;
    mine = mine || (part.p_type == PT_LOAD && search.address >= begin &&
                    search.address - begin < part.p_memsz);
  }
  if (!mine) return 0;
  for (size_t k = 0; k < info->dlpi_phnum && search.found.empty(); ++k) {
    const ElfW(Phdr)& part = info->dlpi_phdr[k];
    if (part.p_type == PT_NOTE)
      search.found = find_in_notes(
          {reinterpret_cast<const char*>(info->dlpi_addr + part.p_vaddr), part.p_memsz});
  }
  return 1;
}

std::string read_at(int file, size_t offset, size_t size) {
  std::string out(size, '\0');
  const ssize_t got = pread(file, out.data(), size, static_cast<off_t>(offset));
  out.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return out;
}

}  // namespace

std::string own_build_id() {
  Search search{reinterpret_cast<uintptr_t>(&own_build_id), {}};
  dl_iterate_phdr(look, &search);
  return search.found;
}

std::string build_id_of_file(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  std::string found;
  ElfW(Ehdr) header{};
  if (const std::string bytes = read_at(file, 0, sizeof header); bytes.size() == sizeof header) {
    std::memcpy(&header, bytes.data(), sizeof header);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) header.e_phnum = 0;
  }
  for (size_t k = 0; k < header.e_phnum && found.empty(); ++k) {
    ElfW(Phdr) part{};
    const std::string bytes = read_at(file, header.e_phoff + k * sizeof part, sizeof part);
    if (bytes.size() != sizeof part) break;
    std::memcpy(&part, bytes.data(), sizeof part);
    if (part.p_type == PT_NOTE && part.p_filesz <= kMaxNotes)
      found = find_in_notes(read_at(file, part.p_offset, part.p_filesz));
  }
  close(file);
  return found;
}

}  // namespace xc
