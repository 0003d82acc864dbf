#include "formats/onnx/tensors.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/utf8.h"
#include "formats/mapped_file.h"
#include "formats/onnx/types.h"
#include "formats/packed.h"

namespace xc::onnx {

/// A TensorProto taken apart; lists stay encoded and are counted.
struct TensorReader::Fields {
  Bytes name, body;
  Dims dims;
  DType dtype = DType::kUndefined;
  std::optional<Bytes> raw;
  bool external = false;
  std::vector<std::pair<Bytes, Bytes>> external_entries;
  uint32_t typed_field = 0;  ///< field number of the list that holds the elements; 0 = none
  int64_t typed_count = 0;
  int64_t count = 0;

  std::string text() const {
    return name.empty() ? "a tensor" : fmt::format("tensor '{}'", printable(name));
  }
  /// Attributes have theirs without a name: who reads the attribute knows where.
  std::string place() const { return name.empty() ? std::string() : text(); }
};

namespace {

enum Field : uint32_t {
  kDims = 1,
  kDataType = 2,
  kSegment = 3,
  kFloatData = 4,
  kInt32Data = 5,
  kStringData = 6,
  kInt64Data = 7,
  kName = 8,
  kRawData = 9,
  kDoubleData = 10,
  kUint64Data = 11,
  kExternalData = 13,
  kDataLocation = 14,
};

/// The list that may hold elements of a type.
uint32_t typed_field_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kC64:
      return kFloatData;
    case DType::kF64:
    case DType::kC128:
      return kDoubleData;
    case DType::kI64:
      return kInt64Data;
    case DType::kU32:
    case DType::kU64:
      return kUint64Data;
    case DType::kString:
      return kStringData;
    default:
      return kInt32Data;
  }
}

/// A StringStringEntryProto.
std::pair<Bytes, Bytes> key_and_value(const Source& source, Bytes body) {
  Bytes key, value;
  for (Message m(source, body); m.next();) switch (m.field()) {
      case 1:
        key = m.bytes();
        break;
      case 2:
        value = m.bytes();
        break;
      default:
        m.skip();
    }
  return {key, value};
}

/// Adds a dim of a tensor or sparse tensor to those read before.
void add_dim(const Source& source, Dims& dims, int64_t dim) {
  if (static_cast<int>(dims.size()) >= source.limits.rank)
    fail(Status::kLimit, "a tensor has more than {} dimensions", source.limits.rank);
  dims.push_back(dim);
}

/// Where an element of a sparse tensor lies in the dense one. `indices`: one number for it, or one
/// per axis.
int64_t sparse_offset(const Tensor& indices, int64_t element, std::span<const int64_t> dims) {
  const int64_t* index = indices.as<int64_t>();
  if (indices.rank() == 1) return index[element];
  int64_t flat = 0;
  const auto rank = static_cast<int64_t>(dims.size());
  for (int64_t axis = 0; axis < rank; ++axis) {
    const int64_t at = index[element * rank + axis], size = dims[static_cast<size_t>(axis)];
    if (at < 0 || at >= size)
      fail(Status::kInvalidModel, "sparse index {} is outside of [0, {})", at, size);
    flat = flat * size + at;
  }
  return flat;
}

/// A decimal number of 64 bits and nothing else.
int64_t decimal(Bytes text, std::string_view what) {
  int64_t out = 0;
  if (text.empty() || text.size() > 19)
    fail(Status::kFormat, "external data: '{}' is no {}", printable(text, 40), what);
  for (const char c : text) {
    if (c < '0' || c > '9')
      fail(Status::kFormat, "external data: '{}' is no {}", printable(text, 40), what);
    out = checked_add(checked_mul(out, 10), c - '0');
  }
  return out;
}

}  // namespace

TensorReader::TensorReader(const Source& source, std::shared_ptr<Buffer> file, std::string base_dir,
                           bool copy_weights)
    : source_(source),
      file_(std::move(file)),
      base_dir_(std::move(base_dir)),
      copy_weights_(copy_weights) {}

TensorReader::Fields TensorReader::read_fields(Bytes body) const {
  Fields out;
  out.body = body;
  int64_t data_type = 0;
  const auto typed = [&](Message& m, int64_t entries) {
    if (out.typed_field != 0 && out.typed_field != m.field())
      m.damaged("a tensor has elements in two lists");
    out.typed_field = m.field();
    out.typed_count += entries;
  };
  for (Message m(source_, body); m.next();) switch (m.field()) {
      case kDims:
        m.each_integer([&](int64_t d) { add_dim(source_, out.dims, d); });
        break;
      case kDataType:
        data_type = m.integer();
        break;
      case kName:
        out.name = m.name();
        break;
      case kRawData:
        out.raw = m.bytes();
        break;
      case kDataLocation:
        out.external = m.integer() == 1;
        break;
      case kExternalData:
        out.external_entries.push_back(key_and_value(source_, m.bytes()));
        if (out.external_entries.size() > 16) m.damaged("too many external data entries");
        break;
      case kFloatData:
        m.each_fixed<float>([&](float) { typed(m, 1); });
        break;
      case kDoubleData:
        m.each_fixed<double>([&](double) { typed(m, 1); });
        break;
      case kInt32Data:
      case kInt64Data:
      case kUint64Data:
        m.each_integer([&](int64_t) { typed(m, 1); });
        break;
      case kStringData:
        if (static_cast<int64_t>(m.bytes().size()) > source_.limits.string_bytes)
          fail(Status::kLimit, "a string has more than {} bytes", source_.limits.string_bytes);
        typed(m, 1);
        break;
      case kSegment:
        fail(Status::kUnsupported, "tensors in segments are not supported");
      default:
        m.skip();
    }
  out.dtype = located(out.place(), [&] { return dtype_from_onnx(data_type); });
  if (out.dtype == DType::kUndefined)
    fail(Status::kInvalidModel, "{} has no element type", out.text());
  out.count = located(out.place(), [&] { return element_count(out.dims); });
  checked_mul(out.count, std::max<int64_t>(element_size(out.dtype), 1));
  return out;
}

Tensor TensorReader::dense(Bytes body) {
  const Fields fields = read_fields(body);
  const int sources =
      (fields.raw && !fields.raw->empty()) + (fields.typed_count > 0) + fields.external;
  if (sources > 1) fail(Status::kFormat, "{} has its data in two places", fields.text());
  if (fields.external) return from_external(fields);
  if (fields.raw && fields.typed_count == 0) {
    if (fields.dtype == DType::kString)
      fail(Status::kFormat, "{} holds strings as raw data", fields.text());
    return from_bytes(fields, file_, *fields.raw, false);
  }
  return from_typed(fields);
}

Tensor TensorReader::from_bytes(const Fields& f, const std::shared_ptr<Buffer>& owner, Bytes data,
                                bool external) {
  const int64_t wanted = packed_bytes(f.dtype, f.count);
  if (static_cast<int64_t>(data.size()) != wanted)
    fail(Status::kFormat, "{} of type {}{} needs {} bytes, the file gives {}", f.text(),
         name(f.dtype), to_text(f.dims), wanted, data.size());
  return tensor_from_packed(f.dtype, f.dims, owner,
                            reinterpret_cast<const std::byte*>(data.data()) - owner->data(),
                            [&](int64_t bytes) {
                              if (external) charge(bytes);
                            });
}

namespace {

/// Elements of a tensor out of the entries of its list, one after the other.
class ListReader {
 public:
  ListReader(Tensor& out, int per_byte, std::string what)
      : out_(out),
        bits_(info(out.dtype()).bits),
        per_byte_(per_byte),
        count_(out.count()),
        what_(std::move(what)) {}

  template <class T>
  void add(T v) {
    out_.as<T>()[at_++] = std::move(v);
  }
  /// An entry of uint64_data, which holds u32 as well.
  void add_unsigned(int64_t v) {
    if (out_.dtype() == DType::kU64) return add(static_cast<uint64_t>(v));
    if (v < 0 || v > UINT32_MAX) does_not_fit(v);
    add(static_cast<uint32_t>(v));
  }
  /// An entry of int32_data, which holds all types of up to 32 bits but f32. Signed and unsigned
  /// spellings of the same bits are both in use, but for the 6-bit types, which the standard puts
  /// one in an entry, in its low bits, the others 0.
  void add_word(int64_t v) {
    const bool alone = bits_ < 8 && per_byte_ == 1;
    const int width = bits_ < 8 && !alone ? 8 : bits_;
    if (v < (alone ? 0 : -(int64_t{1} << (width - 1))) || v >= (int64_t{1} << width))
      does_not_fit(v);
    if (out_.dtype() == DType::kBool) return add(static_cast<uint8_t>(v != 0));
    if (bits_ < 8) return add_packed(static_cast<uint8_t>(v));
    if (bits_ == 8) return add(static_cast<uint8_t>(v));
    if (bits_ == 16) return add(static_cast<uint16_t>(v));
    add(static_cast<uint32_t>(v));
  }

 private:
  void add_packed(uint8_t byte) {
    const int64_t n = std::min<int64_t>(per_byte_, count_ - at_);
    unpack_elements(out_.dtype(), &byte, n, out_.as<uint8_t>() + at_);
    at_ += n;
  }
  [[noreturn]] void does_not_fit(int64_t v) const {
    fail(Status::kInvalidModel, "{}: {} does not fit {}", what_, v, name(out_.dtype()));
  }

  Tensor& out_;
  const int bits_, per_byte_;
  const int64_t count_;
  const std::string what_;  ///< the tensor, for messages
  int64_t at_ = 0;
};

}  // namespace

Tensor TensorReader::from_typed(const Fields& f) const {
  const int per_byte =
      f.dtype == DType::kString ? 1 : std::max(1, 8 / std::max<int>(1, info(f.dtype).bits));
  const int per_element = info(f.dtype).kind == DTypeKind::kComplex ? 2 : 1;
  const int64_t wanted = checked_mul(ceil_div(f.count, per_byte), per_element);
  if (f.typed_count != wanted || (wanted > 0 && f.typed_field != typed_field_of(f.dtype)))
    fail(Status::kFormat, "{} of type {}{} needs {} list entries, the file gives {}", f.text(),
         name(f.dtype), to_text(f.dims), wanted,
         f.typed_field == typed_field_of(f.dtype) ? f.typed_count : 0);
  Tensor out(f.dtype, f.dims);
  ListReader list(out, per_byte, f.text());
  for (Message m(source_, f.body); m.next();) {
    if (m.field() != f.typed_field || m.field() == 0) {
      m.skip();
      continue;
    }
    switch (m.field()) {
      case kFloatData:
        m.each_fixed<float>([&](float v) { list.add(v); });
        break;
      case kDoubleData:
        m.each_fixed<double>([&](double v) { list.add(v); });
        break;
      case kStringData:
        list.add(std::string(m.bytes()));
        break;
      case kInt64Data:
        m.each_integer([&](int64_t v) { list.add(v); });
        break;
      case kUint64Data:
        m.each_integer([&](int64_t v) { list.add_unsigned(v); });
        break;
      default:
        m.each_integer([&](int64_t v) { list.add_word(v); });
    }
  }
  return out;
}

Tensor TensorReader::from_external(const Fields& f) {
  std::optional<Bytes> location, offset, length, checksum;
  for (const auto& [key, value] : f.external_entries) {
    std::optional<Bytes>* slot = key == "location"   ? &location
                                 : key == "offset"   ? &offset
                                 : key == "length"   ? &length
                                 : key == "checksum" ? &checksum
                                                     : nullptr;
    if (!slot)
      fail(Status::kFormat, "{}: unknown external data entry '{}'", f.text(), printable(key));
    if (*slot) fail(Status::kFormat, "{}: external data entry '{}' is given twice", f.text(), key);
    *slot = value;
  }
  if (!location) fail(Status::kFormat, "{}: external data without location", f.text());
  if (f.dtype == DType::kString)
    fail(Status::kFormat, "{} holds strings as external data", f.text());
  if (base_dir_.empty())
    fail(Status::kInvalidModel,
         "{} has external data, and this model has no directory: load it from "
         "a file or give the directory",
         f.text());
  const int64_t wanted = packed_bytes(f.dtype, f.count);
  const int64_t start = offset ? decimal(*offset, "offset") : 0;
  if (length && decimal(*length, "length") != wanted)
    fail(Status::kFormat, "{} of type {}{} needs {} bytes, its external data has {}", f.text(),
         name(f.dtype), to_text(f.dims), wanted, printable(*length));
  auto it = external_.find(*location);
  if (it == external_.end()) {
    auto buffer = located(f.place(), [&] {
      return map_file_below(base_dir_, *location, source_.limits.file_bytes, copy_weights_);
    });
    external_bytes_ = checked_add(external_bytes_, buffer->bytes());
    it = external_.emplace(std::string(*location), std::move(buffer)).first;
  }
  const auto& buffer = it->second;
  if (start > buffer->bytes() || wanted > buffer->bytes() - start)
    fail(Status::kFormat, "{} needs {} bytes at offset {} of '{}', which has {}", f.text(), wanted,
         start, printable(*location), buffer->bytes());
  const Bytes data(reinterpret_cast<const char*>(buffer->data()) + start,
                   static_cast<size_t>(wanted));
  return from_bytes(f, buffer, data, true);
}

void TensorReader::charge(int64_t bytes) {
  generated_ = checked_add(generated_, bytes);
  const int64_t allowed =
      checked_add(checked_mul(external_bytes_, 4), source_.limits.generated_bytes);
  if (generated_ > allowed)
    fail(Status::kLimit,
         "tensors that are larger in memory than in the file need more than {} bytes", allowed);
}

Tensor TensorReader::sparse(Bytes body) {
  std::optional<Bytes> values_body, indices_body;
  Dims dims;
  for (Message m(source_, body); m.next();) switch (m.field()) {
      case 1:
        values_body = m.bytes();
        break;
      case 2:
        indices_body = m.bytes();
        break;
      case 3:
        m.each_integer([&](int64_t d) { add_dim(source_, dims, d); });
        break;
      default:
        m.skip();
    }
  if (!values_body || !indices_body)
    Message(source_, body).damaged("a sparse tensor lacks its values or indices");
  const Tensor values = dense(*values_body);
  const Tensor indices = dense(*indices_body);
  const int64_t count = element_count(dims);
  const int64_t rank = static_cast<int64_t>(dims.size());
  if (values.rank() != 1 || indices.dtype() != DType::kI64 ||
      !(indices.dims() == Dims{values.count()} || indices.dims() == Dims{values.count(), rank}))
    fail(Status::kInvalidModel, "a sparse tensor has values {} and indices {}",
         to_text(values.dims()), to_text(indices.dims()));
  charge(checked_mul(count, element_size(values.dtype())));

  Tensor out(values.dtype(), dims);
  if (values.dtype() != DType::kString)
    std::memset(out.data(), 0, static_cast<size_t>(out.byte_size()));
  int64_t previous = -1;
  for (int64_t i = 0; i < values.count(); ++i) {
    const int64_t flat = sparse_offset(indices, i, dims);
    if (flat <= previous || flat >= count)
      fail(Status::kInvalidModel, "sparse indices must ascend within {}: {} after {}",
           to_text(dims), flat, previous);
    previous = flat;
    if (values.dtype() == DType::kString) {
      out.as<std::string>()[flat] = values.as<std::string>()[i];
    } else {
      const auto size = static_cast<size_t>(element_size(values.dtype()));
      std::memcpy(out.as<std::byte>() + static_cast<size_t>(flat) * size,
                  values.as<std::byte>() + static_cast<size_t>(i) * size, size);
    }
  }
  return out;
}

}  // namespace xc::onnx
