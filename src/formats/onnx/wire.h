#pragma once
// Protobuf wire format, read defensively: every problem is an xc::Error of status kFormat that
// names the byte offset in the file.

#include <cstdint>
#include <protozero/pbf_reader.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "formats/format.h"

namespace xc::onnx {

/// A piece of the file, never copied.
using Bytes = std::string_view;

/// The file being read: where it starts (for offsets) and how much it may ask for.
struct Source {
  Bytes file;
  Limits limits;
  /// Value names, tensors and list entries so far, against limits.values.
  mutable int64_t values = 0;
  mutable int64_t nodes = 0;

  int64_t offset(const char* at) const { return at - file.data(); }
  void count_value() const {
    if (++values > limits.values)
      fail(Status::kLimit, "the model has more than {} names and values", limits.values);
  }
  void count_node() const {
    if (++nodes > limits.nodes)
      fail(Status::kLimit, "the model has more than {} nodes", limits.nodes);
  }
};

/// One message: a forward iterator over its fields.
class Message {
  /// Runs a reading step of protozero; its exceptions become errors with a place.
  template <class Body>
  decltype(auto) guarded(Body&& body) {
    try {
      return body();
    } catch (const protozero::exception& error) {
      damaged(problem(error));
    }
  }

 public:
  Message(const Source& source, Bytes body)
      : source_(&source), reader_(protozero::data_view(body.data(), body.size())) {}

  /// Moves to the next field; false at the end. Fields not read by the caller must be skip()ped.
  bool next() {
    const bool more = guarded([&] { return reader_.next(); });
    field_ = more ? reader_.tag() : 0;
    return more;
  }
  /// Its number; the reader itself forgets it with the payload.
  uint32_t field() const { return field_; }
  void skip() {
    guarded([&] { reader_.skip(); });
  }

  int64_t integer() {
    expect(protozero::pbf_wire_type::varint);
    return guarded([&] { return static_cast<int64_t>(reader_.get_uint64()); });
  }
  float real() {
    expect(protozero::pbf_wire_type::fixed32);
    return guarded([&] { return reader_.get_float(); });
  }
  Bytes bytes() {
    expect(protozero::pbf_wire_type::length_delimited);
    const auto view = guarded([&] { return reader_.get_view(); });
    return {view.data(), view.size()};
  }
  /// UTF-8 without NUL, at most `limits.name_bytes` long.
  Bytes name() {
    const Bytes text = bytes();
    check_name(text);
    source_->count_value();
    return text;
  }

  /// A repeated number, packed or not: body(value) for each of this field's entries.
  template <class Body>
  void each_integer(Body&& body) {
    if (reader_.wire_type() == protozero::pbf_wire_type::varint) return body(integer());
    Bytes rest = bytes();
    const char* at = rest.data();
    const char* const end = at + rest.size();
    while (at < end)
      body(guarded([&] { return static_cast<int64_t>(protozero::decode_varint(&at, end)); }));
  }
  template <class T, class Body>
  void each_fixed(Body&& body) {
    constexpr auto single =
        sizeof(T) == 4 ? protozero::pbf_wire_type::fixed32 : protozero::pbf_wire_type::fixed64;
    if (reader_.wire_type() == single) {
      if constexpr (sizeof(T) == 4)
        body(guarded([&] { return reader_.get_float(); }));
      else
        body(guarded([&] { return reader_.get_double(); }));
      return;
    }
    const Bytes packed = bytes();
    if (packed.size() % sizeof(T) != 0) damaged("a packed list ends inside a number");
    for (size_t i = 0; i < packed.size(); i += sizeof(T)) {
      T value;
      __builtin_memcpy(&value, packed.data() + i, sizeof(T));
      body(value);
    }
  }

  [[noreturn]] void damaged(std::string_view what) const {
    throw Error(Status::kFormat, fmt::format("damaged ONNX file: {}", what),
                fmt::format("byte {}", source_->offset(reader_.data().data())));
  }
  const Source& source() const { return *source_; }

 private:
  void expect(protozero::pbf_wire_type type) const {
    if (reader_.wire_type() != type)
      damaged(fmt::format("field {} has wire type {}", field_,
                          static_cast<uint32_t>(reader_.wire_type())));
  }
  void check_name(Bytes text) const;
  /// What the reader found, in words of the format.
  static std::string_view problem(const protozero::exception& error);

  const Source* source_;
  protozero::pbf_reader reader_;
  uint32_t field_ = 0;
};

}  // namespace xc::onnx
